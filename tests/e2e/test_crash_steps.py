"""kill -9 at each named step, and while running (contract §4 "death of einmal"; case S08).

Whatever the step: no action executed twice, no acknowledged answer lost or changed, no key blocked. After a crash an
action that was in progress is unknown; only where nothing was written down at all the next attempt executes.
The named steps exist in builds with crash points only.
"""
import socket
import threading
import time

from lib.case import Closed, Raw, Reply, Skip, Truncated, request_bytes, test


def crash_at(t, step, **settings):
    """An einmal that has served some keys before, restarted so that it kills itself at `step`."""
    if not t.options.crash_points:
        raise Skip("this binary is built without crash points")
    t.einmal(**settings)
    acknowledged = {"before-%d" % n: t.fresh(t.ask(key="before-%d" % n)) for n in range(5)}
    t.close_clients()
    t.equal(t.proxy.stop(), 0, "exit code")
    t.proxy.extra_arguments = ["--crash-at", step]
    t.proxy.start()
    return acknowledged


def died(t):
    t.equal(t.proxy.wait(), -9, "einmal killed itself at the step")
    t.proxy.extra_arguments = []
    t.proxy.start()
    t.fd_level = t.proxy.fds()


def no_whole_answer(t, client):
    try:
        answer = client.read()
        t.check(False, "nothing whole is answered before the crash", answer)
    except (Closed, Truncated):
        pass


def afterwards(t, acknowledged, key, wanted, effects):
    """`wanted`: executes, unknown, replay."""
    before = t.api.count(key=key)
    began = time.monotonic()
    answer = t.ask(key=key)
    t.within(time.monotonic() - began, 4.0, "answered at once after the restart")
    if wanted == "executes":
        t.fresh(answer)
        before += 1
    elif wanted == "replay":
        t.status(answer, 201)
        t.check(answer.replayed, "a replay", answer)
    else:
        body = t.problem(answer, 409, "outcome-unknown", action=True)
        t.equal(body["state"], "unknown", "state")
    t.effects(before, key=key)
    t.check(t.api.count(key=key) in effects, "effects", t.api.count(key=key))
    for name, first in acknowledged.items():
        t.replay(t.ask(key=name), first, "acknowledged before: " + name)
        t.effects(1, key=name)
    t.proxy.restart()
    again = t.ask(key=key)
    if wanted == "unknown":
        t.problem(again, 409, "outcome-unknown")
    else:
        t.check(again.replayed and again.body == answer.body, "the same for ever after", again)
    t.effects(before, key=key)


def simple_step(t, step, reply, wanted, effects):
    acknowledged = crash_at(t, step)
    t.api.on(reply, key="k", times=1)
    owner = t.start(key="k")
    no_whole_answer(t, owner)
    died(t)
    afterwards(t, acknowledged, "k", wanted, effects)


LARGE = [b"x" * 20000, 0.2, b"y" * 20000]


@test("crash: a reservation taken from the queue, nothing written", "crash-steps asan")
def op_queued(t):
    simple_step(t, "op-queued", Reply(), "executes", {1})


@test("crash: the reservation committed, not delivered", "crash-steps asan")
def committed_not_delivered(t):
    simple_step(t, "committed-not-delivered", Reply(), "unknown", {0})


@test("crash: granted, nothing sent", "crash-steps asan")
def granted_nothing_sent(t):
    simple_step(t, "granted-nothing-sent", Reply(), "unknown", {0})


@test("crash: the first byte sent", "crash-steps asan")
def first_byte_sent(t):
    simple_step(t, "first-byte-sent", Reply(), "unknown", {0, 1})


@test("crash: the last byte sent", "crash-steps asan")
def last_byte_sent(t):
    simple_step(t, "last-byte-sent", Reply(), "unknown", {0, 1})


@test("crash: the head of the answer read", "crash-steps asan")
def head_read(t):
    simple_step(t, "head-read", Reply(body=LARGE), "unknown", {1})


@test("crash: in the middle of the body", "crash-steps asan")
def mid_body(t):
    simple_step(t, "mid-body", Reply(body=LARGE, framing="chunked"), "unknown", {1})


@test("crash: the answer is there, COMPLETE not yet asked", "crash-steps asan")
def before_complete(t):
    simple_step(t, "before-complete", Reply(), "unknown", {1})


@test("crash: the outcome committed, the end of the answer not sent", "crash-steps asan")
def completed_not_delivered(t):
    simple_step(t, "completed-not-delivered", Reply(), "replay", {1})


@test("crash: the outcome of a streamed answer committed, its end not sent", "crash-steps asan")
def completed_not_delivered_stream(t):
    simple_step(t, "completed-not-delivered", Reply(body=LARGE, framing="chunked"), "replay", {1})


