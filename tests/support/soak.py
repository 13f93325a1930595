#!/usr/bin/env python3
"""Mixed traffic with faults for a given time against a running einmal.

    soak.py --einmal PATH --minutes N [--clients N] [--seed S]

Client threads send keyed requests (several attempts each, at once and one after another), unkeyed ones, large bodies both
ways, WebSockets, and behave badly: they reset, half-close, read slowly, send rubbish. The API answers in every way that
an API can: at once, in pieces, late, cut, reset, not at all. Retention is short, so that the store sweeps all the time; a
SIGHUP comes every quarter of a minute. A line is printed a minute. At the end must hold:

  1. no key had more than one effect, and none that was answered had none;
  2. all attempts of a key that got the answer got the same one;
  3. no answer was other than its kind allows (504: a busy machine);
  4. memory (RssAnon) is flat: the last quarter of the run is not above the second by more than a tenth and 4 MiB;
  5. descriptors are flat, and back to about the level of the start when all clients have left;
  6. the store's file has stopped growing in the second half;
  7. SIGTERM ends it with 0, and standard error holds no report and no failed assertion.

Ends with `N passed, N failed`, one for each of these.
"""
import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from lib.api import Api, Raw, Reply  # noqa: E402
from lib.case import own_address  # noqa: E402
from lib.client import Client, Closed, ProtocolError, Truncated, request_bytes  # noqa: E402
from lib.proxy import Einmal  # noqa: E402

