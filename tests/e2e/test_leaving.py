"""Clients that go away, half-close, or send half a request (contract §4.6, §4.8; cases S05, H29, H30)."""
import threading
import time

from lib.case import Closed, Reply, Truncated, request_bytes, test


@test("the owner's client resets: the action goes on and its answer is there for the retries (S05)", "race asan")
def owner_resets(t):
    t.einmal()
    gate = threading.Event()
    t.api.reply(Reply(delay=gate))
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    owner.reset()
    time.sleep(0.2)
    retry = t.start(key="k")
    t.check(retry.waits(0.2), "the retry waits for the running action")
    gate.set()
    answer = t.status(retry.read(), 201)
    t.check(answer.replayed, "the retry's answer is a replay", answer)
    t.replay(t.ask(key="k"), answer)
    t.effects(1, key="k")


@test("the owner's client closes (FIN, then gone): the same", "asan")
def owner_closes(t):
    t.einmal()
    t.api.reply(Reply(delay=0.4))
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    owner.close()
    answer = t.ask(key="k")
    t.status(answer, 201)
    t.check(answer.replayed, "the retry's answer is a replay", answer)
    t.effects(1, key="k")


@test("a client that resets right after sending: executed at most once, and the retry has one answer", "race asan",
      seconds=60)
def resets_at_once(t):
    t.einmal(workers=4)
    for number in range(t.rounds(60, 15)):
        key = "k%d" % number
        client = t.start(key=key)
        if number % 3:
            time.sleep(0.0005 * (number % 7))
        client.reset()
        answer = t.status(t.ask(key=key), 201, "retry %d" % number)
        t.effects(1, key=key)
        t.replay(t.ask(key=key), answer)


@test("waiters that reset leave without a trace; the others are answered", "race asan")
def waiters_reset(t):
    t.einmal(limits={"waiters_per_action": 10})
    gate = threading.Event()
    t.api.reply(Reply(delay=gate))
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    for number in range(1, 6):  # each time all places are taken, and must become free again
        waiters = [t.start(key="k") for _ in range(10)]
        t.check(waiters[-1].waits(0.1), "waits")
        for waiter in waiters:
            waiter.reset()
        t.equal(len(t.proxy.access(10 * number, status=499)), 10 * number, "all are noticed")
    stays = [t.start(key="k") for _ in range(10)]
    t.check(stays[-1].waits(0.2), "there is room again")
    gate.set()
    first = t.fresh(owner.read())
    for waiter in stays:
        t.replay(waiter.read(), first)
    t.effects(1, key="k")


@test("the client resets while a long answer is being sent: it is recorded all the same (O08)", "asan")
def resets_in_the_answer(t):
    t.einmal()
    body = bytes(range(256)) * 4096 * 4
    t.api.on(Reply(200, [], [body, 0.3, body], framing="chunked"), key="k", times=1)
    owner = t.client(receive_buffer=4096).post(key="k")
    owner.read_head()
    owner.reset()
    answer = t.status(t.ask(key="k"), 200)
    t.equal(len(answer.body), 2 * len(body), "the whole answer is kept")
    t.check(answer.body == body + body and answer.replayed, "it is the first answer")
    t.effects(1, key="k")


@test("a half-closed owner gets the whole answer, and nothing spins meanwhile (H29)", "asan")
def half_closed_owner(t):
    t.einmal()
    gate = threading.Event()
    t.api.reply(Reply(delay=gate))
    owner = t.start(key="k").half_close()
    t.check(t.api.wait_count(1), "reaches the API")
    busy = t.proxy.cpu_seconds()
    t.check(owner.waits(1.0), "still open")
    if not t.options.sanitizer:
        t.check(t.proxy.cpu_seconds() - busy < 0.2, "no busy loop on a half-closed socket")
    gate.set()
    first = t.fresh(owner.read())
    t.equal(owner.expect_end(), b"", "then the end")
    t.replay(t.ask(key="k"), first)
    t.effects(1, key="k")


@test("a half-closed waiter gets the replay; an unkeyed half-closed client its answer", "asan")
def half_closed_waiter(t):
    t.einmal()
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    waiter = t.start(key="k").half_close()
    t.check(waiter.waits(0.3), "waits")
    gate.set()
    first = t.fresh(owner.read())
    t.replay(waiter.read(), first)
    t.equal(waiter.expect_end(), b"", "then the end")
    unkeyed = t.client().post(method="GET", target="/free").half_close()
    t.status(unkeyed.read("GET"), 200)
    t.effects(1, key="k")