@test("crash: the API closed without an answer, ABANDON not yet asked", "crash-steps asan")
def before_abandon(t):
    simple_step(t, "before-abandon", Raw(end="close"), "unknown", {1})


@test("crash: an execution handed on to one who waits", "crash-steps asan")
def handed_over(t):
    listener = socket.socket()  # a full backlog: connecting hangs until connect_timeout
    listener.bind((t.address, 0))
    listener.listen(0)
    t.cleanups.append(listener.close)
    acknowledged = crash_at(t, "handed-over")
    for _ in range(4):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
        t.cleanups.append(filler.close)
    t.proxy.kill()
    good = t.proxy.settings["upstreams"]
    t.proxy.configure(upstream={"url": "http://%s:%d" % listener.getsockname(), "connect_timeout": "500ms"})
    t.proxy.start()
    owner = t.start(key="k")
    time.sleep(0.1)
    waiters = [t.start(key="k") for _ in range(5)]
    for client in waiters:
        no_whole_answer(t, client)
    try:
        t.problem(owner.read(), 502, "upstream-unreachable")
    except (Closed, Truncated):
        pass
    t.check(t.proxy.wait() == -9, "killed at the step")
    t.proxy.configure(upstream=good["api"])
    t.proxy.extra_arguments = []
    t.proxy.start()
    t.fd_level = t.proxy.fds()
    afterwards(t, acknowledged, "k", "unknown", {0})


@test("crash: in the middle of a sweep", "crash-steps asan")
def sweep(t):
    if not t.options.crash_points:
        raise Skip("this binary is built without crash points")
    t.einmal(routes=[{"name": "long", "match": {"path": "/orders/long"}, "upstream": "api"},
                     {"name": "orders", "match": {"path": "/orders/**"}, "upstream": "api", "retention": "2s"}])
    for number in range(50):
        t.fresh(t.ask(key="s%d" % number))
    made = time.monotonic()
    kept = t.fresh(t.ask(key="kept", target="/orders/long"))
    t.close_clients()
    t.equal(t.proxy.stop(), 0, "exit code")
    t.proxy.extra_arguments = ["--crash-at", "sweep"]
    t.proxy.start(wait=False)  # it may sweep before anybody finds it ready
    t.equal(t.proxy.wait(20), -9, "killed in a sweep")
    t.proxy.extra_arguments = []
    t.proxy.start()
    t.fd_level = t.proxy.fds()
    time.sleep(max(0, made + 2.5 - time.monotonic()))
    t.replay(t.ask(key="kept", target="/orders/long"), kept)
    t.effects(1, key="kept")
    for number in range(50):
        first = t.fresh(t.ask(key="s%d" % number), text="expired")
        t.check(t.ask(key="s%d" % number).body == first.body, "recorded anew")
        t.effects(2, key="s%d" % number)


@test("crash with on_unknown: retry: the next attempt executes, once", "crash-steps asan")
def crash_then_retry(t):
    acknowledged = crash_at(t, "last-byte-sent", route={"on_unknown": "retry"})
    no_whole_answer(t, t.start(key="k"))
    died(t)
    time.sleep(0.2)
    before = t.api.count(key="k")
    clients = [t.start(key="k") for _ in range(10)]
    answers = [t.status(client.read(), 201) for client in clients]
    t.equal(len({answer.body for answer in answers}), 1, "one answer")
    t.effects(before + 1, key="k")
    for name, first in acknowledged.items():
        t.replay(t.ask(key=name), first)


@test("kill -9 while an action runs, with waiters: the key is unknown at once after the restart (S08)", "race asan crash-steps")
def killed_while_running(t):
    t.einmal()
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    first = t.fresh(t.ask(key="done"))
    owner = t.start(key="k")
    t.check(t.api.wait_count(1, key="k"), "reaches the API")
    waiters = [t.start(key="k") for _ in range(3)]
    half = t.client().send(request_bytes(key="half")[:-2])
    t.check(waiters[0].waits(0.2), "waits")
    t.proxy.restart()
    for client in [owner] + waiters + [half]:
        no_whole_answer(t, client)
    for _ in range(2):
        answer = t.ask(key="k")
        t.problem(answer, 409, "outcome-unknown", action=True)
        t.within(answer.took, 4.0, "at once")
    t.problem(t.ask(key="k", body=b"other"), 422, "key-reused")
    t.replay(t.ask(key="done"), first)
    t.fresh(t.ask(key="half"), text="a half request left nothing behind")
    gate.set()
    t.effects(1, key="k")
    t.effects(1, key="half")
