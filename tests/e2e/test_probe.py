"""on_unknown: probe: the API is asked before an unknown action is answered or repeated (contract §3, §4; cases S08, S12).

Every test counts at the API: how often the action took effect (POST), and how often it was asked (GET or HEAD).
"""
import random
import signal
import threading
import time

from lib.case import Client, Closed, Raw, Reply, Skip, Truncated, test

BROKEN = Raw(end="close")  # the effect is counted, the answer lost
FOUND = b'{"ref":"k","total":7}'


def probing(t, settle="0s", probe=None, route=None, **settings):
    """An einmal whose one route asks under /orders/by-ref/KEY."""
    how = {"path": "/orders/by-ref/{key}", "settle": settle}
    how.update(probe or {})
    return t.einmal(route={"on_unknown": "probe", "probe": how, **(route or {})}, **settings)


def make_unknown(t, key="k", script=BROKEN, **what):
    t.api.on(script, method="POST", key=key, times=1)
    answer = t.ask(key=key, **what)
    t.check(answer.status in (500, 502), "the first attempt ends unknown", answer)
    t.effects(1, method="POST", key=key)
    return answer


def answers_probe(t, reply, key="k", method="GET", times=None):
    t.api.on(reply, path="/orders/by-ref/" + key, method=method, times=times)


def asked(t, path="/orders/by-ref/k", method="GET"):
    return t.api.count(path=path, method=method)


def executed(t, key="k"):
    return t.api.count(method="POST", key=key)


@test("happened: the probe's answer is the outcome for everybody, and for good; the action is not repeated", "asan")
def happened(t):
    probing(t)
    make_unknown(t)
    headers = [("Content-Type", "application/json"), ("ETag", '"7"'), ("Set-Cookie", "a=b"), ("Connection", "X-Hop"), ("X-Hop", "1")]
    answers_probe(t, Reply(200, headers=headers, body=FOUND))
    first = t.ask(key="k")
    t.status(first, 200)
    t.check(first.replayed, "marked as a replay", first)
    t.equal(first.body, FOUND, "body")
    t.equal(first.get("ETag"), '"7"', "its fields")
    t.equal((first.get("Set-Cookie"), first.get("X-Hop")), (None, None), "what is never replayed")
    t.equal(first.framing, "length", "framing")
    again = t.ask(key="k")
    t.replay(again, first)
    t.equal((executed(t), asked(t)), (1, 1), "executed, asked")
    t.equal([line["outcome"] for line in t.proxy.access(3)], ["unknown", "replayed", "replayed"], "outcomes")
    t.proxy.restart()
    t.replay(t.ask(key="k"), first, "after a restart")
    t.equal((executed(t), asked(t)), (1, 1), "executed, asked")


@test("what is asked: method, path, Host, credentials and request id of the attempt, nothing of its body", "asan")
def question(t):
    how = {"path": "/orders/{path:order}/x{json:/a~1b}?ref={key}&h={header:X-Ref}", "method": "GET"}
    t.einmal(route={"match": {"path": "/orders/{order}/items"}, "on_unknown": "probe", "probe": dict(how, settle="0s")})
    body = b'{"a/b":"\xc3\xa9 /?&#%\\u0000"}'
    headers = [("Cookie", "s=1"), ("X-Ref", "a b"), ("X-Request-Id", "req-7"), ("X-Forwarded-Proto", "https"), ("X-Other", "no"),
               ("Accept-Encoding", "gzip")]
    make_unknown(t, "k/1", target="/orders/n%2F%3a1/items", headers=headers, body=body)
    answer = t.ask(key="k/1", target="/orders/n%2F%3a1/items", headers=headers, body=body)
    t.status(answer, 200)
    request = t.api.requests[-1]
    t.equal(request.method, "GET", "method")
    t.equal(request.target, "/orders/n%2F%3A1/x%C3%A9%20%2F%3F%26%23%25%00?ref=k%2F1&h=a%20b", "target")
    t.equal([request.get(name) for name in ("Host", "Authorization", "Cookie", "X-Request-Id", "X-Forwarded-Proto")],
            ["shop.test", "Bearer tok-alice", "s=1", "req-7", "https"], "fields that go along")
    t.equal([request.get(name) for name in ("Idempotency-Key", "X-Ref", "X-Other", "Accept-Encoding", "Content-Type",
                                            "Content-Length", "Transfer-Encoding")], [None] * 7, "fields that do not")
    t.equal(request.body, b"", "body")


