#!/usr/bin/env python3
"""Kills the release binary at random times under load and checks that nothing was executed twice and nothing lost.

    kill_loop.py --einmal PATH --kills N [--seed S] [--clients N] [--keep]

Client threads send requests with retries on a changing set of keys, several threads on the same key; the API counts
effects and answers after a small random delay with a body that names the execution. einmal is killed (SIGKILL) at
random times and started again at once on the same store. Throughout and at the end must hold:

  1. the API executed no key more than once;
  2. an answer that a client got whole is the same for ever after;
  3. a key reported as unknown never changes into something else, and none that was answered is reported unknown;
  4. after the last restart every key answers at once: replayed, executed (if the API never saw it) or outcome-unknown;
  5. einmal started after every kill.

Ends with `N passed, N failed`, one for each of these.
"""
import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from lib.api import Api, Reply  # noqa: E402
from lib.case import own_address  # noqa: E402
from lib.client import Client, Closed, ProtocolError, Truncated, request_bytes  # noqa: E402
from lib.proxy import Einmal, StartFailed  # noqa: E402

LIVE_KEYS = 48  # keys that the clients work on at a time
ASKED_ENOUGH = 6  # times a key is answered before it makes room for a new one


class World:
    """What the clients know; one lock around all of it."""

    def __init__(self, seed):
        self.lock = threading.Lock()
        self.random = random.Random(seed)
        self.live, self.next_key = [], 0
        self.bodies = {}  # key: request body
        self.acknowledged, self.unknown, self.answers = {}, set(), {}
        self.failures = {number: [] for number in range(1, 6)}
        self.requests, self.broken = 0, 0
        self.stop = False

    def fail(self, invariant, text):
        with self.lock:
            self.failures[invariant].append(text)

    def pick(self):
        with self.lock:
            if len(self.live) < LIVE_KEYS:
                key = "key-%d" % self.next_key
                self.next_key += 1
                self.bodies[key] = b'{"n":%d,"pad":"%s"}' % (self.next_key, b"x" * self.random.choice((0, 10, 500, 9000)))
                self.live.append(key)
                return key
            return self.random.choice(self.live)

    def answered(self, key, answer):
        """Takes note of a whole answer and judges it."""
        with self.lock:
            self.requests += 1
            self.answers[key] = self.answers.get(key, 0) + 1
            if self.answers[key] >= ASKED_ENOUGH and key in self.live:
                self.live.remove(key)
        if answer.status == 201:
            seen = (answer.status, answer.body, answer.get("Location"))
            with self.lock:
                known = self.acknowledged.setdefault(key, seen)
                was_unknown = key in self.unknown
            if known != seen:
                self.fail(2, "%s: %r, then %r" % (key, known, seen))
            if was_unknown:
                self.fail(3, "%s: outcome-unknown, then 201" % key)
        elif answer.status == 409 and b'"code":"outcome-unknown"' in answer.body:
            with self.lock:
                self.unknown.add(key)
                lost = key in self.acknowledged
            if lost:
                self.fail(3, "%s: acknowledged, then outcome-unknown" % key)
        elif answer.status not in (502, 503) and b'"code":"in-progress"' not in answer.body:
            self.fail(4, "%s: %r" % (key, answer))


def work(world, address):
    client = None
    while not world.stop:
        key = world.pick()
        try:
            if client is None:
                client = Client(address, 20)
            answer = client.send(request_bytes(key=key, body=world.bodies[key])).read()
            world.answered(key, answer)
            if answer.closes:
                client.close()
                client = None
        except (OSError, Closed, Truncated):
            with world.lock:
                world.broken += 1
            if client is not None:
                client.close()
                client = None
            time.sleep(0.005)
        except ProtocolError as error:
            world.fail(4, "%s: %s" % (key, error))
            client = None
        time.sleep(0.001)
    if client is not None:
        client.close()


def small_delay(source):
    def wait(connection, request):
        time.sleep(source.random() ** 3 * 0.03)
    return wait


def answer_of(source):
    """One reply object for all: a delay, then a body that names the execution, of varying size and framing."""
    class Varying(Reply):
        def perform(self, connection, request):
            pad = b" " * source.choice((0, 0, 0, 2000, 12000))
            reply = Reply(201, None, [b'{"id":%d}' % request.number, pad] if pad else None, delay=small_delay(source),
                          framing=source.choice(("length", "chunked")))
            return reply.perform(connection, request)
    return Varying()


