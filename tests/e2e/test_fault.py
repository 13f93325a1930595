"""A disk that fails: single writes, for a while, for ever (contract §4 "Failures of the store"; cases S30, S31).

The disk is tests/support/lmdb_fault.c, preloaded; it is told by a control file what to fail.
"""
import os
import shutil
import subprocess
import threading
import time

from lib.case import Closed, Raw, Reply, Skip, Truncated, request_bytes, test

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "support", "lmdb_fault.c")
KINDS = ("data", "meta", "sync", "any")


def shim(t):
    """The built library, else one built here."""
    if t.options.sanitizer == "tsan":
        raise Skip("the fault shim is not preloaded under the thread sanitizer")
    beside = os.path.dirname(t.options.binary)
    for directory in (t.options.support, os.path.join(beside, "tests"), beside):
        for name in ("liblmdb_fault.so", "lmdb_fault.so"):
            if directory and os.path.exists(os.path.join(directory, name)):
                return os.path.join(directory, name)
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler or not os.path.exists(SOURCE):
        raise Skip("no fault shim beside the binary, and none can be built")
    out = t.path("lmdb_fault.so")
    done = subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", out, SOURCE, "-ldl", "-pthread"], capture_output=True)
    if done.returncode != 0:
        raise Skip("the fault shim cannot be built: %s" % done.stderr.decode()[-300:])
    return out


class Disk:
    def __init__(self, t):
        self.t, self.control = t, t.path("disk-control")
        asan = os.environ.get("ASAN_OPTIONS", "")
        self.env = {"LD_PRELOAD": shim(t), "EINMAL_FAULT_CONTROL": self.control}
        if t.options.sanitizer == "asan":
            self.env["ASAN_OPTIONS"] = (asan + ":" if asan else "") + "verify_asan_link_order=0"

    def fails(self, line):
        with open(self.control + ".new", "w") as file:
            file.write(line + "\n")
        os.rename(self.control + ".new", self.control)

    def works(self):
        if os.path.exists(self.control):
            os.unlink(self.control)


def failing(t, **settings):
    disk = Disk(t)
    t.einmal(env=disk.env, **settings)
    return disk


@test("a reservation that cannot be written: 503, nothing forwarded; replays and unkeyed go on; then all is well (S30)",
      "asan", seconds=60)
def reservation_fails(t):
    disk = failing(t)
    known = t.fresh(t.ask(key="known"))
    for kind in KINDS:
        for error in ("EIO", "ENOSPC"):
            disk.fails("%s %s" % (kind, error))
            key = "%s-%s" % (kind, error)
            for _ in range(2):
                answer = t.ask(key=key)
                t.problem(answer, 503, "store-unavailable", retry_after=True, text=key)
                t.within(answer.took, 7.0, "not longer than store.timeout")
                t.effects(0, key=key)
            if kind in ("data", "sync"):
                t.replay(t.ask(key="known"), known, "a known key: " + key)
                t.problem(t.ask(key="known", body=b"other"), 422, "key-reused", text=key)
            else:  # a failed meta page makes LMDB refuse everything until the store has opened it again, which needs no write
                t.wait_until(lambda: t.ask(key="known").replayed, 3, "a known key: " + key)
            t.status(t.ask("GET", target="/free"), 200, "unkeyed: " + key)
            t.check(t.proxy.alive, "alive: " + key)
            disk.works()
            t.wait_until(lambda: t.ask(key=key).status == 201, 6, "executed when the disk works again: " + key)
            t.check(t.ask(key=key).replayed, "recorded: " + key)
            t.effects(1, key=key)
            t.replay(t.ask(key="known"), known, "a known key afterwards: " + key)
    t.effects(1, key="known")
    t.proxy.restart()
    for kind in KINDS:
        t.check(t.ask(key=kind + "-EIO").replayed, "recorded: " + kind)
        t.effects(1, key=kind + "-EIO")


@test("one single write fails: at most that request is refused, and nothing is forgotten", "asan", seconds=60)
def single_failures(t):
    disk = failing(t)
    for kind in KINDS:
        for at in (1, 2, 3):
            disk.fails("%s EIO %d 1" % (kind, at))
            key = "%s-%d" % (kind, at)
            answer = t.ask(key=key)
            t.check(answer.status in (201, 503), "executed or refused: " + key, answer)
            t.effects(1 if answer.status == 201 else 0, key=key)
            again = t.ask(key=key)
            t.status(again, 201, key)
            if answer.status == 201:
                t.replay(again, answer, key)
            t.effects(1, key=key)
            disk.works()
    t.proxy.restart()
    for kind in KINDS:
        for at in (1, 2, 3):
            t.check(t.ask(key="%s-%d" % (kind, at)).replayed, "recorded", kind, at)