@test("not happened and settled: it executes, once, and the answer is recorded", "asan")
def not_happened(t):
    probing(t, settle="300ms")
    make_unknown(t)
    answers_probe(t, Reply(404))
    time.sleep(0.4)
    first = t.fresh(t.ask(key="k"))
    t.equal((executed(t), asked(t)), (2, 1), "executed, asked")
    t.replay(t.ask(key="k"), first)
    t.equal((executed(t), asked(t)), (2, 1), "executed, asked")


@test("not happened, too early: 409 with the rest of settle, put back; later it executes", "asan")
def not_settled(t):
    probing(t, settle="3s")
    make_unknown(t)
    ended = time.monotonic()
    answers_probe(t, Reply(404))
    early = t.ask(key="k")
    body = t.problem(early, 409, "in-progress", retry_after=True, action=True)
    t.check(1 <= int(early.get("Retry-After")) <= 3, "Retry-After is what is left", early)
    t.equal(body["state"], "unknown", "state")
    t.equal(executed(t), 1, "not executed")
    time.sleep(max(0.0, ended + 3.2 - time.monotonic()))
    t.fresh(t.ask(key="k"))
    t.equal((executed(t), asked(t)), (2, 2), "executed, asked")


@test("settle counts from the last forwarding: a probe in between does not move it, another execution does", "asan")
def settle_after_each_forwarding(t):
    probing(t, settle="%dms" % (600 * t.slow))
    make_unknown(t)
    answers_probe(t, Reply(404))
    t.problem(t.ask(key="k"), 409, "in-progress")
    time.sleep(0.7 * t.slow)
    t.api.on(BROKEN, method="POST", key="k", times=1)
    t.status(t.ask(key="k"), 502, "executes, and is unknown once more")
    t.problem(t.ask(key="k"), 409, "in-progress")
    t.equal(executed(t), 2, "executed")
    time.sleep(0.7 * t.slow)
    t.fresh(t.ask(key="k"))
    t.equal((executed(t), asked(t)), (3, 4), "executed, asked")