def kill_and_start(world, proxy, number, power):
    proxy.kill()
    if power:
        power.cut()
    try:
        proxy.start()
        return True
    except StartFailed as error:
        world.fail(5, "after kill %d: %s" % (number, error))
        return False


def final_check(world, api, proxy, keys):
    """Asks for every key once more. Returns how many were replayed, executed now, unknown."""
    counts = {"replayed": 0, "executed now": 0, "unknown": 0}
    client = Client(proxy.address, 10)
    for key in keys:
        before = api.count_key(key)
        began = time.monotonic()
        try:
            answer = client.send(request_bytes(key=key, body=world.bodies[key])).read()
        except (OSError, Closed, Truncated, ProtocolError) as error:
            world.fail(4, "%s: %r" % (key, error))
            client = Client(proxy.address, 10)
            continue
        if time.monotonic() - began > 2:
            world.fail(4, "%s: blocked for %.1f s" % (key, time.monotonic() - began))
        world.answered(key, answer)
        if answer.status == 201 and answer.replayed:
            counts["replayed"] += 1
        elif answer.status == 201:
            counts["executed now"] += 1
            if before:
                world.fail(1, "%s: executed again at the end" % key)
        elif answer.status == 409:
            counts["unknown"] += 1
        else:
            world.fail(4, "%s: %r" % (key, answer))
    client.close()
    return counts


class CountingApi(Api):
    def count_key(self, key):
        with self.changed:
            return self.effects[("POST", "/orders", key)]


def run(arguments, directory, power=None, durability="strict"):
    """`power`: what power_loss.py makes of each kill."""
    world = World(arguments.seed)
    source = random.Random(arguments.seed + 1)
    address = own_address()
    api = CountingApi(address, keep=1000)
    api.reply(answer_of(source))
    proxy = Einmal(os.path.abspath(arguments.einmal), directory, address, api.url, env=power.env if power else None,
                   store={"max_size": "1GiB", "durability": durability},
                   log={"access": False, "level": "warning"})
    proxy.start()
    threads = [threading.Thread(target=work, args=(world, proxy.address), daemon=True) for _ in range(arguments.clients)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    kills = 0
    while kills < arguments.kills:
        time.sleep(source.choice((0.05, 0.15, 0.3, 0.5)) + source.random() * 0.1)
        kills += 1
        if not kill_and_start(world, proxy, kills, power):
            break
        if kills % 100 == 0:
            print("%d kills, %d answers, %d keys, %d effects" % (kills, world.requests, world.next_key, api.executed_count))
            sys.stdout.flush()
    time.sleep(0.5)
    world.stop = True
    for thread in threads:
        thread.join(30)
    if proxy.alive:
        kill_and_start(world, proxy, kills + 1, power)
    time.sleep(0.5)
    counts = final_check(world, api, proxy, list(world.bodies)) if proxy.alive else {}
    if proxy.alive and proxy.stop() != 0:
        world.fail(5, "exit code after SIGTERM")
    for (_, _, key), number in api.effects.items():
        if number > 1:
            world.fail(1, "%s: executed %d times" % (key, number))
    for error in api.errors:
        world.fail(4, "at the API: %s" % error)
    print("%d kills in %.0f s, seed %d: %d answers, %d broken connections, %d keys, %d effects; at the end: %s"
          % (kills, time.monotonic() - began, arguments.seed, world.requests, world.broken, len(world.bodies),
             api.executed_count, ", ".join("%d %s" % (n, name) for name, n in counts.items())))
    api.close()
    return world


NAMES = {1: "no key executed more than once", 2: "acknowledged answers stay the same", 3: "unknown stays unknown",
         4: "every key answers, and only as it may", 5: "einmal starts after every kill"}


def main():
    parser = argparse.ArgumentParser(description="kill -9 under load")
    parser.add_argument("--einmal", required=True)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", action="store_true", help="keep the directory with the store and the logs")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1 << 30)
    sys.setswitchinterval(0.001)
    directory = tempfile.mkdtemp(prefix="einmal-kill-")
    try:
        world = run(arguments, directory)
        failed = 0
        for number, name in NAMES.items():
            failures = world.failures[number]
            failed += bool(failures)
            print("%s  %s" % ("FAILED" if failures else "ok    ", name))
            for text in failures[:5]:
                print("        %s" % text)
        if failed:
            with open(os.path.join(directory, "stderr"), "rb") as file:
                print("end of standard error:\n" + file.read()[-3000:].decode("utf-8", "replace"))
        print("%d passed, %d failed" % (len(NAMES) - failed, failed))
        return 1 if failed else 0
    finally:
        if arguments.keep:
            print("kept: %s" % directory, file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
