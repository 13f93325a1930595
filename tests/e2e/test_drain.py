"""The end: signals, drain_delay, the drain and its limit, exit codes (contract §9)."""
import os
import signal
import subprocess
import threading
import time

from lib.case import Closed, Reply, Skip, Truncated, request_bytes, test


@test("SIGTERM: running and waiting requests finish with Connection: close, new ones are refused, exit 0 (O01)", "race asan")
def drain(t):
    t.ordinary = False
    t.einmal()
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    t.api.on(Reply(delay=gate), key="left")
    owner = t.start(key="k")
    left = t.start(key="left")
    t.check(t.api.wait_count(2), "both reach the API")
    waiters = [t.start(key="k") for _ in range(5)]
    idle = [t.client() for _ in range(3)]
    for client in idle[1:]:
        t.status(client.ask("GET", target="/free"), 200)
    started = t.client().send(request_bytes(key="late")[:30])
    left.reset()
    time.sleep(0.2)
    t.proxy.signal(signal.SIGTERM)
    for client in idle:
        t.equal(client.expect_end(5 * t.slow), b"", "idle connections close")
    try:
        late = t.client()
        late.post(key="new")
        answer = late.read()
        t.problem(answer, 503, "draining", retry_after=True)
    except (OSError, Closed):
        pass
    try:
        started.send(request_bytes(key="late")[30:])
        t.problem(started.read(), 503, "draining", retry_after=True)
    except (OSError, Closed, Truncated):
        pass
    t.check(t.proxy.alive, "waits for what runs")
    gate.set()
    first = t.fresh(owner.read())
    t.check(first.closes, "Connection: close", first)
    for waiter in waiters:
        answer = waiter.read()
        t.replay(answer, first)
        t.check(answer.closes, "Connection: close", answer)
    t.equal(t.proxy.wait(), 0, "exit code")
    t.effects(1, key="k")
    t.effects(0, key="late")
    t.effects(0, key="new")
    t.proxy.start()
    t.replay(t.ask(key="k"), first, "recorded")
    t.check(t.ask(key="left").replayed, "the action whose client left was awaited")
    t.effects(1, key="left")
    t.equal(t.proxy.stop(), 0, "exit code")


@test("the drain limit: sent actions are recorded unknown, those who wait get 503 draining, exit 0", "race asan")
def drain_limit(t):
    t.ordinary = False
    t.einmal(timeouts={"drain": "1s"})
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    waiter = t.start(key="k")
    t.check(waiter.waits(0.2), "waits")
    began = time.monotonic()
    t.proxy.signal(signal.SIGTERM)
    t.problem(waiter.read(), 503, "draining", retry_after=True, text="waiter")
    try:
        answer = owner.read()
        t.check(answer.status >= 500, "an error that can be told", answer)
    except (Closed, Truncated):
        pass
    t.equal(t.proxy.wait(), 0, "every record was committed")
    t.check(time.monotonic() - began > 0.9, "not before the limit")
    t.within(time.monotonic() - began, 5.0, "the limit")
    gate.set()
    t.proxy.start()
    body = t.problem(t.ask(key="k"), 409, "outcome-unknown", action=True)
    t.equal(body["state"], "unknown", "state")
    t.effects(1, key="k")
    t.equal(t.proxy.stop(), 0, "exit code")


@test("a second signal quits at once with 1; SIGINT is like SIGTERM", "asan")
def second_signal(t):
    t.ordinary = False
    t.einmal()
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    t.proxy.signal(signal.SIGTERM)
    time.sleep(0.3)
    t.check(t.proxy.alive, "drains")
    began = time.monotonic()
    t.proxy.signal(signal.SIGTERM)
    t.equal(t.proxy.wait(), 1, "exit code")
    t.within(time.monotonic() - began, 4.0, "at once")
    gate.set()
    t.proxy.start()
    t.problem(t.ask(key="k"), 409, "outcome-unknown")
    t.proxy.signal(signal.SIGINT)
    t.equal(t.proxy.wait(), 0, "exit code after SIGINT")
    t.effects(1, key="k")


@test("draining while a stream runs: it comes to its end", "asan")
def drain_with_stream(t):
    t.ordinary = False
    t.einmal()
    gate = threading.Event()
    t.api.reply(Reply(200, [], [b"first;", gate, b"last"], framing="chunked"))
    keyed, free = t.client().post(key="k"), t.client().post(method="GET", target="/stream")
    for client in (keyed, free):
        while b"first;" not in client.buffer:
            t.check(client.receive(), "the beginning passes at once")
    t.proxy.signal(signal.SIGTERM)
    time.sleep(0.3)
    gate.set()
    for client in (keyed, free):
        t.equal(client.read().body, b"first;last", "whole")
    t.equal(t.proxy.wait(), 0, "exit code")