OFFER = [("Connection", "upgrade"), ("Upgrade", "websocket")]
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
KINDS = ["plain"] * 8 + ["stream", "large", "slow", "late", "close", "reset", "cut"]
BROKEN = ("close", "reset", "cut")
WAYS = ["keyed"] * 10 + ["unkeyed", "download", "upload", "websocket", "slow-reader", "reset", "rubbish", "idle"]
UNSENT = ("connected", "taken", "resolved")  # in warnings: no connection to the API was to be had, which needs an explanation
WITHDRAWN = b"given up before anything was sent"  # the first one reset in the queue, and only half-closed ones waited
REPORTS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:", "Assertion `")


def echo(connection, _):
    while True:
        data = connection.sock.recv(1 << 16)
        if not data:
            break
        connection.send(data)


class Answers:
    """The API's: the kind is the key's first word, or the path's."""
    before_body = False

    def perform(self, connection, request):
        kind = (request.key or request.path.lstrip("/")).split("-", 1)[0]
        body = b'{"id":%d}' % request.number
        replies = {"stream": Reply(200, [], [body, 0.01, b"x" * 3000, 0.01, b"end"], framing="chunked"),
                   "large": Reply(200, [], body + b"y" * 300000), "slow": Reply(201, body=body, delay=0.1),
                   "late": Reply(201, body=body, delay=1.0), "close": Raw(end="close"), "reset": Raw(0.01, end="reset"),
                   "cut": Raw(b"HTTP/1.1 201 C\r\nContent-Length: 50\r\n\r\nabc", 0.01, end="close"),
                   "download": Reply(200, [], b"z" * (2 << 20)), "websocket": Raw(SWITCH, echo, end="close")}
        return replies.get(kind, Reply(201, body=body)).perform(connection, request)


class Soak:
    def __init__(self, arguments):
        self.random = random.Random(arguments.seed)
        self.seed, self.minutes, self.client_count = arguments.seed, arguments.minutes, arguments.clients
        self.directory = tempfile.mkdtemp(prefix="einmal-soak-")
        self.lock, self.stop = threading.Lock(), False
        self.next_key, self.requests, self.effects = 0, 0, 0
        self.failures = {number: [] for number in range(1, 8)}
        self.api = Api(own_address(), keep=100)
        self.api.reply(Answers())
        self.proxy = Einmal(os.path.abspath(arguments.einmal), self.directory, self.api.address, self.api.url,
                            route={"retention": "20s", "unknown_retention": "20s", "match": {"path": "/**"}},
                            upstream={"response_timeout": "700ms", "outcome_timeout": "10s"}, log={"level": "warning"})

    def fail(self, number, text):
        with self.lock:
            self.failures[number].append(text)

    def count(self):
        with self.lock:
            self.requests += 1

    # ---- keyed requests ----

    def attempt(self, key, answers, source):
        client = None
        try:
            client = Client(self.proxy.address, 30)
            data = request_bytes(key=key, target="/orders", body=b"{}")
            way = source.choice(["whole"] * 5 + ["pieces", "half-close", "reset"])
            if way == "reset":
                client.send(data[:source.randrange(1, len(data) + 1)])
                client.reset()
                return
            client.send_cut(data, [source.randrange(1, len(data))] if way == "pieces" else [], 0.001)
            if way == "half-close":
                client.half_close()
            answer = client.read()
            answers.append((answer.status, answer.body))
        except (Closed, Truncated):
            answers.append((0, b""))
        except (OSError, ProtocolError) as error:
            self.fail(3, "%s: %r" % (key, error))
        finally:
            self.count()
            if client:
                client.close()

    def keyed(self, source):
        with self.lock:
            self.next_key += 1
            key = "%s-%d" % (source.choice(KINDS), self.next_key)
        answers = []
        together = [threading.Thread(target=self.attempt, args=(key, answers, random.Random(source.random())))
                    for _ in range(source.randrange(1, 4))]
        for thread in together:
            thread.start()
        for thread in together:
            thread.join()
        self.attempt(key, answers, source)
        time.sleep(0.3 if key.startswith("late") else 0)
        self.judge(key, answers)

    def judge(self, key, answers):
        kind = key.split("-", 1)[0]
        with self.api.changed:
            effect = ("POST", "/orders", key)
            effects = self.api.effects.pop(effect, 0)
        with self.lock:
            self.effects += effects
        if effects > 1:
            self.fail(1, "%s: %d effects" % (key, effects))
        good = [answer for answer in answers if answer[0] in (200, 201)]
        if good and effects != 1:
            self.fail(1, "%s: answered, but %d effects" % (key, effects))
        if len(set(good)) > 1:
            self.fail(2, "%s: %r" % (key, [(status, body[:40]) for status, body in set(good)]))
        for status, body in answers:
            fine = status in ((0, 502, 504, 409) if kind in BROKEN else (200, 201, 504))
            fine = fine or (status == 409 and WITHDRAWN in body)
            if not fine:
                self.fail(3, "%s: %d %r" % (key, status, body[:200]))

    # ---- the rest ----

    def unkeyed(self, source):
        with Ended(Client(self.proxy.address, 30)) as client:
            for _ in range(source.randrange(1, 20)):
                answer = client.ask(source.choice(("GET", "POST", "DELETE")), target="/free")
                self.count()
                if answer.status not in (201, 504):
                    self.fail(3, "unkeyed: %r" % answer)
                if answer.closes:
                    break

    def download(self, _):
        with Ended(Client(self.proxy.address, 30)) as client:
            answer = client.ask("GET", target="/download")
            if answer.status != 504 and len(answer.body) != 2 << 20:
                self.fail(3, "a download is not whole")

    def upload(self, source):
        with Ended(Client(self.proxy.address, 30)) as client:
            answer = client.ask("POST", target="/upload", body=b"u" * (2 << 20), framing=source.choice(("length", "chunked")))
            if answer.status not in (201, 504):
                self.fail(3, "upload: %r" % answer)

    def websocket(self, source):
        with Ended(Client(self.proxy.address, 30)) as client:
            client.send(request_bytes("GET", "/websocket", headers=OFFER))
            status = client.read_head().status
            if status != 101:
                if status != 504:
                    self.fail(3, "no websocket: %d" % status)
                return
            for _ in range(source.randrange(1, 30)):
                data = b"p" * source.randrange(1, 9000)
                client.send(data)
                while len(client.buffer) < len(data):
                    if not client.receive():
                        self.fail(3, "a websocket was cut")
                        return
                client.buffer = client.buffer[len(data):]
            if source.random() < 0.3:
                client.reset()

    def slow_reader(self, source):
        with Ended(Client(self.proxy.address, 30, receive_buffer=4096)) as client:
            client.send(request_bytes("GET", "/download"))
            for _ in range(20):
                if client.sock.recv(20000).startswith(b"HTTP/1.1 504 "):
                    return
                time.sleep(0.01)
            if source.random() < 0.5:
                client.reset()

    def reset(self, source):
        with Ended(Client(self.proxy.address, 30)) as client:
            client.send(request_bytes(source.choice(("GET", "POST")), source.choice(("/slow", "/download", "/late"))))
            time.sleep(source.random() * 0.02)
            client.reset()

    def rubbish(self, source):
        with Ended(Client(self.proxy.address, 30)) as client:
            client.send(bytes(source.randrange(256) for _ in range(source.randrange(1, 300))))
            client.half_close()
            client.expect_end(10)

    def idle(self, source):
        with Ended(Client(self.proxy.address, 30)):
            time.sleep(source.random())

    def work(self, number):
        source = random.Random(self.seed + number)
        while not self.stop:
            way = source.choice(WAYS)
            try:
                getattr(self, way.replace("-", "_"))(source)
            except (Closed, Truncated, OSError, ProtocolError) as error:
                self.fail(3, "%s: %r" % (way, error))
            if way != "keyed":
                self.count()

    # ---- the run ----

    def sample(self):
        store = sum(os.path.getsize(os.path.join(self.proxy.store, name)) for name in os.listdir(self.proxy.store))
        return self.proxy.memory(), self.proxy.fds(), store >> 10

    def run(self):
        self.proxy.start()
        level = self.proxy.fds()
        threads = [threading.Thread(target=self.work, args=(number,), daemon=True) for number in range(self.client_count)]
        for thread in threads:
            thread.start()
        samples, began, minute, reloads = [], time.monotonic(), 0, 0
        while time.monotonic() - began < self.minutes * 60 and self.proxy.alive:
            time.sleep(1)
            samples.append(self.sample())
            seconds = time.monotonic() - began
            if seconds // 15 > reloads:
                reloads += 1
                self.proxy.signal(signal.SIGHUP)
            if seconds // 60 > minute:
                minute += 1
                self.say(minute, samples[-60:])
        self.stop = True
        for thread in threads:
            thread.join(40)
        return level, samples

    def say(self, minute, samples):
        memory, fds, store = zip(*samples)
        failures = sum(len(texts) for texts in self.failures.values())
        print("minute %d: %d requests, %d keys, %d effects; memory %d KiB (at most %d), descriptors %d (at most %d), store %d KiB; %d failures"
              % (minute, self.requests, self.next_key, self.effects, memory[-1], max(memory), fds[-1], max(fds), store[-1], failures))
        sys.stdout.flush()

    def compare(self, samples):
        """The second quarter with the last."""
        quarter = max(1, len(samples) // 4)
        second, last = samples[quarter:2 * quarter] or samples, samples[-quarter:]
        typical = [[sorted(part)[len(part) // 2] for part in zip(*some)] for some in (second, last)]
        (memory, fds, _), (memory_after, fds_after, store_after) = typical
        if memory_after > memory * 1.1 + 4096:
            self.fail(4, "memory went from %d to %d KiB" % (memory, memory_after))
        if fds_after > fds * 1.25 + 16:
            self.fail(5, "descriptors went from %d to %d" % (fds, fds_after))
        store = sorted(sample[2] for sample in samples[2 * quarter:3 * quarter])[quarter // 2]  # it grows with the load at first
        if store_after > store * 1.1 + 1024:
            self.fail(6, "the store went from %d to %d KiB" % (store, store_after))

    def end(self, level):
        if not self.proxy.alive:
            self.fail(7, "einmal died: %s" % self.proxy.process.returncode)
            return
        until = time.monotonic() + 15  # the API's late answers, idle connections
        while self.proxy.fds() > level + 6 and time.monotonic() < until:
            time.sleep(0.1)
        if self.proxy.fds() > level + 6:
            self.fail(5, "descriptors: %d at the start, %d at the end: %r" % (level, self.proxy.fds(), self.proxy.fd_targets()[-9:]))
        code = self.proxy.stop(40)
        if code != 0:
            self.fail(7, "exit code %d" % code)
        for word in REPORTS:
            if word in self.proxy.stderr():
                self.fail(7, "standard error holds: %s" % word)


class Ended:
    """A client that is closed whatever happens."""

    def __init__(self, client):
        self.client = client

    def __enter__(self):
        return self.client

    def __exit__(self, *_):
        self.client.close()


def main():
    parser = argparse.ArgumentParser(description="mixed traffic with faults for a long time")
    parser.add_argument("--einmal", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    arguments = parser.parse_args()
    print("seed %d" % arguments.seed)
    soak = Soak(arguments)
    try:
        level, samples = soak.run()
        if arguments.minutes >= 4:
            soak.compare(samples)
        else:
            print("skipped: memory, descriptors, store over time: four minutes are needed to tell")
        soak.end(level)
        for line in [line for line in soak.proxy.stderr().split("\n") if any(word in line for word in UNSENT)][:5]:
            print(line)
        print("%d requests, %d keys, %d effects" % (soak.requests, soak.next_key, soak.effects))
    finally:
        if soak.proxy.process is not None:
            soak.proxy.kill()
        soak.api.close()
        shutil.rmtree(soak.directory, ignore_errors=True)
    failed = 0
    for number, texts in soak.failures.items():
        failed += bool(texts)
        for text in texts[:10]:
            print("%d: %s" % (number, text))
        if len(texts) > 10:
            print("%d: and %d more" % (number, len(texts) - 10))
    print("%d passed, %d failed" % (len(soak.failures) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
