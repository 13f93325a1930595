"""A replay is the first answer again (contract §5 "Replay"; cases S24–S28, H22, H32)."""
import email.utils
import gzip
import hashlib
import threading
import time

from lib.case import Raw, Reply, test

OWN = {"date", "x-request-id", "idempotent-replayed", "content-length", "transfer-encoding", "connection", "keep-alive"}


def end_to_end(answer):
    """Headers that must be the same in a replay, in their order."""
    return [(n, v) for n, v in answer.headers if n.lower() not in OWN]


@test("sizes from nothing to 5 MiB: replayed byte for byte, by length and chunked", "asan", seconds=60)
def sizes(t):
    t.einmal()
    for size in (0, 1, 4095, 4096, 4097, 65536, 1 << 20, 5 << 20):
        body = hashlib.sha256(b"%d" % size).digest() * (size // 32 + 1)
        body = body[:size]
        for framing in ("length", "chunked", "close"):
            key = "k-%d-%s" % (size, framing)
            t.api.on(Reply(200, [("Content-Type", "application/octet-stream")], body, framing=framing), key=key, times=1)
            client = t.client()
            first = t.fresh(client.ask(key=key), 200, key)
            t.check(first.body == body, "first body of %s" % key, len(first.body))
            again = client.ask(key=key)
            t.check(again.replayed, "marked: %s" % key, again)
            t.check(again.body == body, "replayed body of %s" % key, len(again.body))
            t.equal(again.framing, "length", "framing of the replay of %s" % key)
            t.equal(again.all("Content-Length"), [str(size)], "length of the replay")
            t.status(client.ask("GET", target="/free"), 200, "the connection goes on after %s" % key)
            client.close()
            t.effects(1, key=key)


@test("20 MB, over the limit: streamed to the first client, 409 response-not-kept for the repetition (S28)", "asan",
      seconds=60)
def too_large(t):
    t.einmal()
    body = hashlib.sha256(b"large").digest() * 625000  # 20 MB
    for framing in ("length", "chunked"):
        gate = threading.Event()
        t.api.on(Reply(200, [], [body[:1000], gate, body[1000:]], framing=framing), key=framing, times=1)
        owner = t.start(key=framing)
        t.check(t.api.wait_count(1, key=framing), "reaches the API")
        waiter = t.start(key=framing)
        t.check(waiter.waits(0.2), "waits")
        gate.set()
        first = t.fresh(owner.read(), 200)
        t.check(first.body == body, "the first client gets all of it", len(first.body))
        t.problem(waiter.read(), 409, "response-not-kept", action=True, text="waiter")
        problem = t.problem(t.ask(key=framing), 409, "response-not-kept", action=True)
        t.equal(problem.get("original_status"), 200, "original status")
        t.equal(problem["state"], "completed", "state")
        t.problem(t.ask(key=framing, body=b"other"), 422, "key-reused")
        t.effects(1, key=framing)


@test("exactly at max_response_body is kept, one byte more is not", "asan")
def limit_of_a_response(t):
    t.einmal(route={"max_response_body": "64KiB"})
    for framing in ("length", "chunked", "close"):
        for size, kept in ((65535, True), (65536, True), (65537, False)):
            key = "k-%d-%s" % (size, framing)
            t.api.on(Reply(200, [], b"x" * size, framing=framing), key=key, times=1)
            first = t.fresh(t.ask(key=key), 200)
            t.equal(len(first.body), size, "first answer")
            again = t.ask(key=key)
            if kept:
                t.replay(again, first, key)
            else:
                t.problem(again, 409, "response-not-kept")
            t.effects(1, key=key)


@test("a released answer too large to keep: 409 in-progress for those who wait")
def too_large_and_released(t):
    t.einmal(route={"max_response_body": "64KiB"})
    for status, code in ((429, "in-progress"), (500, "response-not-kept")):
        gate, key = threading.Event(), "k%d" % status
        t.api.on(Reply(status, [], b"x" * 70000, delay=gate), key=key, times=1)
        owner = t.start(key=key)
        t.check(t.api.wait_count(1, key=key), "reaches the API")
        waiter = t.start(key=key)
        t.check(waiter.waits(0.2), "waits")
        gate.set()
        t.status(owner.read(), status)
        answer = waiter.read()
        t.problem(answer, 409, code, retry_after=True if status == 429 else None)
        if status == 429:
            t.equal(answer.get("Retry-After"), "1", "Retry-After")
        t.effects(1, key=key)


@test("same status, reason aside, same headers in order and multiplicity; Set-Cookie is not kept (S24, S25)", "asan")
def headers_in_order(t):
    t.einmal()
    headers = [("Location", "/orders/7"), ("ETag", 'W/"x"'), ("Link", "</a>; rel=next"), ("Link", "</b>; rel=prev"),
               ("Content-Type", "text/plain; charset=utf-8"), ("Set-Cookie", "a=1; Expires=Mon, 21 Oct 2030 07:28:00 GMT"),
               ("Content-Language", "de"), ("X-Long", "y" * 8000), ("Set-Cookie", "b=2"), ("Vary", "Accept"),
               ("Content-Disposition", 'attachment; filename="a,b.txt"'), ("WWW-Authenticate", "Basic realm=x"),
               ("X-Empty", ""), ("Cache-Control", "private"), ("Server", "legacy/1.0"), ("x-lower", "1"), ("Link", "</c>")]
    t.api.reply(Reply(201, headers, b"made", reason="Made"))
    first = t.fresh(t.ask(key="k"))
    t.equal(end_to_end(first), headers, "first answer untouched")
    t.equal(first.all("Set-Cookie"), ["a=1; Expires=Mon, 21 Oct 2030 07:28:00 GMT", "b=2"], "cookies of the first answer")
    again = t.ask(key="k")
    t.replay(again, first)
    t.equal(end_to_end(again), [h for h in headers if h[0] != "Set-Cookie"], "replayed headers")
    with open(t.proxy.store + "/data.mdb", "rb") as data:
        t.check(b"Expires=Mon, 21 Oct" not in data.read(), "a dropped header never reaches the disk")
    t.effects(1, key="k")


@test("replay_headers.drop is configurable: cookies kept, others dropped", "asan")
def configured_drop(t):
    t.einmal(route={"replay_headers": {"drop": ["X-Secret", "etag"]}})
    t.api.reply(Reply(200, [("Set-Cookie", "a=1"), ("X-Secret", "s3cr3t-value"), ("ETag", "x"), ("Set-Cookie", "b=2")], b"x"))
    t.ask(key="k")
    again = t.ask(key="k")
    t.check(again.replayed, "replayed", again)
    t.equal(again.all("Set-Cookie"), ["a=1", "b=2"], "kept, two lines")
    t.equal((again.get("X-Secret"), again.get("ETag")), (None, None), "dropped")


@test("hop-by-hop fields, those that Connection names, trailers: gone; codings of content: kept (S26, H10, H12)", "asan")
def hop_by_hop(t):
    t.einmal()
    content = gzip.compress(b"\x00\xff text" * 50)
    raw = (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n"
           b"Keep-Alive: timeout=5\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\nProxy-Connection: close\r\nX-Stays: 1\r\n\r\n"
           + b"%x\r\n" % len(content) + content + b"\r\n0\r\nX-T: 1\r\nSet-Cookie: t=1\r\n\r\n")
    t.api.reply(Raw(raw, end="close"))
    client = t.client()
    first = t.fresh(client.ask(key="k"), 200)
    again = client.ask(key="k")
    old = t.ask(key="k", version="1.0")
    plain = t.ask(key="k", headers=[("Accept-Encoding", "identity")])
    for name, answer in (("first", first), ("replay", again), ("1.0", old), ("identity", plain)):
        t.equal(answer.body, content, name + ": body")
        t.equal(answer.get("Content-Encoding"), "gzip", name + ": Content-Encoding")
        for gone in ("X-Hop", "Keep-Alive", "Trailer", "Proxy-Connection", "X-T", "Set-Cookie"):
            t.equal(answer.get(gone), None, "%s: %s" % (name, gone))
        t.equal(answer.get("X-Stays"), "1", name + ": end-to-end field")
    t.check(not first.closes, "the API's Connection: close is its own", first)
    t.status(client.ask("GET", target="/free"), 200, "the client's connection goes on")
    t.effects(1, key="k")


@test("a replay has a fresh Date, its own X-Request-Id, and the marker is only on replays (S27)", "asan")
def date_and_marker(t):
    t.einmal()
    old = "Mon, 21 Oct 2019 07:28:00 GMT"
    t.api.reply(Reply(200, [("Date", old), ("Idempotent-Replayed", "yes"), ("Idempotency-Degraded", "true"), ("X-A", "1")],
                      b"x"))
    first = t.ask(key="k")
    t.equal(first.all("Idempotent-Replayed"), [], "the API's own marker is removed")
    t.equal(first.all("Idempotency-Degraded"), [], "the API's own degraded mark is removed")
    t.equal(first.all("Date"), [old], "the first answer's Date is the API's")
    t.equal(len(first.all("X-Request-Id")), 1, "one request id")
    again = t.ask(key="k")
    t.equal(again.all("Idempotent-Replayed"), ["true"], "one marker")
    t.equal(len(again.all("Date")), 1, "one Date")
    when = email.utils.parsedate_to_datetime(again.get("Date")).timestamp()
    t.check(abs(when - time.time()) < 10, "fresh Date", again.get("Date"))
    t.equal(again.all("Age"), [], "no Age invented")
    t.equal(len(again.all("X-Request-Id")), 1, "one request id")
    t.check(again.get("X-Request-Id") != first.get("X-Request-Id"), "a request id of its own", again, first)
    named = t.ask(key="k", headers=[("X-Request-Id", "mine-1")])
    t.equal(named.all("X-Request-Id"), ["mine-1"], "the client's request id")
    # Without a Date of the API's both have one, or neither is invented wrongly.
    t.api.reply(Reply(200, [("X-Request-Id", "api-1")], b"x"))
    t.equal(t.ask(key="k2").all("X-Request-Id"), ["api-1"], "the API's request id")
    t.equal(t.ask(key="k2").all("X-Request-Id"), ["api-1"], "and in the replay")


@test("the marker's name is configurable", "asan")
def marker_name(t):
    t.einmal(route={"replayed_header": "X-Repeated"})
    t.api.reply(Reply(200, [("X-Repeated", "no")], b"x"))
    t.equal(t.ask(key="k").all("X-Repeated"), [], "first")
    again = t.ask(key="k")
    t.equal(again.all("X-Repeated"), ["true"], "replay")
    t.equal(again.all("Idempotent-Replayed"), [], "not the default name")
    t.api.reply(None)


@test("answers without a body: 204, 304, 205 and a HEAD between them (H22)", "asan")
def bodiless(t):
    t.einmal()
    client = t.client()
    scripts = {"204": Raw(b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n"),
               "204 with a length": Raw(b"HTTP/1.1 204 No Content\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n"),
               "304": Raw(b"HTTP/1.1 304 Not Modified\r\nX-A: 1\r\nContent-Length: 77\r\n\r\n"),
               "200 empty": Raw(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n")}
    for number, (name, script) in enumerate(scripts.items()):
        key = "k%d" % number
        t.api.on(script, key=key, times=1)
        first = client.ask(key=key)
        again = client.ask(key=key)
        t.replay(again, first, name)
        t.equal(again.get("X-A"), "1", name)
        t.status(client.ask("GET", target="/free"), 200, "goes on after " + name)
        t.effects(1, key=key)
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"), path="/head", method="HEAD")
    answer = client.ask("HEAD", target="/head")
    t.equal(answer.get("Content-Length"), "1234", "the length of a HEAD answer is kept")
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), path="/head2", method="HEAD")
    t.status(client.ask("HEAD", target="/head2"), 200)
    t.status(client.ask("GET", target="/free"), 200, "goes on after HEAD")


@test("HTTP/1.0 clients: a length, no chunks, no 1xx, closing unless asked otherwise (H32)", "asan")
def http_1_0(t):
    t.einmal()
    for number, framing in enumerate(("chunked", "length", "close")):
        key = "k%d" % number
        t.api.on(Reply(200, [], [b"abc", 0.1, b"def"], framing=framing), key=key, times=1)
        client = t.client()
        first = t.fresh(client.ask(key=key, version="1.0"), 200)
        t.equal((first.body, first.framing), (b"abcdef", "length"), "keyed, by a 1.0 client, API " + framing)
        t.equal(client.expect_end(), b"", "closed")
        again = t.client().ask(key=key, version="1.0")
        t.replay(again, first)
        alive = t.client()
        for _ in range(2):
            t.replay(alive.ask(key=key, version="1.0", headers=[("Connection", "keep-alive")]), first)
        t.replay(t.ask(key=key), first, "by a 1.1 client")
        t.effects(1, key=key)
        t.api.on(Reply(200, [], [b"abc", 0.1, b"def"], framing=framing), path="/free%d" % number)
        free = t.client().ask("GET", target="/free%d" % number, version="1.0")
        t.equal(free.body, b"abcdef", "unkeyed")
        t.check(free.framing in ("close", "length"), "no chunks to a 1.0 client", free)


@test("an answer to a 1.0 client that is too large to record: whole, ended by FIN; cut by a reset", "asan")
def http_1_0_too_large(t):
    t.einmal(route={"max_response_body": "64KiB"})
    t.api.on(Reply(200, [], b"z" * 300000, framing="chunked"), key="k", times=1)
    first = t.client().ask(key="k", version="1.0")
    t.equal(len(first.body), 300000, "all of it")
    t.problem(t.ask(key="k"), 409, "response-not-kept")
    t.effects(1, key="k")


@test("replays survive a restart (clean and by kill -9), byte for byte", "asan")
def replays_survive(t):
    t.einmal()
    body = bytes(range(256)) * 300
    t.api.reply(Reply(200, [("X-A", "1"), ("X-A", "2")], body))
    first = t.fresh(t.ask(key="k"), 200)
    t.api.reply(None)
    t.equal(t.proxy.stop(), 0, "exit code")
    t.proxy.start()
    again = t.ask(key="k")
    t.replay(again, first)
    t.equal(end_to_end(again), end_to_end(first), "headers")
    t.proxy.restart()
    t.replay(t.ask(key="k"), first)
    t.problem(t.ask(key="k", body=b"other"), 422, "key-reused")
    t.effects(1, key="k")