@test("drain_delay: still accepting and serving for so long, answers close; then refused; idle ones stay until then", "race asan")
def delay(t):
    t.ordinary = False
    t.einmal(timeouts={"drain_delay": "1500ms"})
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    idle, asking = t.client(), t.client()
    for client in (idle, asking):
        t.check(not client.ask("GET", target="/free").closes, "connections are kept before the end")
    running = t.start(key="k")
    t.check(t.api.wait_count(1, key="k"), "reaches the API")
    began = time.monotonic()
    t.proxy.signal(signal.SIGTERM)
    t.wait_until(lambda: "draining" in t.proxy.stderr(), 5, "told")
    for key in ("new", "new"):
        answer = t.ask(key=key)
        t.check(answer.closes, "Connection: close on a new connection", answer)
        t.equal(answer.status, 201, "served, keyed")
    answer = asking.ask(key="kept")
    t.check(answer.status == 201 and answer.closes, "served on a connection that was open, which then closes", answer)
    t.equal(asking.expect_end(5 * t.slow), b"", "closed after the answer")
    t.check(idle.waits(0.2), "an idle connection stays while the delay lasts")
    t.equal(idle.expect_end(10 * t.slow), b"", "and closes after it")
    t.check(time.monotonic() - began > 1.4, "not before the delay is over", time.monotonic() - began)
    t.check(t.proxy.alive, "waits for what runs")
    try:
        late = t.client()
        late.post(key="late")
        t.problem(late.read(), 503, "draining", retry_after=True)
    except (OSError, Closed):
        pass
    gate.set()
    t.check(t.fresh(running.read()).closes, "the running one gets its answer")
    t.equal(t.proxy.wait(), 0, "exit code")
    for key, times in (("new", 1), ("kept", 1), ("k", 1), ("late", 0)):
        t.effects(times, key=key)


@test("drain_delay: the limit counts from its end, a second signal in it quits at once with 1", "asan")
def delay_then_limit(t):
    t.ordinary = False
    t.einmal(timeouts={"drain_delay": "600ms", "drain": "600ms"})
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    began = time.monotonic()
    t.proxy.signal(signal.SIGTERM)
    t.equal(t.proxy.wait(), 0, "exit code")
    t.check(1.1 < time.monotonic() - began, "delay and limit, one after the other", time.monotonic() - began)
    gate.set()
    t.proxy.configure(timeouts={"drain_delay": "60s"})
    t.proxy.start()
    t.problem(t.ask(key="k"), 409, "outcome-unknown")
    t.proxy.signal(signal.SIGTERM)
    t.wait_until(lambda: "signal 15" in t.proxy.stderr().rsplit("workers", 1)[-1], 5, "the drain has begun")
    t.proxy.signal(signal.SIGINT)
    t.equal(t.proxy.wait(), 1, "exit code after the second")
    t.effects(1, key="k")


@test("a SIGHUP in a drain is ignored, and told", "asan")
def reload_in_a_drain(t):
    t.ordinary = False
    t.einmal(timeouts={"drain_delay": "1s"})
    t.proxy.signal(signal.SIGTERM)
    t.wait_until(lambda: "draining" in t.proxy.stderr(), 5, "drains")
    t.proxy.configure(route={"required": True})
    t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: "not read again" in t.proxy.stderr(), 5, "told")
    t.status(t.ask(), 201, "the old rule applies")
    t.equal(t.proxy.wait(), 0, "exit code")


@test("SIGTERM and SIGINT end an einmal that waits for the store's lock, with 0", "asan")
def signal_while_waiting_for_the_lock(t):
    t.einmal()
    second = t.prepare("-second")
    second.configure(store={"path": t.proxy.store, "lock_wait": "60s"})
    for number in (signal.SIGTERM, signal.SIGINT):
        second.spawn()
        t.wait_until(lambda: t.proxy.store + "/store.lock" in [path for _, path in second.fd_targets()], 10, "waits for the lock")
        began = time.monotonic()
        second.signal(number)
        t.equal(second.wait(), 0, "exit code after signal %d: %s" % (number, second.stderr()))
        t.within(time.monotonic() - began, 2.0, "at once")
    t.fresh(t.ask(key="k"), text="the first goes on")


@test("the same for process 1 of a container, which the kernel spares signals that nobody handles", "asan")
def signal_as_process_1(t):
    t.ordinary = False
    if os.geteuid() != 0 or subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode:
        raise Skip("no right to make a pid namespace")
    t.einmal()
    second = t.prepare("-second")
    second.configure(store={"path": t.proxy.store, "lock_wait": "60s"})
    with open(second.stderr_path, "ab") as err:
        outer = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", second.binary, "run", "-c", second.file],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
    second.process = outer
    children = "/proc/%d/task/%d/children" % (outer.pid, outer.pid)
    t.wait_until(lambda: second.read(children).split(), 10, "unshare has a child")
    inner = int(second.read(children).split()[0])

    def waits_for_the_lock():
        names = ["/proc/%d/fd/%s" % (inner, name) for name in os.listdir("/proc/%d/fd" % inner)]
        return t.proxy.store + "/store.lock" in [os.readlink(name) for name in names if os.path.lexists(name)]
    t.wait_until(waits_for_the_lock, 10, "waits for the lock")
    os.kill(inner, signal.SIGTERM)
    t.equal(second.wait(), 0, "exit code")
    t.equal(t.proxy.stop(), 0, "exit code of the first")