@test("a half-closed owner that then resets: noticed, and the action goes on", "asan")
def half_closed_then_reset(t):
    t.einmal()
    t.api.reply(Reply(delay=0.5))
    owner = t.start(key="k").half_close()
    t.check(t.api.wait_count(1), "reaches the API")
    time.sleep(0.1)
    owner.reset()
    t.status(t.ask(key="k"), 201)
    t.effects(1, key="k")


@test("half a request makes no reservation: the whole one executes at once", "race asan")
def half_a_request(t):
    t.einmal()
    data = request_bytes(key="k", body=b'{"a":12345678}')
    head_end = data.index(b"\r\n\r\n") + 4
    for cut in (10, head_end - 1, head_end, head_end + 5, len(data) - 1):
        for ending in ("close", "reset", "stay"):
            client = t.client().send(data[:cut])
            time.sleep(0.02)
            if ending != "stay":
                getattr(client, ending)()
    answer = t.ask(key="k", body=b'{"a":12345678}')
    t.fresh(answer)
    t.within(answer.took, 4.0, "half requests hold nothing up")
    t.effects(1)
    t.equal(len(t.api.heads), 1, "nothing of a half request reaches the API")


@test("FIN in the middle of a body: no effect, the connection ends", "asan")
def fin_in_the_body(t):
    t.einmal()
    data = request_bytes(key="k")
    client = t.client().send(data[:-2]).half_close()
    try:
        answer = client.read()
        t.check(answer.status in (400, 408), "refused or nothing", answer)
    except (Closed, Truncated):
        pass
    t.effects(0)
    t.fresh(t.ask(key="k"))


@test("slow headers are cut at timeouts.header, slow bodies at 1 KiB/s; a good request runs meanwhile (H30)", "asan")
def slow_senders(t):
    t.einmal(timeouts={"header": "700ms", "body": "1s"})
    data = request_bytes(key="k", body=b"x" * 400)
    head_end = data.index(b"\r\n\r\n") + 4
    slow_head, slow_body = t.client(), t.client()
    slow_head.send(data[:20])
    slow_body.send(data[:head_end + 10])
    t.fresh(t.ask(key="k", body=b"x" * 400))
    for number in range(15):
        time.sleep(0.1)
        for client, offset in ((slow_head, 20), (slow_body, head_end + 10)):
            try:
                client.send(data[offset + number:offset + number + 1])
            except OSError:
                pass
    for client, what in ((slow_head, "head"), (slow_body, "body")):
        began = time.monotonic()
        try:
            answer = client.read()
            t.problem(answer, 408, "request-timeout", text="slow " + what)
            t.check(answer.closes, "a cut request closes", answer)
            client.expect_end()
        except (Closed, Truncated):
            t.check(what == "head", "a slow body is answered with 408")
        t.within(time.monotonic() - began, 3.0, "slow %s is cut" % what)
    t.effects(1)


@test("silence between requests does not count against the next one's header time")
def idle_before_a_request(t):
    t.einmal(timeouts={"header": "500ms", "idle": "5s"})
    client = t.client()
    time.sleep(0.8)
    t.status(client.ask(key="k1"), 201)
    time.sleep(0.8)
    t.status(client.ask(key="k2"), 201)


@test("idle connections are closed after timeouts.idle")
def idle_timeout(t):
    t.einmal(timeouts={"idle": "500ms"})
    client = t.client()
    t.status(client.ask(key="k1"), 201)
    began = time.monotonic()
    t.equal(client.expect_end(5), b"", "closed without a word")
    t.check(0.3 < time.monotonic() - began, "not at once")


@test("a client that does not read its answer is cut by timeouts.send; the action is recorded", "asan")
def client_does_not_read(t):
    t.einmal(timeouts={"send": "1s"}, route={"max_response_body": "16MiB"})
    body = b"0123456789abcdef" * 65536 * 8  # 8 MiB
    t.api.on(Reply(200, [], body), key="k", times=1)
    t.client(receive_buffer=4096).post(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    answer = t.ask(key="k")
    t.status(answer, 200)
    t.check(answer.body == body and answer.replayed, "the retry gets all of it", len(answer.body))
    t.effects(1, key="k")


@test("a stalled client does not slow down those who wait (O09)", "asan")
def stalled_owner_does_not_stall_waiters(t):
    t.einmal()
    body = b"0123456789abcdef" * 65536 * 8
    t.api.on(Reply(200, [], [body[:1000], 0.2, body[1000:]]), key="k", times=1)
    t.client(receive_buffer=4096).post(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    answer = t.ask(key="k")
    t.check(answer.body == body, "whole answer", len(answer.body))
    t.within(answer.took, 5.0, "the waiter does not depend on the owner's client")
    t.effects(1, key="k")
