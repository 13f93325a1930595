"""Expiry and sweeping (contract §3 `retention`, §4.3; case S32)."""
import os
import threading
import time

from lib.case import Raw, Reply, request_bytes, test


@test("expired means absent: replayed before, executed after retention (S32)", "asan")
def expiry(t):
    t.einmal(route={"retention": "%dms" % (2000 * t.slow)})
    first = t.fresh(t.ask(key="k"))
    began = time.monotonic()
    t.replay(t.ask(key="k"), first)
    time.sleep(max(0, began + 1.5 * t.slow - time.monotonic()))
    t.replay(t.ask(key="k"), first, "before the end")
    time.sleep(max(0, began + 2.0 * t.slow + 0.6 - time.monotonic()))
    second = t.fresh(t.ask(key="k"), text="after the end")
    t.effects(2, key="k")
    t.replay(t.ask(key="k"), second)
    t.effects(2, key="k")


@test("another content after expiry is no mismatch", "asan")
def expired_mismatch(t):
    t.einmal(route={"retention": "%dms" % (1000 * t.slow)})
    t.fresh(t.ask(key="k", body=b"one"))
    t.problem(t.ask(key="k", body=b"two"), 422, "key-reused")
    time.sleep(t.slow + 0.4)
    t.fresh(t.ask(key="k", body=b"two"))
    t.effects(2)


@test("unknown outcomes have a retention of their own; in progress never expires", "asan")
def unknown_retention(t):
    t.einmal(route={"retention": "1s", "unknown_retention": "3s"}, upstream={"response_timeout": "30s"})
    t.api.on(Raw(end="close"), key="u", times=1)
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="running", times=1)
    running = t.start(key="running")
    t.status(t.ask(key="u"), 502)
    time.sleep(1.5)
    t.problem(t.ask(key="u"), 409, "outcome-unknown")
    late = t.start(key="running")
    t.check(late.waits(0.3), "an action that runs longer than retention is still in progress")
    gate.set()
    first = t.fresh(running.read())
    t.replay(late.read(), first)
    t.effects(1, key="running")
    time.sleep(2.2)
    t.fresh(t.ask(key="u"), text="after unknown_retention")
    t.effects(2, key="u")


@test("retention counts over a restart", "asan")
def expiry_over_restart(t):
    t.einmal(route={"retention": "2s"})
    first = t.fresh(t.ask(key="k"))
    began = time.monotonic()
    t.proxy.restart()
    again = t.ask(key="k")
    if time.monotonic() - began < 2.0:
        t.replay(again, first)
    time.sleep(max(0, 2.8 - (time.monotonic() - began)))
    t.fresh(t.ask(key="k"))
    t.effects(2, key="k")


@test("sweeping keeps the store flat under load, and never touches what runs (S32)", "race asan", seconds=60)
def sweeping(t):
    t.einmal(route={"retention": "1s"}, upstream={"response_timeout": "30s"}, store={"max_size": "4MiB"})
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="running", times=1)
    running = t.start(key="running")
    t.check(t.api.wait_count(1), "reaches the API")
    refused, done = [0], [0]

    def load(number):
        client = t.client()
        n = 0
        end = time.monotonic() + 5
        while time.monotonic() < end:
            answer = client.ask(key="l%d-%d" % (number, n), body=b"x" * 100)
            n += 1
            if answer.status == 503:
                refused[0] += 1
                time.sleep(0.02)
            elif answer.status == 201:
                done[0] += 1
    threads = [t.thread(load, number) for number in range(8)]
    for thread in threads:
        thread.join(30)
    t.check(done[0] > 200, "work was done", done, refused)
    t.check(os.stat(t.proxy.store + "/data.mdb").st_size <= 4 << 20, "within max_size")
    gate.set()
    first = t.fresh(running.read())
    t.replay(t.ask(key="running"), first)
    t.effects(1, key="running")
    t.equal(sum(1 for n in t.api.effects.values() if n > 1), 0, "keys executed twice")
    time.sleep(1.5)
    t.fresh(t.ask(key="after"), text="room again")


@test("many expired records are swept in small steps; requests go on meanwhile (S32)", seconds=60)
def many_expired(t):
    t.einmal(route={"retention": "2s"}, workers=4)
    clients = [t.client() for _ in range(16)]
    data = {}
    began = time.monotonic()
    count = 0
    while time.monotonic() - began < 2.0:
        for number, client in enumerate(clients):
            data[number] = request_bytes(key="e%d" % count)
            client.send(data[number])
            count += 1
        for client in clients:
            client.read()
    slowest = 0.0
    client = clients[0]
    end = time.monotonic() + 3
    number = 0
    while time.monotonic() < end:
        began = time.monotonic()
        t.fresh(client.ask(key="p%d" % number))
        slowest = max(slowest, time.monotonic() - began)
        number += 1
        time.sleep(0.005)
    t.within(slowest, 4.0, "the slowest request while %d records expire" % count)