FAILURES = {
    "500": Reply(500),
    "401": Reply(401),
    "302": Reply(302, headers=[("Location", "/login")]),
    "204": Reply(204),
    "close": Raw(end="close"),
    "reset": Raw(end="reset"),
    "truncated": Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", end="close"),
    "chunked, truncated": Raw(b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", end="close"),
    "101": Raw(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nabc", end="close"),
    "only a 100": Raw(b"HTTP/1.1 100 Continue\r\n\r\n", end="close"),
    "no HTTP": Raw(b"hello\r\n\r\n", end="close"),
    "silence": Raw(end="hang"),
}


@test("anything else leaves it unknown, without and with a recorded response; each attempt asks anew", "asan", seconds=60)
def stays_unknown(t):
    probing(t, upstream={"response_timeout": "400ms", "keepalive": 0})
    for number, (name, script) in enumerate(FAILURES.items()):
        key, kept = "k%d" % number, "kept%d" % number
        make_unknown(t, key)
        answers_probe(t, script, key)
        for times in (1, 2):
            body = t.problem(t.ask(key=key), 409, "outcome-unknown", action=True, text=name)
            t.equal(body["state"], "unknown", name)
            t.check("when it was asked" in body["detail"], "says that the API was asked", body)
            t.equal((executed(t, key), asked(t, "/orders/by-ref/" + key)), (1, times), name + ": executed, asked")
        first = make_unknown(t, kept, Reply(500, body=b"half done"))
        answers_probe(t, script, kept)
        t.replay(t.ask(key=kept), first, name + ": the recorded response")
        t.equal((executed(t, kept), asked(t, "/orders/by-ref/" + kept)), (1, 1), name + ": executed, asked")
        answers_probe(t, Reply(200, body=FOUND), key)
        t.equal(t.ask(key=key).body, FOUND, name + ": a later probe settles it")


@test("interim answers of a probe are not its answer", "asan")
def interim(t):
    probing(t)
    make_unknown(t)
    answers_probe(t, Raw(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    t.equal(t.ask(key="k").body, b"ok", "the final one")
    t.equal((executed(t), asked(t)), (1, 1), "executed, asked")


@test("an API that refuses connections cannot be asked: unknown, and nothing is executed when it is back", "asan")
def refused(t):
    probing(t)
    make_unknown(t)
    t.api.stop()
    t.api.close_connections()
    t.problem(t.ask(key="k"), 409, "outcome-unknown", action=True)
    t.api.start()
    t.equal((executed(t), asked(t)), (1, 0), "executed, asked")
    t.status(t.ask(key="k"), 200)
    t.equal((executed(t), asked(t)), (1, 1), "executed, asked")


@test("a value that is missing, or is . or .., is not asked for: stays unknown", "asan")
def missing_value(t):
    t.einmal(routes=[
        {"name": "json", "match": {"path": "/orders/json"}, "on_unknown": "probe",
         "probe": {"path": "/orders/by/{json:/id}", "settle": "0s"}},
        {"name": "key", "match": {"path": "/orders/key"}, "on_unknown": "probe",
         "probe": {"path": "/orders/by/{key}/x", "settle": "0s"}},
        {"name": "orders", "match": {"path": "/orders/**"}}])
    rows = [("/orders/json", "a", b'{"a":1}'), ("/orders/json", "b", b'{"id":""}'), ("/orders/json", "c", b'{"id":null}'),
            ("/orders/json", "d", b'{"id":{}}'), ("/orders/json", "e", b'{"id":".."}'), ("/orders/json", "f", b"no JSON"),
            ("/orders/json", "g", b'{"id":"%s"}' % (b"x" * 9000)), ("/orders/key", ".", b"{}"), ("/orders/key", "..", b"{}")]
    for target, key, body in rows:
        make_unknown(t, key, target=target, body=body)
        before = len(t.api.requests)
        t.problem(t.ask(key=key, target=target, body=body), 409, "outcome-unknown", action=True, text=repr((key, body)))
        t.equal(len(t.api.requests), before, "nothing reaches the API")
    make_unknown(t, "good", target="/orders/json", body=b'{"id":7}')
    t.status(t.ask(key="good", target="/orders/json", body=b'{"id":7}'), 200)
    t.equal(asked(t, "/orders/by/7"), 1, "asked")


@test("a derived key is asked for as the API got it", "asan")
def derived_key(t):
    probing(t, route={"key": [{"derive": ["json:/message"]}]})
    t.api.on(BROKEN, method="POST", times=1)
    body = b'{"message":"m1"}'
    t.status(t.ask(body=body), 502)
    sent = t.api.last(path="/orders").key
    t.status(t.ask(body=body), 200)
    t.equal(t.api.requests[-1].target, "/orders/by-ref/" + sent, "target")
    t.effects(1, path="/orders")


@test("HEAD as the question: an outcome without body; a GET status list of one's own", "asan")
def head(t):
    probing(t, probe={"method": "HEAD", "happened": ["2xx"], "not_happened": [410, 404]})
    make_unknown(t)
    answers_probe(t, Reply(200, headers=[("ETag", '"1"')], body=b"x" * 100), method="HEAD")
    first = t.ask(key="k")
    t.status(first, 200)
    t.check(first.replayed, "marked", first)
    t.equal((first.body, first.get("ETag"), first.get("Content-Length")), (b"", '"1"', "0"), "answer")
    t.replay(t.ask(key="k"), first)
    t.equal((executed(t), asked(t, method="HEAD"), asked(t)), (1, 1, 0), "executed, asked by HEAD, by GET")
    make_unknown(t, "none")
    answers_probe(t, Reply(410), "none", method="HEAD")
    t.fresh(t.ask(key="none"))
    make_unknown(t, "empty")
    answers_probe(t, Reply(204), "empty", method="HEAD")
    answer = t.ask(key="empty")
    t.equal((answer.status, answer.replayed, answer.framing), (204, True, "none"), "204")


@test("a probe's answer too large to record: completed, and 409 response-not-kept for everybody", "asan")
def too_large(t):
    probing(t, route={"max_response_body": "1KiB"})
    make_unknown(t)
    answers_probe(t, Reply(200, body=b"x" * 5000))
    for _ in range(2):
        body = t.problem(t.ask(key="k"), 409, "response-not-kept", action=True)
        t.equal((body["state"], body.get("original_status")), ("completed", 200), "state")
    t.equal((executed(t), asked(t)), (1, 1), "executed, asked")
    make_unknown(t, "cut")
    answers_probe(t, Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + b"x" * 5000, end="close"), "cut")
    t.problem(t.ask(key="cut"), 409, "outcome-unknown")


@test("attempts at once: one asks, the others wait for its answer: happened", "race asan")
def waiters_happened(t):
    probing(t)
    for number in range(t.rounds(10, 3)):
        key, gate = "k%d" % number, threading.Event()
        make_unknown(t, key)
        answers_probe(t, Reply(200, body=FOUND, delay=gate), key)
        clients = [t.start(key=key) for _ in range(10)]
        t.check(t.api.wait_for(lambda api: api.count(path="/orders/by-ref/" + key) >= 1), "asked")
        t.check(clients[-1].waits(0.05), "waits")
        gate.set()
        answers = [client.read() for client in clients]
        for answer in answers:
            t.equal((answer.status, answer.replayed, answer.body), (200, True, FOUND), "the probe's answer, marked")
        t.equal((executed(t, key), asked(t, "/orders/by-ref/" + key)), (1, 1), "executed, asked")
        t.close_clients()
    outcomes = {line["outcome"] for line in t.proxy.access(33)}
    t.equal(outcomes, {"unknown", "replayed", "waited"}, "outcomes")


@test("attempts at once: not happened: one executes, the others get its answer", "race asan")
def waiters_not_happened(t):
    probing(t)
    gate = threading.Event()
    make_unknown(t)
    answers_probe(t, Reply(404, delay=gate))
    clients = [t.start(key="k") for _ in range(10)]
    t.check(t.api.wait_for(lambda api: asked(t) >= 1), "asked")
    gate.set()
    answers = [client.read() for client in clients]
    t.equal({answer.status for answer in answers}, {201}, "statuses")
    t.equal(len({answer.body for answer in answers}), 1, "one answer")
    t.equal(sum(not answer.replayed for answer in answers), 1, "one of them is the first")
    t.equal((executed(t), asked(t)), (2, 1), "executed, asked")


@test("attempts at once: those who wait get what the one who asked gets, and none asks again", "race asan")
def waiters_undecided(t):
    probing(t, settle="60s", upstream={"keepalive": 0})
    rows = [("early", BROKEN, Reply(404), "in-progress"), ("fails", BROKEN, Raw(end="close"), "outcome-unknown"),
            ("recorded", Reply(500, body=b"half done"), Reply(503), None)]
    for key, first, reply, code in rows:
        gate = threading.Event()
        make_unknown(t, key, first)
        answers_probe(t, Raw(gate, reply.perform), key)
        clients = [t.start(key=key) for _ in range(10)]
        t.check(t.api.wait_for(lambda api: asked(t, "/orders/by-ref/" + key) >= 1), "asked")
        t.check(clients[0].waits(0.05), "waits")
        gate.set()
        answers = [client.read() for client in clients]
        for answer in answers:
            if not code:
                t.equal((answer.status, answer.replayed, answer.body), (500, True, b"half done"), key)
                continue
            t.problem(answer, 409, code, action=True, text=key)
        if code == "in-progress":
            t.check(all(50 <= int(answer.get("Retry-After")) <= 60 for answer in answers), "Retry-After", answers)
        t.equal((executed(t, key), asked(t, "/orders/by-ref/" + key)), (1, 1), key + ": executed, asked")
        t.close_clients()


@test("on_concurrent: reject while the API is asked: 409 in-progress at once", "asan")
def concurrent_reject(t):
    probing(t, route={"on_concurrent": "reject"})
    gate = threading.Event()
    make_unknown(t)
    answers_probe(t, Reply(200, body=FOUND, delay=gate))
    prober = t.start(key="k")
    t.check(t.api.wait_for(lambda api: asked(t) >= 1), "asked")
    body = t.problem(t.ask(key="k"), 409, "in-progress", retry_after=True, action=True)
    t.equal(body["state"], "in_progress", "while asked, it is in progress")
    t.problem(t.ask(key="k", body=b"other"), 422, "key-reused")
    gate.set()
    t.equal(prober.read().body, FOUND, "the probe's answer")


@test("settled, then unsent, or refused by a status in `release`: released as a new action, and no longer asked about", "asan")
def counts_as_new(t):
    probing(t)
    make_unknown(t)
    answers_probe(t, Reply(404))
    t.api.on(Reply(503, headers=[("Retry-After", "1")]), method="POST", key="k", times=1)
    released = t.fresh(t.ask(key="k"), 503)
    t.equal(released.get("Retry-After"), "1", "the API's own")
    t.fresh(t.ask(key="k"), text="the next attempt executes without a question")
    t.equal((executed(t), asked(t)), (3, 1), "executed, asked")

    def go_away(connection, request):
        t.api.stop()

    make_unknown(t, "u")
    answers_probe(t, Raw(go_away, b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", end="close"), "u", times=1)
    t.problem(t.ask(key="u"), 502, "upstream-unreachable", action=True)
    t.api.start()
    t.fresh(t.ask(key="u"))
    t.equal((executed(t, "u"), asked(t, "/orders/by-ref/u")), (2, 1), "executed, asked")


@test("the client leaves while the API is asked: what it began goes on to its end", "race asan")
def client_leaves(t):
    probing(t)
    for key, reply, wanted in (("yes", Reply(200, body=FOUND), 1), ("no", Reply(404), 2)):
        gate = threading.Event()
        make_unknown(t, key)
        answers_probe(t, Raw(gate, reply.perform), key)
        client = t.start(key=key)
        t.check(t.api.wait_for(lambda api: asked(t, "/orders/by-ref/" + key) >= 1), "asked")
        client.reset()
        time.sleep(0.1)
        gate.set()
        t.wait_until(lambda: executed(t, key) == wanted, text="goes on: " + key)
        answer = t.ask(key=key)
        t.check(answer.replayed, key + ": there for the next attempt", answer)
        t.equal((executed(t, key), asked(t, "/orders/by-ref/" + key)), (wanted, 1), key + ": executed, asked")


@test("a half-closed client gets the probe's answer", "asan")
def half_closed(t):
    probing(t)
    make_unknown(t)
    answers_probe(t, Reply(200, body=FOUND, delay=0.2))
    client = t.start(key="k")
    client.half_close()
    t.equal(client.read().body, FOUND, "answer")


@test("kill -9 while the API is asked: unknown as before, with what was recorded; settle counts from the restart (S08)",
      "asan crash-steps")
def killed(t):
    probing(t, settle="2s")
    first = make_unknown(t, "kept", Reply(500, body=b"half done"))
    make_unknown(t, "k")
    time.sleep(2.1)
    gate = threading.Event()
    answers_probe(t, Reply(404, delay=gate))
    answers_probe(t, Reply(404, delay=gate), "kept")
    clients = [t.start(key="k"), t.start(key="kept"), t.start(key="k")]
    t.check(t.api.wait_for(lambda api: asked(t) + asked(t, "/orders/by-ref/kept") >= 2), "asked")
    t.proxy.restart()
    gate.set()
    for client in clients:
        try:
            t.check(False, "no whole answer before the crash", client.read())
        except (Closed, Truncated):
            pass
    t.problem(t.ask(key="k"), 409, "in-progress", retry_after=True)
    t.problem(t.ask(key="kept"), 409, "in-progress", retry_after=True)
    answers_probe(t, Reply(500), "kept")
    t.replay(t.ask(key="kept"), first, "what was recorded before")
    t.equal((executed(t), executed(t, "kept")), (1, 1), "executed")
    time.sleep(2.1)
    t.fresh(t.ask(key="k"))
    t.equal(executed(t), 2, "executed")


def crash_at(t, step, reply, wanted, effects):
    """Dies at `step` while a settled question is on its way; afterwards it is asked about again."""
    if not t.options.crash_points:
        raise Skip("this binary is built without crash points")
    probing(t)
    make_unknown(t)
    t.close_clients()
    t.equal(t.proxy.stop(), 0, "exit code")
    t.proxy.extra_arguments = ["--crash-at", step]
    t.proxy.start()
    answers_probe(t, reply)
    client = t.start(key="k")
    try:
        t.check(False, "nothing whole is answered before the crash", client.read())
    except (Closed, Truncated):
        pass
    t.equal(t.proxy.wait(), -9, "killed at " + step)
    t.proxy.extra_arguments = []
    t.proxy.start()
    t.fd_level = t.proxy.fds()
    t.check(executed(t) in effects, "executed by then", executed(t))
    if step != "before-probe":
        t.check(t.api.wait_for(lambda api: asked(t) >= 1), "what was sent before the crash has been counted")
    before = asked(t)
    answers_probe(t, Reply(200, body=FOUND))
    answer = t.ask(key="k")
    t.equal((answer.status, answer.replayed, answer.body), (200, True, FOUND), "answered by the API or the record")
    t.check(executed(t) in effects, "executed", executed(t))
    t.equal(asked(t), before + (wanted == "asks"), "asked after the restart")


@test("crash: an unknown action granted, nothing asked yet", "crash-steps asan")
def crash_before_probe(t):
    crash_at(t, "before-probe", Reply(200, body=FOUND), "asks", {1})


@test("crash: the question sent", "crash-steps asan")
def crash_probe_sent(t):
    crash_at(t, "probe-sent", Reply(200, body=FOUND, delay=0.2), "asks", {1})


@test("crash: the answer of the probe there, nothing written yet", "crash-steps asan")
def crash_probe_answered(t):
    crash_at(t, "probe-answered", Reply(200, body=FOUND), "asks", {1})


@test("crash: happened, the outcome not yet asked to be written", "crash-steps asan")
def crash_before_complete(t):
    crash_at(t, "before-complete", Reply(200, body=FOUND), "asks", {1})


@test("crash: happened, the outcome committed, not delivered", "crash-steps asan")
def crash_completed(t):
    crash_at(t, "completed-not-delivered", Reply(200, body=FOUND), "replays", {1})


@test("crash: the API did not tell, the action not yet put back", "crash-steps asan")
def crash_before_put_back(t):
    crash_at(t, "before-put-back", Reply(500), "asks", {1})


@test("crash: not happened, the execution granted but not sent, then sent", "crash-steps asan")
def crash_not_happened(t):
    crash_at(t, "granted-nothing-sent", Reply(404), "asks", {1})


@test("crash: not happened, executed, the outcome not yet written", "crash-steps asan")
def crash_after_execution(t):
    crash_at(t, "before-abandon", Raw(lambda connection, request: t.api.on(BROKEN, method="POST", key="k", times=1),
                                      b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"), "asks", {2})


class Bookkeeper:
    """An API that fails now and then, before or after it acts, and can be asked what it did."""
    before_body = True

    def __init__(self, api):
        self.api, self.random = api, random.Random(7)

    def perform(self, connection, request):
        chance = self.random.random()
        if request.method == "GET":
            self.api.executed(connection, request)
            known = self.api.count(method="POST", key=request.path.rsplit("/", 1)[1])
            return Reply(503 if chance < 0.1 else 200 if known else 404, body=b'{"known":%d}' % known).perform(connection, request)
        if chance < 0.15:
            connection.reset()
            return False
        self.api.executed(connection, request)
        if chance < 0.3:
            connection.close()
            return False
        return Reply(delay=chance / 30).perform(connection, request)


def until_done(t, keys, final):
    """A client as it should be: the same request with the same key until the answer is final."""
    for key in keys:
        while key not in final:
            client = None
            try:
                client = Client(t.proxy.address, 10 * t.slow)
                answer = client.ask(key=key)
                if answer.status in (200, 201):
                    final[key] = answer.status
            except (OSError, Closed, Truncated):
                pass
            finally:
                if client:
                    client.close()
            if key not in final:
                time.sleep(0.1)


@test("kill -9 again and again, an API that loses answers: asked, every action ends as executed, exactly once", "crash-steps",
      seconds=90)
def exactly_once(t):
    """More than `at most once`: what the API can tell turns every unknown ending into a known one."""
    probing(t, settle="%dms" % (800 * t.slow), upstream={"response_timeout": "2s"})
    t.api.reply(Bookkeeper(t.api))
    final, keys = {}, ["k%d" % number for number in range(80)]
    threads = [t.thread(until_done, t, keys[first::8], final) for first in range(8)]
    for pause in (0.2, 0.3, 0.1, 0.5, 0.3):
        time.sleep(pause)
        t.proxy.restart()
    for thread in threads:
        thread.join(60 * t.slow)
    t.equal(len(final), len(keys), "all come to an end")
    t.equal({key: executed(t, key) for key in keys if executed(t, key) != 1}, {}, "each executed once")
    t.fd_level = t.proxy.fds()


@test("SIGTERM: a probe comes to its end; at the drain limit it is put back, 503 draining for all (O01)", "race asan")
def drain(t):
    probing(t, timeouts={"drain": "1s"}, workers=2)
    gate, never = threading.Event(), threading.Event()
    first = make_unknown(t, "kept", Reply(500, body=b"half done"))
    make_unknown(t, "ends")
    answers_probe(t, Reply(200, body=FOUND, delay=gate), "ends")
    answers_probe(t, Reply(404, delay=never), "kept")
    ends = t.start(key="ends")
    hangs = [t.start(key="kept") for _ in range(6)]
    t.check(t.api.wait_for(lambda api: asked(t, "/orders/by-ref/ends") + asked(t, "/orders/by-ref/kept") >= 2), "asked")
    t.check(hangs[-1].waits(0.1), "waits")
    t.proxy.signal(signal.SIGTERM)
    time.sleep(0.1)
    gate.set()
    t.equal(ends.read().body, FOUND, "the probe's answer")
    for client in hangs:
        t.problem(client.read(), 503, "draining", retry_after=True)
    t.equal(t.proxy.wait(), 0, "exit code")
    never.set()
    t.proxy.start()
    t.fd_level = t.proxy.fds()
    answers_probe(t, Reply(500), "kept")
    t.replay(t.ask(key="kept"), first, "put back as it was")
    t.equal(t.ask(key="ends").body, FOUND, "recorded")
    t.equal((executed(t, "kept"), executed(t, "ends")), (1, 1), "executed")


@test("SIGHUP while the API is asked: the attempt keeps its rule, the next one has the new one (O02)", "race asan")
def reload(t):
    probing(t)
    gate = threading.Event()
    make_unknown(t)
    make_unknown(t, "next")
    answers_probe(t, Reply(404, delay=gate))
    client = t.start(key="k")
    t.check(t.api.wait_for(lambda api: asked(t) >= 1), "asked")
    t.proxy.configure(route={"on_unknown": "report"})
    t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: "read again" in t.proxy.stderr() or "reload" in t.proxy.stderr(), text="reloaded")
    t.problem(t.ask(key="next"), 409, "outcome-unknown")
    gate.set()
    t.fresh(client.read())
    t.equal((executed(t), executed(t, "next"), asked(t, "/orders/by-ref/next")), (2, 1, 0), "executed, executed, asked")


@test("another identity neither asks nor gets the probe's answer; the probe carries the asker's own credentials", "asan")
def other_identity(t):
    probing(t)
    make_unknown(t)
    t.problem(t.ask(key="k", auth="Bearer tok-bob"), 409, "identity-changed")
    t.equal(asked(t), 0, "asked")
    t.status(t.ask(key="k"), 200)
    t.equal(t.api.requests[-1].get("Authorization"), "Bearer tok-alice", "credentials")
    t.equal((executed(t), asked(t)), (1, 1), "executed, asked")


@test("cors: a script may read what a probe leads to, replays and refusals", "asan")
def cors(t):
    probing(t, settle="60s", route={"cors": ["https://app.example"]})
    origin = [("Origin", "https://app.example")]
    make_unknown(t)
    answers_probe(t, Reply(404), times=1)
    early = t.ask(key="k", headers=origin)
    t.problem(early, 409, "in-progress", retry_after=True)
    t.equal(early.get("Access-Control-Allow-Origin"), "https://app.example", "origin")
    t.check("Retry-After" in (early.get("Access-Control-Expose-Headers") or ""), "exposed", early)
    answer = t.ask(key="k", headers=origin)
    t.status(answer, 200)
    t.check("Idempotent-Replayed" in (answer.get("Access-Control-Expose-Headers") or ""), "exposed", answer)


@test("each probe is a line of the log with action and status, the key in none; the attempt's line has upstream_ms", "asan")
def visible(t):
    probing(t)
    make_unknown(t, "secret-key-1")
    answers_probe(t, Reply(200, body=FOUND, delay=0.05), "secret-key-1")
    t.status(t.ask(key="secret-key-1"), 200)
    line = t.proxy.access(2)[-1]
    t.equal((line["outcome"], line["status"]), ("replayed", 200), "the attempt's line")
    t.check(line["upstream_ms"] >= 40, "upstream_ms", line)
    told = [text for text in t.proxy.stderr().split("\n") if "the API was asked" in text]
    t.equal(len(told), 1, "lines")
    t.check(line["action"] in told[0] and "200" in told[0], "names action and status", told)
    t.check("secret-key-1" not in t.proxy.stderr() + t.proxy.stdout(), "never the key")


@test("a probe that fails on a reused connection is asked once more on a new one, the execution after it is not", "asan")
def connections(t):
    probing(t, workers=1)
    make_unknown(t)
    t.fresh(t.ask(key="other"), text="leaves an idle connection")
    answers_probe(t, Reply(200, body=FOUND))
    answers_probe(t, Raw(end="close"), times=1)
    t.equal(t.ask(key="k").body, FOUND, "answer of the second try")
    t.equal((executed(t), asked(t)), (1, 2), "executed, asked")
    make_unknown(t, "n")
    answers_probe(t, Reply(404), "n")
    t.api.on(BROKEN, method="POST", key="n", times=1)
    t.problem(t.ask(key="n"), 502, "upstream-closed")
    t.equal((executed(t, "n"), asked(t, "/orders/by-ref/n")), (2, 1), "executed, asked")


@test("`check` says how the API is asked, and warns of a settle below response_timeout", "asan")
def check_output(t):
    t.ordinary = False
    proxy = t.prepare(route={"on_unknown": "probe", "probe": {"path": "/orders/by-ref/{key}", "settle": "5s"}})
    proxy.spawn(["check", "-c", proxy.file])
    t.equal(proxy.wait(), 0, "exit code")
    for words in ("GET /orders/by-ref/{key}", "believed 5s after"):
        t.check(words in proxy.stdout(), words, proxy.stdout())
    t.check("probe.settle: shorter than the upstream's response_timeout" in proxy.stderr(), "warned", proxy.stderr())
    proxy.read = lambda path: ""  # this output is no access log