@test("the outcome cannot be written: the client gets it, repetitions are answered from memory, it is written later (S31)",
      "asan", seconds=60)
def completion_fails(t):
    disk = failing(t, store={"timeout": "2s"})
    for kind in KINDS:
        gate = threading.Event()
        t.api.on(Reply(201, [("X-A", kind)], b"the answer", delay=gate), key=kind, times=1)
        owner = t.start(key=kind)
        t.check(t.api.wait_count(1, key=kind), "reaches the API")
        waiter = t.start(key=kind)
        t.check(waiter.waits(0.2), "waits")
        disk.fails(kind + " EIO")
        mark = len(t.proxy.stderr())
        gate.set()
        first = t.fresh(owner.read(), text="the true answer: " + kind)
        t.within(first.took, 6.0, "not held for ever: " + kind)
        t.replay(waiter.read(), first, "one who waited: " + kind)
        t.replay(t.ask(key=kind), first, "from memory: " + kind)
        t.problem(t.ask(key=kind, body=b"other"), 422, "key-reused", text="from memory: " + kind)
        t.check('"error"' in t.proxy.stderr()[mark:], "told at error level: " + kind, t.proxy.stderr()[mark:])
        disk.works()
        t.replay(t.ask(key=kind), first, "afterwards: " + kind)
        time.sleep(6 if kind == "any" else 0.5)
    time.sleep(1)
    t.proxy.restart()
    for kind in KINDS:
        answer = t.ask(key=kind)
        t.check(answer.replayed and answer.body == b"the answer", "was written in the end: " + kind, answer)
        t.effects(1, key=kind)


@test("killed before the outcome could be written: unknown after the restart, never executed again (S31)", "asan")
def killed_with_a_kept_outcome(t):
    disk = failing(t, store={"timeout": "1s"})
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k", times=1)
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    disk.fails("any EIO")
    gate.set()
    t.fresh(owner.read())
    t.proxy.kill()
    disk.works()
    t.proxy.start()
    t.problem(t.ask(key="k"), 409, "outcome-unknown", action=True)
    t.effects(1, key="k")


@test("other endings that cannot be written: unknown and released are answered rightly meanwhile", "asan", seconds=60)
def other_endings_fail(t):
    disk = failing(t, store={"timeout": "1s"})
    gate = threading.Event()
    t.api.on(Raw(gate, end="close"), key="broken", times=1)
    t.api.on(Reply(429, [], b"busy", delay=gate), key="released", times=1)
    t.api.on(Reply(500, [], b"oops", delay=gate), key="unknown", times=1)
    owners = {key: t.start(key=key) for key in ("broken", "released", "unknown")}
    t.check(t.api.wait_count(3), "all reach the API")
    disk.fails("sync EIO")
    gate.set()
    t.status(owners["broken"].read(), 502)
    t.status(owners["released"].read(), 429)
    first = t.status(owners["unknown"].read(), 500)
    for key in ("broken", "released", "unknown"):
        answer = t.ask(key=key)
        t.check(answer.status in (409, 429, 500, 503), "never executed while the disk fails: " + key, answer)
        t.effects(1, key=key)
    disk.works()
    t.wait_until(lambda: t.ask(key="released").status == 201, 10, "a released key executes when the disk works")
    t.effects(2, key="released")
    t.problem(t.ask(key="broken"), 409, "outcome-unknown")
    t.replay(t.ask(key="unknown"), first)
    t.effects(1, key="broken")
    t.effects(1, key="unknown")


