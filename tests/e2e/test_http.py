"""HTTP/1.1 on the wire: framing, refusals, Expect, pipelining (contract §7; cases H01–H05, H08, H14, H16, H19, H20)."""
import threading
import time

from lib.case import Closed, Raw, Reply, Truncated, request_bytes, test

START = b"POST /orders HTTP/1.1\r\nHost: a\r\n"

# name: (bytes, status, code); all must reach nobody and close the connection
REFUSED = {
    "length and coding": (START + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad-request"),
    "coding and length": (START + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400, "bad-request"),
    "empty coding and length": (START + b"Transfer-Encoding:\r\nContent-Length: 3\r\n\r\nabc", 400, "bad-request"),
    "chunked,": (START + b"Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n", 400, "bad-request"),
    "chunked, gzip": (START + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400, "bad-request"),
    "gzip, chunked": (START + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, "bad-request"),
    "two codings": (START + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad-request"),
    "xchunked": (START + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501, "not-implemented"),
    "gzip": (START + b"Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n", 501, "not-implemented"),
    "1.0 with a coding": (b"POST /orders HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
                          b"3\r\nabc\r\n0\r\n\r\n", 400, "bad-request"),
    "empty length": (START + b"Content-Length:\r\n\r\n", 400, "bad-request"),
    "length +3": (START + b"Content-Length: +3\r\n\r\nabc", 400, "bad-request"),
    "length -1": (START + b"Content-Length: -1\r\n\r\nabc", 400, "bad-request"),
    "length 0x3": (START + b"Content-Length: 0x3\r\n\r\nabc", 400, "bad-request"),
    "length 3, 3": (START + b"Content-Length: 3, 3\r\n\r\nabc", 400, "bad-request"),
    "length 1 2": (START + b"Content-Length: 1 2\r\n\r\nabc", 400, "bad-request"),
    "length too great": (START + b"Content-Length: 99999999999999999999\r\n\r\nabc", 400, "bad-request"),
    "equal lengths": (START + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400, "bad-request"),
    "different lengths": (START + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabc", 400, "bad-request"),
    "folded line": (START + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n", 400, "bad-request"),
    "folded coding": (START + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400, "bad-request"),
    "space before the colon": (START + b"Content-Length : 3\r\n\r\nabc", 400, "bad-request"),
    "space first": (b"POST /orders HTTP/1.1\r\n Host: a\r\nContent-Length: 0\r\n\r\n", 400, "bad-request"),
    "empty name": (START + b": b\r\nContent-Length: 0\r\n\r\n", 400, "bad-request"),
    "bare CR": (START + b"X: a\rTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", 400, "bad-request"),
    "bare LF": (b"POST /orders HTTP/1.1\r\nHost: a\nX: b\r\nContent-Length: 0\r\n\r\n", 400, "bad-request"),
    "NUL": (START + b"X: a\0b\r\nContent-Length: 0\r\n\r\n", 400, "bad-request"),
    "control character": (START + b"X: a\x01b\r\nContent-Length: 0\r\n\r\n", 400, "bad-request"),
    "no Host": (b"POST /orders HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 400, "bad-request"),
    "two Hosts": (START + b"Host: a\r\nContent-Length: 0\r\n\r\n", 400, "bad-request"),
    "bad Host": (b"POST /orders HTTP/1.1\r\nHost: a b\r\nContent-Length: 0\r\n\r\n", 400, "bad-request"),
    "no version": (b"POST /orders\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 400, "bad-request"),
    "HTTP/2.0": (b"POST /orders HTTP/2.0\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 505, "version-not-supported"),
    "HTTP/1.2": (b"POST /orders HTTP/1.2\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 505, "version-not-supported"),
    "unknown method": (b"BREW /orders HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 501, "not-implemented"),
    "CONNECT": (b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 501, "not-implemented"),
    "no method at all": (b"@@@ /orders HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request"),
    "TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abc\r\n\r\n", 400, "bad-request"),
    "chunk size with 0x": (START + b"Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", 400, "bad-request"),
    "chunk line LF": (START + b"Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", 400, "bad-request"),
    "chunk too long": (START + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400, "bad-request"),
    "chunk overflow": (START + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n0\r\n\r\n", 400, "bad-request"),
    "Expect: foo": (START + b"Expect: foo\r\nIdempotency-Key: k\r\nContent-Length: 3\r\n\r\nabc", 417, "expectation-failed"),
    "target too long": (b"POST /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 414, "target-too-long"),
    "header too large": (START + b"X: " + b"a" * 40000 + b"\r\n\r\n", 431, "header-too-large"),
    "too many headers": (START + b"".join(b"X-%d: a\r\n" % n for n in range(120)) + b"\r\n", 431, "header-too-large"),
}


def refuse(t, name, data, status, code, tail=b""):
    client = t.client()
    try:
        client.send(data + tail)
    except OSError:
        pass
    answer = client.read()
    t.problem(answer, status, code, text=name)
    t.check(answer.closes, "%s: says that it closes" % name, answer)
    t.equal(client.expect_end(), b"", "%s: closed, nothing more answered" % name)
    client.close()


@test("what is ambiguous or malformed is refused, keyed or not, and nothing reaches the API (H01–H05, H08)", "asan",
      seconds=60)
def refused(t):
    t.einmal()
    smuggled = b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n"
    streamed = []
    for name, (data, status, code) in REFUSED.items():
        if name.startswith("chunk") and b"\r\n\r\n" in data and status == 400 and b"chunked\r\n\r\n" in data:
            streamed.append((name, data, status, code))
        else:
            refuse(t, name, data, status, code, smuggled)
        if data.startswith(START) and b"Idempotency-Key" not in data:
            refuse(t, name + ", keyed", START + b"Idempotency-Key: k\r\n" + data[len(START):], status, code, smuggled)
    t.equal(len(t.api.heads), 0, "heads at the API")
    # Of an unkeyed request the head may have gone on before its body proves bad; it never becomes a whole request.
    for name, data, status, code in streamed:
        refuse(t, name, data, status, code, smuggled)
    t.effects(0)


@test("accepted: chunked in any case, extensions, absolute form, 1.0 without Host, empty lines before a request", "asan")
def accepted(t):
    t.einmal()
    rows = [START + b"Transfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n",
            b"POST http://other.test/orders HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
            b"POST /orders HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc",
            b"\r\n" + START + b"Content-Length: 3\r\n\r\nabc"]
    for data in rows:
        for key in (b"", b"Idempotency-Key: k%d\r\n" % rows.index(data)):
            first_line = data.index(b"\r\n", 2) + 2
            client = t.client()
            answer = client.send(data[:first_line] + key + data[first_line:]).read()
            t.status(answer, 201, "accepted: %r" % data[:60])
            request = t.api.last()
            t.equal(request.body, b"abc", "body of %r" % data[:60])
            t.equal(request.target, "/orders", "origin form")
            t.equal(len(request.all("Host")), 1, "one Host")
            if b"other.test" in data:
                t.equal(request.get("Host"), "other.test", "the target's authority replaces Host")
            if b"1.0" in data:
                t.equal(request.get("Host"), t.api.url[len("http://"):], "the upstream's authority")
    t.effects(2 * len(rows))


@test("requests cut at every byte, keyed and not", "asan", seconds=60)
def cut_everywhere(t):
    t.einmal()
    client = t.client()
    for name, framing in (("length", "length"), ("chunked", "chunked")):
        data = request_bytes(key="cut-" + name, framing=framing, body=b'{"a":1}')
        first = client.send(data).read()
        for cut in range(1, len(data)):
            client.send(data[:cut])
            if cut % 4 == 0:
                time.sleep(0.001)
            t.replay(client.send(data[cut:]).read(), first, "cut at %d" % cut)
        t.effects(1, key="cut-" + name)
        for byte in data:
            client.send(bytes([byte]))
        t.replay(client.read(), first, "byte by byte")
    free = request_bytes("POST", "/free", body=b"x" * 30, framing="chunked")
    for cut in range(1, len(free), 3):
        client.send(free[:cut])
        time.sleep(0.001)
        t.status(client.send(free[cut:]).read(), 201, "unkeyed, cut at %d" % cut)
        t.equal(t.api.last().body, b"x" * 30, "unkeyed body")


@test("Expect: 100-continue of a keyed request: exactly one 100, then the answer; for a replay and a mismatch too (H16)",
      "asan")
def expect_keyed(t):
    t.einmal()
    expect = [("Expect", "100-continue")]

    def run(key, body, what):
        data = request_bytes(key=key, body=body, headers=expect)
        split = data.index(b"\r\n\r\n") + 4
        client = t.client().send(data[:split])
        began = time.monotonic()
        while b"\r\n\r\n" not in client.buffer:
            t.check(client.receive(), what + ": 100 comes before the body")
        t.check(client.buffer.startswith(b"HTTP/1.1 100 "), what + ": 100 first", client.buffer)
        t.within(time.monotonic() - began, 4.0, what + ": 100 at once")
        answer = client.send(data[split:]).read()
        t.equal([i.status for i in answer.interim], [100], what + ": exactly one 100")
        return answer
    first = t.fresh(run("k", b"abc", "first"))
    t.equal(t.api.last().get("Expect"), None, "Expect is answered here")
    t.replay(run("k", b"abc", "replay"), first)
    t.problem(run("k", b"other", "mismatch"), 422, "key-reused")
    together = t.client().send(request_bytes(key="k", body=b"abc", headers=expect)).read()
    t.replay(together, first, "body not held back")
    old = t.client().send(request_bytes(key="k", body=b"abc", headers=expect, version="1.0")).read()
    t.replay(old, first, "1.0")
    t.equal(old.interim, [], "no 1xx to a 1.0 client")
    t.effects(1)


@test("Expect where the head alone is refused: the final status without a 100", "asan")
def expect_refused(t):
    t.einmal(route={"max_request_body": "1KiB"})
    rows = [(request_bytes(key_line=' "bad', headers=[("Expect", "100-continue")]), 400, "key-invalid"),
            (request_bytes(key="k", body=b"x" * 2000, headers=[("Expect", "100-continue")]), 413, "body-too-large")]
    for data, status, code in rows:
        client = t.client().send(data[:data.index(b"\r\n\r\n") + 4])
        answer = client.read()
        t.problem(answer, status, code)
        t.equal(answer.interim, [], "no 100 for a refused request")
    t.effects(0)


@test("Expect of an unkeyed request is the API's business", "asan")
def expect_unkeyed(t):
    t.einmal()
    data = request_bytes("POST", "/free", body=b"abc", headers=[("Expect", "100-continue")])
    split = data.index(b"\r\n\r\n") + 4
    client = t.client().send(data[:split])
    while b"\r\n\r\n" not in client.buffer:
        t.check(client.receive(), "the API's 100 is relayed")
    answer = client.send(data[split:]).read()
    t.equal([i.status for i in answer.interim], [100], "one 100")
    t.equal(t.api.last().get("Expect"), "100-continue", "forwarded")
    t.status(answer, 201)


@test("pipelining: answers in order, the same key twice on one connection, nothing runs side by side (H20)", "race asan")
def pipelining(t):
    t.einmal()
    t.api.reply(Reply(delay=0.2))
    packet = (request_bytes(key="k") + request_bytes(key="k") + request_bytes("GET", "/x?1") + request_bytes(key="k2")
              + request_bytes(key="k", body=b"other") + request_bytes("GET", "/x?2"))
    client = t.client().send(packet)
    first = t.fresh(client.read())
    t.replay(client.read(), first, "second of the same connection")
    t.status(client.read("GET"), 201, "third")
    t.fresh(client.read(), text="fourth")
    t.problem(client.read(), 422, "key-reused")
    t.status(client.read("GET"), 201, "sixth")
    t.effects(1, key="k")
    t.effects(1, key="k2")
    t.equal([r.target for r in t.api.requests], ["/orders", "/x?1", "/orders", "/x?2"], "order at the API")
    times = [r.at for r in t.api.requests]
    t.check(all(later - earlier >= 0.19 for earlier, later in zip(times, times[1:])),
            "requests of one connection run one after another", times)


@test("64 pipelined, keyed and not, then the packet cut at odd places", "asan", seconds=60)
def deep_pipeline(t):
    t.einmal()
    client = t.client()
    packet = b"".join(request_bytes(key="p%d" % (n // 2)) if n % 3 else request_bytes("GET", "/x?%d" % n) for n in range(64))
    for attempt, cuts in enumerate(([], range(97, len(packet), 997), range(13, len(packet), 301))):
        client.send_cut(packet, cuts, 0.0005)
        for n in range(64):
            answer = client.read("POST" if n % 3 else "GET")
            t.check(answer.status in (200, 201), "answer %d of attempt %d" % (n, attempt), answer)
    for n in range(32):
        t.check(t.api.count(key="p%d" % n) <= 1, "one effect", n)


@test("a large pipelined backlog is bounded and answered in order", "asan", seconds=60)
def pipelined_backlog(t):
    t.einmal()
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="first")
    client = t.client()
    one = request_bytes(key="b", body=b"y" * 5000)
    sender = t.thread(client.send, request_bytes(key="first") + one * 400)
    t.check(t.api.wait_count(1), "reaches the API")
    time.sleep(0.5)
    if not t.options.sanitizer:
        t.check(t.proxy.memory() < 40 * 1024, "input is bounded", t.proxy.memory())
    gate.set()
    t.fresh(client.read())
    second = t.fresh(client.read())
    for _ in range(399):
        t.replay(client.read(), second)
    sender.join(5)
    t.effects(1, key="b")


@test("an error answer is never lost to the unread body; the next request is no garbage (H19)", "asan", seconds=90)
def body_after_a_refusal(t):
    t.einmal(route={"max_request_body": "1MiB"})
    for size in (1, 65536, 200 << 10, 20 << 20):
        for what, key_line, status in (("bad key", ' "bad', 400), ("good key", " k-%d" % size, 201 if size <= 1 << 20 else 413)):
            for attempt in range(3):
                client = t.client()
                data = request_bytes(key_line=key_line, body=b"x" * size) + request_bytes("GET", "/ok")
                sender = t.thread(quiet_send, client, data)
                answer = client.read()
                t.status(answer, status, "%s, %d bytes" % (what, size))
                if not answer.closes:
                    t.status(client.read("GET"), 200, "%s, %d bytes: the next one" % (what, size))
                else:
                    t.check(size > 1 << 20, "a bounded body is drained: %s, %d bytes" % (what, size), answer)
                    t.equal(client.expect_end(), b"", "closed")
                sender.join(5)
                client.close()
    t.check(t.api.count(method="POST") == 3, "only the good ones execute", t.api.effects)


def quiet_send(client, data):
    try:
        client.send(data)
    except OSError:
        pass


@test("bodies over max_request_body are 413, by length and chunked; at the limit they pass", "asan")
def request_body_limit(t):
    t.einmal(route={"max_request_body": "64KiB"})
    for framing in ("length", "chunked"):
        t.fresh(t.ask(key="fits-" + framing, body=b"x" * 65536, framing=framing))
        t.equal(t.api.last().body_length, 65536, "whole body")
        client = t.client()
        sender = t.thread(quiet_send, client, request_bytes(key="over-" + framing, body=b"x" * 65537, framing=framing))
        t.problem(client.read(), 413, "body-too-large", retry_after=False, text="over, " + framing)
        sender.join(5)
    t.effects(2)
    t.status(t.ask(target="/free", body=b"x" * 200000), 201, "unkeyed bodies have no limit")
    t.status(t.ask(target="/orders", body=b"x" * 200000), 201, "nor those without a key")


@test("Upgrade on a keyed request is ignored; the body is read and what is pipelined answered (H14)", "asan")
def upgrade_on_post(t):
    t.einmal()
    headers = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk")]
    for framing in ("length", "chunked"):
        client = t.client().send(request_bytes(key="k" + framing, headers=headers, framing=framing)
                                 + request_bytes("GET", "/2"))
        first = t.fresh(client.read())
        t.status(client.read("GET"), 200, "the pipelined one")
        request = t.api.last(key="k" + framing)
        t.equal(request.body, b'{"a":1}', "body")
        t.equal([request.get(n) for n in ("Upgrade", "HTTP2-Settings")], [None, None], "removed")
        t.replay(client.ask(key="k" + framing, headers=headers, framing=framing), first)
        t.effects(1, key="k" + framing)


@test("what the API gets is framed once, by einmal itself; hop-by-hop fields are gone", "asan")
def request_headers(t):
    t.einmal()
    headers = [("Connection", "keep-alive, X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "timeout=5"), ("TE", "trailers"),
               ("Proxy-Connection", "close"), ("X-A", "1"), ("X-A", "2"), ("traceparent", "00-ab-cd-01"), ("Accept", "*/*")]
    for key in (None, "k"):
        for framing in ("length", "chunked"):
            t.ask(target="/orders/%s?a=%%2F&b" % framing, key=key and key + framing, headers=headers, framing=framing)
            request = t.api.last()
            t.equal(len(request.all("Content-Length")) + len(request.all("Transfer-Encoding")), 1, "one framing")
            t.equal(request.target, "/orders/%s?a=%%2F&b" % framing, "target as it came")
            for gone in ("X-Hop", "Keep-Alive", "Proxy-Connection"):
                t.equal(request.get(gone), None, gone)
            t.equal(request.all("X-A"), ["1", "2"], "order and multiplicity")
            t.equal((request.get("traceparent"), request.get("Host")), ("00-ab-cd-01", "shop.test"), "unchanged")
            t.equal(len(request.all("X-Request-Id")), 1, "request id added")
            t.equal(request.get("X-Forwarded-For") is not None, True, "X-Forwarded-For")
            t.equal(request.get("X-Forwarded-Proto"), "http", "X-Forwarded-Proto")


@test("request ids: a valid one is kept, another replaced; the same in request, answer and log", "asan")
def request_ids(t):
    t.einmal()
    for number, (value, kept) in enumerate((("abc-1.2:/+=_~", True), ("x" * 128, True), ("x" * 129, False), ("a b", False),
                                             ("", False), ("a\"b", False))):
        answer = t.ask(key="k%d" % number, headers=[("X-Request-Id", value)])
        sent = t.api.last().all("X-Request-Id")
        t.equal(len(sent), 1, "one id for %r" % value)
        t.equal(sent[0] == value, kept, "kept: %r" % value)
        t.equal(answer.all("X-Request-Id"), sent, "the same in the answer")
        t.check(t.proxy.access(1, request_id=sent[0]), "the same in the log", sent)


@test("forwarded: append, replace, pass; via; host", "asan")
def forwarded(t):
    t.ordinary = False
    came = [("X-Forwarded-For", "1.2.3.4"), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "front.test")]
    rows = {"append": (["1.2.3.4, "], ["https"], ["front.test"]), "replace": ([""], ["http"], ["shop.test"]),
            "pass": (["1.2.3.4"], ["https"], ["front.test"])}
    for mode, (forwarded_for, proto, host) in rows.items():
        t.proxy = t.prepare("-" + mode, forwarded=mode, via=mode == "replace",
                            upstream={"host": "inner.test" if mode == "replace" else "pass"}).start()
        answer = t.ask(key=mode, headers=came)
        request = t.api.last()
        got = request.get("X-Forwarded-For")
        t.equal(len(request.all("X-Forwarded-For")), 1, mode + ": one line")
        if mode == "append":
            t.check(got.startswith("1.2.3.4, 127."), mode, got)
        elif mode == "replace":
            t.check(got.startswith("127."), mode, got)
        else:
            t.equal(got, forwarded_for[0], mode)
        t.equal(request.all("X-Forwarded-Proto"), proto, mode)
        t.equal(request.all("X-Forwarded-Host"), host, mode)
        t.equal(request.get("Host"), "inner.test" if mode == "replace" else "shop.test", mode + ": Host")
        t.equal(bool(request.get("Via")), mode == "replace", mode + ": Via")
        t.status(answer, 201)
        t.equal(t.proxy.stop(), 0, "exit code")


@test("an API's early 413 to a large unkeyed body reaches the client (H18)", "asan", seconds=60)
def early_413(t):
    t.einmal()
    early = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig"

    def drain(connection, request):
        connection.sock.settimeout(1)
        try:
            while connection.sock.recv(1 << 16):
                pass
        except OSError:
            pass
    t.api.on(Raw(early, lambda c, r: c.sock.shutdown(1), drain, end="close", before_body=True), path="/big")
    for _ in range(t.rounds(10, 3)):
        client = t.client()
        sender = t.thread(quiet_send, client, request_bytes("POST", "/big", body=b"x" * (8 << 20)))
        answer = client.read()
        t.status(answer, 413, "the API's answer")
        t.equal(answer.body, b"big", "whole")
        sender.join(10)
        client.close()


@test("clients that connect and leave, send garbage, or nothing: no trace (descriptors)", "race asan")
def noise(t):
    t.einmal()
    for number in range(100):
        client = t.client()
        if number % 4 == 1:
            client.send(b"\r\n" * 3)
        elif number % 4 == 2:
            client.send(b"GE")
        elif number % 4 == 3:
            client.send(bytes(range(256)))
        (client.reset if number % 2 else client.close)()
    t.wait_until(lambda: t.proxy.fds() <= t.fd_level + 6, 8, "descriptors of clients that left")
    t.status(t.ask(key="k"), 201)


@test("an unkeyed answer that is cut is detectably cut", "asan")
def unkeyed_cut(t):
    t.einmal()
    rows = [Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 40, 0.05, end="close"),
            Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 0.05, end="close"),
            Raw(b"HTTP/1.1 200 OK\r\n\r\nabc", 0.05, end="reset"), Raw(b"HTTP/1.1 20", end="close")]
    for number, script in enumerate(rows):
        t.api.on(script, path="/cut")
        for version in ("1.1", "1.0"):
            try:
                answer = t.ask("POST", target="/cut", version=version)
                t.status(answer, 502, "row %d, HTTP/%s" % (number, version))
            except (Truncated, Closed):
                pass
