"""The configuration while einmal runs: SIGHUP, watch_config, what cannot change (contract §9)."""
import os
import signal
import threading
import time

from lib.case import Closed, Reply, Truncated, test


@test("SIGHUP: a valid file is swapped in, running requests keep the old one (O02)", "race asan")
def reload(t):
    t.einmal(route={"required": False})
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="running")
    running = t.start(key="running")
    t.check(t.api.wait_count(1), "reaches the API")
    t.status(t.ask(), 201, "not required")
    t.proxy.configure(route={"required": True})
    t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: t.ask().status == 400, 5, "the new rule applies")
    t.problem(t.ask(), 400, "key-missing")
    gate.set()
    t.fresh(running.read())
    t.check(t.ask(key="running").replayed, "records are not touched by a reload")
    t.effects(1, key="running")


@test("SIGHUP with a bad file: the old configuration stays, the error is told with its place (O02)", "asan")
def bad_reload(t):
    t.einmal(route={"required": True})
    good = t.proxy.read(t.proxy.file)
    for bad in (good.replace("required: true", "requird: false"), "routes: [", good.replace("required: true", "required: maybe")):
        t.proxy.write(bad)
        mark = len(t.proxy.stderr())
        t.proxy.signal(signal.SIGHUP)
        t.wait_until(lambda: "error" in t.proxy.stderr()[mark:], 5, "an error is logged")
        t.check("einmal.yaml:" in t.proxy.stderr()[mark:], "with its place", t.proxy.stderr()[mark:])
        t.problem(t.ask(), 400, "key-missing", text="the old rule applies")
    os.unlink(t.proxy.file)
    t.proxy.signal(signal.SIGHUP)
    time.sleep(0.3)
    t.problem(t.ask(), 400, "key-missing")
    t.proxy.write(good.replace("required: true", "required: false"))
    t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: t.ask().status == 201, 5, "a good file is taken again")


@test("SIGHUP that changes what cannot change while running: named", "asan")
def fixed_settings(t):
    t.einmal()
    for setting in ({"listen": [{"address": "127.0.0.1:1"}]}, {"store": {"path": "/elsewhere"}}):
        t.proxy.configure(**setting)
        mark = len(t.proxy.stderr())
        t.proxy.signal(signal.SIGHUP)
        name = list(setting)[0]
        t.wait_until(lambda: name in t.proxy.stderr()[mark:], 5, "%s is named" % name)
        t.fresh(t.ask(key="k-" + name))


@test("20 SIGHUPs a second under load: nothing fails, nothing runs twice (O02)", "race asan", seconds=60)
def reload_under_load(t):
    t.einmal(workers=4)
    failures = []

    def load(number):
        client = t.client()
        try:
            for n in range(40):
                for _ in range(2):
                    answer = client.ask(key="l%d-%d" % (number, n))
                    if answer.status != 201:
                        failures.append(answer)
        except (Closed, Truncated, OSError) as error:
            failures.append(repr(error))
    threads = [t.thread(load, number) for number in range(8)]
    for number in range(20):
        t.proxy.configure(route={"wait_timeout": "%ds" % (10 + number)})
        t.proxy.signal(signal.SIGHUP)
        time.sleep(0.05)
    for thread in threads:
        thread.join(40)
    t.equal(failures, [], "failures")
    t.effects(8 * 40)
    t.equal(sum(1 for n in t.api.effects.values() if n > 1), 0, "twice")


@test("a change of what identifies actions is told at start and at reload", "asan")
def identification_changed(t):
    t.einmal()
    t.fresh(t.ask(key="k"))
    t.close_clients()
    t.equal(t.proxy.stop(), 0, "exit code")
    t.proxy.configure(route={"scope": ["header:X-User"]})
    mark = len(t.proxy.stderr())
    t.proxy.start()
    t.wait_until(lambda: "orders" in t.proxy.stderr()[mark:] and "scope" in t.proxy.stderr()[mark:], 3, "warned at start")
    t.fresh(t.ask(key="k"), text="as told: another action now")
    mark = len(t.proxy.stderr())
    t.proxy.configure(route={"scope": ["header:X-User"], "fingerprint": "none"})
    t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: "orders" in t.proxy.stderr()[mark:] and "fingerprint" in t.proxy.stderr()[mark:], 3, "warned at reload")