@test("one failing commit under load: each request is executed or refused, none twice, none lost", "asan", seconds=90)
def failures_under_load(t):
    disk = failing(t, workers=4, store={"timeout": "2s"})
    stop, acknowledged, refused, failures, lock = threading.Event(), {}, [0], [], threading.Lock()
    not_kept = set()  # a full disk: recorded without its body, as contract §4 says of an outcome that does not fit

    def load(number):
        client, n = t.client(), 0
        while not stop.is_set():
            key = "l%d-%d" % (number // 2, n)  # two clients a key
            n += 1
            try:
                for _ in range(2):
                    answer = client.ask(key=key)
                    with lock:
                        if answer.status == 201:
                            known = acknowledged.setdefault(key, answer.body)
                            if known != answer.body:
                                failures.append("%s: %r, then %r" % (key, known, answer.body))
                        elif answer.status == 503:
                            refused[0] += 1
                        elif b'"code":"response-not-kept"' in answer.body:
                            not_kept.add(key)
                        else:
                            failures.append("%s: %r" % (key, answer))
            except (OSError, Closed, Truncated) as error:
                failures.append("%s: %r" % (key, error))
                client = t.client()
    threads = [t.thread(load, number) for number in range(12)]
    for number in range(24):
        disk.fails("%s %s %d %d" % (KINDS[number % 4], "EIO" if number % 3 else "ENOSPC", 1 + number % 5, 1 + number % 7))
        time.sleep(0.1)
        disk.works()
        time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join(30)
    t.equal(failures[:5], [], "failures (%d)" % len(failures))
    t.check(len(acknowledged) > 50, "work was done", len(acknowledged), refused)
    twice = [item for item in t.api.effects.items() if item[1] > 1]
    t.equal(twice[:5], [], "executed twice (%d)" % len(twice))
    time.sleep(6)  # outcomes kept in memory are written with back-off
    t.proxy.restart()
    client = t.client()
    for key, body in acknowledged.items():
        answer = client.ask(key=key)
        if b'"code":"response-not-kept"' in answer.body:
            not_kept.add(key)
            continue
        t.check(answer.status == 201 and answer.body == body and answer.replayed, "kept over a restart: " + key, answer, body)
    t.check(len(not_kept) < 50, "few are recorded without body", len(not_kept))


@test("on_store_error: pass while the disk fails: forwarded and marked; known keys replayed (S30)", "asan")
def pass_while_failing(t):
    disk = failing(t, route={"on_store_error": "pass"})
    known = t.fresh(t.ask(key="known"))
    disk.fails("sync EIO")
    for number in (1, 2):
        answer = t.status(t.ask(key="new"), 201)
        t.equal(answer.all("Idempotency-Degraded"), ["true"], "marked")
        t.effects(number, key="new")
    t.replay(t.ask(key="known"), known)
    disk.works()
    t.equal(t.ask(key="newer").all("Idempotency-Degraded"), [], "not marked any more")


@test("a disk that fails at start: exit 1 and a message that names the directory", "asan")
def failing_at_start(t):
    t.ordinary = False
    disk = Disk(t)
    disk.fails("any EIO")
    proxy = t.prepare(env=disk.env)
    proxy.spawn()
    t.equal(proxy.wait(), 1, "exit code: %s" % proxy.stderr())
    t.check(proxy.store in proxy.stderr(), "the directory is named", proxy.stderr())
    disk.works()
    t.proxy = proxy.start()
    t.fresh(t.ask(key="k"))
    t.equal(proxy.stop(), 0, "exit code")


@test("SIGTERM with an outcome that cannot be written: ends in time with exit 1", "asan", seconds=60)
def drained_with_a_kept_outcome(t):
    t.ordinary = False
    disk = failing(t, store={"timeout": "1s"}, timeouts={"drain": "2s"})
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k", times=1)
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    disk.fails("any EIO")
    gate.set()
    t.fresh(owner.read())
    began = time.monotonic()
    t.equal(t.proxy.stop(), 1, "a record was not committed")
    t.within(time.monotonic() - began, 8.0, "drain and store.timeout")
    disk.works()
    t.proxy.start()
    t.problem(t.ask(key="k"), 409, "outcome-unknown")
    t.effects(1)
    t.equal(t.proxy.stop(), 0, "exit code")


@test("half of a pipelined pair is refused by a failing disk, the connection goes on", "asan")
def pipelined_while_failing(t):
    disk = failing(t)
    disk.fails("sync EIO")
    client = t.client().send(request_bytes(key="a") + request_bytes("GET", "/free") + request_bytes(key="a"))
    t.problem(client.read(), 503, "store-unavailable", retry_after=True)
    t.status(client.read("GET"), 200)
    t.problem(client.read(), 503, "store-unavailable", retry_after=True)
    disk.works()
    t.fresh(client.ask(key="a"))
    t.effects(1, key="a")
