"""Upgrade: tunnels of unkeyed requests, both half-closes, back-pressure, endings (contract §7, §9; case H14)."""
import hashlib
import os
import signal
import socket
import ssl
import threading
import time

from lib.case import Closed, Raw, Reply, request_bytes, test
from lib.certs import Authority, client_context

OFFER = [("Connection", "keep-alive, Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
         ("Sec-WebSocket-Version", "13")]
SWITCH = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")


def offer(target="/chat", headers=OFFER, **what):
    return request_bytes("GET", target, headers=headers, **what)


def opened(t, client=None, after=b"", **what):
    """A client whose upgrade was answered by 101."""
    client = (client or t.client()).send(offer(**what) + after)
    answer = client.read_head()
    t.status(answer, 101, "the API's 101")
    t.equal(answer.get("Upgrade"), "websocket", "Upgrade of the 101")
    t.equal(answer.get("Connection"), "upgrade", "Connection of the 101")
    return client, answer


def echo(connection, _):
    """Sends back what comes, FIN included."""
    if connection.buffer:
        connection.send(connection.buffer)
    while True:
        data = connection.sock.recv(1 << 16)
        if not data:
            break
        connection.send(data)
    connection.sock.shutdown(socket.SHUT_WR)


def exactly(t, client, count):
    while len(client.buffer) < count:
        t.check(client.receive(), "the tunnel goes on", len(client.buffer), count)
    data, client.buffer = client.buffer[:count], client.buffer[count:]
    return data


@test("a WebSocket: offer and 101 pass, bytes go both ways, also those that came with the head", "asan race")
def websocket(t):
    t.einmal()
    t.api.on(Raw(SWITCH, echo, end="close"), path="/chat")
    client, answer = opened(t, after=b"early")
    t.equal(answer.get("Sec-WebSocket-Accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "end-to-end fields of the 101")
    t.equal(len(answer.all("X-Request-Id")), 1, "request id")
    request = t.api.last(path="/chat")
    t.equal((request.all("Upgrade"), request.all("Connection")), (["websocket"], ["upgrade"]), "offer at the API")
    t.equal(request.get("Sec-WebSocket-Key"), "dGhlIHNhbXBsZSBub25jZQ==", "end-to-end fields of the offer")
    t.equal((request.get("Content-Length"), request.get("Transfer-Encoding")), (None, None), "no framing")
    t.equal(exactly(t, client, 5), b"early", "bytes behind the head")
    for size in (1, 2, 100, 5000, 70000):
        data = os.urandom(size)
        t.equal(hashlib.sha256(exactly(t, client.send(data), size)).digest(), hashlib.sha256(data).digest(), "%d bytes" % size)
    client.send(b"\x00\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
    exactly(t, client, 39 + len("a"))
    t.effects(0, path="/smuggled")
    t.check(t.proxy.access(path="/chat") == [], "no access line before the end")
    client.half_close()
    t.equal(client.expect_end(), b"", "the API's FIN follows ours")
    line = t.proxy.access(1, path="/chat")
    t.equal([(one["status"], one["outcome"]) for one in line], [(101, "passed")], "one access line")
    t.check(line[0]["bytes_in"] > 75000 and line[0]["bytes_out"] > 75000, "bytes of the tunnel count", line)


@test("101 and what follows it in one packet, and byte by byte", "asan")
def switch_cuts(t):
    t.einmal()
    data = SWITCH + b"hello"
    for number, script in enumerate((Raw(data, echo, end="close"),
                                     Raw(*[x for byte in data for x in (bytes([byte]), 0.0005)], echo, end="close"),
                                     Raw(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + data, echo, end="close"))):
        t.api.on(script, path="/chat")
        client, _ = opened(t)
        t.equal(exactly(t, client, 5), b"hello", "bytes behind the 101, way %d" % number)
        t.equal(exactly(t, client.send(b"again"), 5), b"again", "and after them")
        client.close()


@test("each side's FIN reaches the other, which may go on sending", "asan race")
def half_closes(t):
    t.einmal()
    client_ended, api_may_end = threading.Event(), threading.Event()

    def after_client(connection, _):
        while connection.receive():
            pass
        client_ended.set()
        api_may_end.wait(10)
        connection.send(b"last words of the API")
    t.api.on(Raw(SWITCH, after_client, end="close"), path="/client-first")
    client, _ = opened(t, target="/client-first")
    client.send(b"last words").half_close()
    t.check(client_ended.wait(5), "the client's FIN arrives at the API")
    t.check(client.waits(0.2), "the other half stays open")
    api_may_end.set()
    t.equal(client.expect_end(), b"last words of the API", "what came after the client's FIN")

    got = []

    def before_client(connection, _):
        connection.send(b"bye")
        connection.sock.shutdown(socket.SHUT_WR)
        while connection.receive():
            pass
        got.append(bytes(connection.buffer))
    t.api.on(Raw(SWITCH, before_client, end="close"), path="/api-first")
    client, _ = opened(t, target="/api-first")
    t.equal(client.expect_end(), b"bye", "the API's FIN arrives at the client")
    client.send(b"still here")
    time.sleep(0.1)
    client.send(b", and now not").half_close()
    t.wait_until(lambda: got, text="the client's FIN arrives at the API")
    t.check(got[0].endswith(b"still here, and now not"), "what came after the API's FIN", got)
    t.proxy.access(2)
    t.equal([line["status"] for line in t.proxy.access(2)], [101, 101], "one access line each")


@test("both directions at once, a slow reader on either side: complete, bounded", "asan", seconds=90)
def back_pressure(t):
    t.einmal()
    size = 24 << 20
    block = os.urandom(1 << 16)
    wanted = hashlib.sha256(block * (size >> 16)).hexdigest()
    digests = {}

    def send_all(sock):
        for _ in range(size >> 16):
            sock.sendall(block)
        sock.shutdown(socket.SHUT_WR)

    def read_all(sock, name, first, nap):
        digest, count = hashlib.sha256(first), len(first)
        while True:
            data = sock.recv(1 << 16)
            if not data:
                break
            digest.update(data)
            count += len(data)
            if nap and count < 4 << 20:
                time.sleep(nap)
        digests[name] = digest.hexdigest()

    def both(connection, _):
        sender = t.thread(send_all, connection.sock)
        read_all(connection.sock, "api", connection.buffer, 0.002)
        connection.buffer = b""
        sender.join(60)
    t.api.on(Raw(SWITCH, both, end="close"), path="/chat")
    client, _ = opened(t)
    before = t.proxy.memory()
    sender = t.thread(send_all, client.sock)
    time.sleep(1)
    if not t.options.sanitizer:
        t.check(t.proxy.memory() - before < 2048, "memory of a stalled tunnel", t.proxy.memory() - before)
    read_all(client.sock, "client", client.buffer, 0.002)
    sender.join(60)
    t.wait_until(lambda: len(digests) == 2, 30, "both ends")
    t.equal(digests, {"api": wanted, "client": wanted}, "every byte, in order")


@test("a paused tunnel costs no processor time", "asan")
def no_spin(t):
    t.einmal()
    gate = threading.Event()
    t.api.on(Raw(SWITCH, gate, end="close"), path="/chat")
    client, _ = opened(t)
    client.half_close()
    other, _ = opened(t)
    time.sleep(0.2)
    before = t.proxy.cpu_seconds()
    time.sleep(1.5)
    t.check(t.proxy.cpu_seconds() - before < 0.3 * t.slow, "processor time", t.proxy.cpu_seconds() - before)
    gate.set()
    for one in (client, other):
        t.equal(one.expect_end(), b"", "ended by the API")
        one.close()
    t.proxy.access(2)


@test("a reset of one side cuts the other; both ways one access line", "asan race")
def resets(t):
    t.einmal()
    t.api.on(Raw(SWITCH, b"x", 0.1, end="reset"), path="/api-resets")
    client, _ = opened(t, target="/api-resets")
    try:
        while True:
            if not client.sock.recv(100):
                raise AssertionError("a reset must not look like an orderly end")
    except ConnectionResetError:
        pass
    ended = threading.Event()

    def until_end(connection, _):
        try:
            while connection.sock.recv(1 << 16):
                pass
        except OSError:
            pass
        ended.set()
    t.api.on(Raw(SWITCH, until_end, end="close"), path="/client-resets")
    client, _ = opened(t, target="/client-resets")
    client.reset()
    t.check(ended.wait(5), "the API is told")
    t.equal(sorted(line["path"] for line in t.proxy.access(2)), ["/api-resets", "/client-resets"], "access lines")


@test("an API that says its last words and closes: they arrive, though the client goes on sending", "asan")
def last_words(t):
    t.einmal()
    t.api.on(Raw(SWITCH, b"y" * 50000 + b"goodbye", end="close"), path="/chat")
    for _ in range(t.rounds(20)):
        client, _ = opened(t)
        for _ in range(20):
            try:
                client.send(b"z" * 100)
            except OSError:
                break
        data = client.expect_end()
        t.check(data.endswith(b"goodbye") or client.ended, "the end is told", len(data))
        client.close()


@test("an answer other than 101 is an ordinary one, and the connection goes on", "asan")
def declined(t):
    t.einmal()
    client = t.client()
    t.api.on(Reply(200, body=b"no"), path="/chat")
    t.equal(client.send(offer() + offer("/next")).read("GET").body, b"no", "a 200")
    t.status(client.read("GET"), 200, "the pipelined one")
    t.api.on(Reply(426, [("Upgrade", "websocket"), ("Connection", "Upgrade")], b"do"), path="/chat")
    t.status(client.send(offer()).read("GET"), 426, "a 426")
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"), path="/chat")
    answer = client.send(offer()).read("GET")
    t.equal((answer.status, answer.get("Upgrade")), (200, None), "a 200 with Upgrade")
    t.status(client.ask(key="after"), 201, "and a keyed request on the same connection")


@test("offers that are ignored: keyed, HTTP/1.0, with a body, without Connection, and what would carry HTTP past the keys", "asan")
def ignored(t):
    t.einmal()
    h2c = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk")]
    rows = {"keyed": request_bytes("POST", key="k", headers=OFFER), "HTTP/1.0": offer(version="1.0"),
            "body": request_bytes("POST", "/chat", body=b"abc", headers=OFFER), "no Connection": offer(headers=OFFER[1:]),
            "h2c": offer(headers=h2c), "among others": offer(headers=[("Connection", "upgrade"), ("Upgrade", "websocket, h2c")]),
            "HTTP/2.0": offer(headers=[("Connection", "upgrade"), ("Upgrade", "HTTP/2.0")]),
            "TLS": offer(headers=[("Connection", "upgrade"), ("Upgrade", "TLS/1.3")]),
            "no protocol": offer(headers=[("Connection", "upgrade"), ("Upgrade", "web socket")])}
    for name, data in rows.items():
        answer = t.client().send(data).read("GET" if data.startswith(b"GET") else "POST")
        t.check(answer.status in (200, 201), name, answer)
        request = t.api.last()
        t.equal((request.get("Upgrade"), request.get("Connection"), request.get("HTTP2-Settings")), (None, None, None), name)


@test("a 101 that was not asked for, or takes up something else, is 502; the key's action is unknown", "asan")
def unasked(t):
    t.einmal()
    t.api.on(Raw(SWITCH, b"raw", end="close"), path="/chat")
    for headers in ((), [("Connection", "upgrade"), ("Upgrade", "other")]):
        answer = t.client().send(offer(headers=headers)).read("GET")
        t.problem(answer, 502, "upstream-invalid")
    for number, bad in enumerate((b"HTTP/1.1 101 S\r\n\r\n", b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\n\r\n",
                                  b"HTTP/1.1 101 S\r\nConnection: upgrade\r\n\r\n",
                                  b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n",
                                  b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n")):
        t.api.on(Raw(bad, b"raw", end="close"), path="/chat")
        t.problem(t.client().send(offer()).read("GET"), 502, "upstream-invalid", text="row %d" % number)
    t.api.on(Raw(SWITCH, end="close"), path="/orders")
    t.problem(t.ask(key="k", headers=OFFER), 502, "upstream-invalid")
    t.problem(t.ask(key="k", headers=OFFER), 409, "outcome-unknown")
    t.effects(1, key="k")


@test("no deadline of heads and bodies cuts a silent tunnel; once half-closed, stall_timeout does", "asan", seconds=60)
def clocks(t):
    t.einmal(timeouts={"header": "500ms", "body": "500ms", "idle": "500ms"},
             upstream={"stall_timeout": "1s", "response_timeout": "500ms"})
    t.api.on(Raw(SWITCH, echo, end="close"), path="/chat")
    client, _ = opened(t)
    time.sleep(2.5)
    t.equal(exactly(t, client.send(b"ping"), 4), b"ping", "alive after a long silence")
    client.close()
    gate = threading.Event()
    t.api.on(Raw(SWITCH, gate, end="close"), path="/hangs")
    client, _ = opened(t, target="/hangs")
    client.half_close()
    began = time.monotonic()
    t.equal(client.expect_end(20), b"", "cut")
    t.check(0.8 < time.monotonic() - began, "not before stall_timeout")
    t.within(time.monotonic() - began, 6, "after stall_timeout")
    gate.set()


@test("a client that leaves before the 101 leaves nothing behind", "race asan")
def leaves_early(t):
    t.einmal()
    gate = threading.Event()
    t.api.on(Raw(gate, SWITCH, echo, end="close"), path="/chat")
    for leave in ("close", "reset", "half_close"):
        client = t.client().send(offer())
        t.check(t.api.wait_for(lambda api: api.heads and api.heads[-1].path == "/chat"), "at the API")
        getattr(client, leave)()
    time.sleep(0.1)
    gate.set()
    t.wait_until(lambda: len(t.proxy.access()) >= 2, text="access lines")
    answer = client.read_head()
    t.status(answer, 101, "a half-closed client still gets its 101")
    t.equal(client.expect_end(), b"", "and the API's FIN")


@test("drain: a tunnel goes on until timeouts.drain, then it is cut; exit 0", "asan", seconds=60)
def drain(t):
    t.ordinary = False
    t.einmal(timeouts={"drain": "2s"})
    t.fd_level = 0
    t.api.on(Raw(SWITCH, echo, end="close"), path="/chat")
    client, _ = opened(t)
    finished, _ = opened(t)
    t.proxy.signal(signal.SIGTERM)
    time.sleep(0.5)
    t.equal(exactly(t, client.send(b"ping"), 4), b"ping", "alive while draining")
    finished.half_close()
    t.equal(finished.expect_end(), b"", "ends by itself")
    try:
        client.expect_end(20)
    except Closed:
        pass
    t.equal(t.proxy.wait(10), 0, "exit code")
    t.equal([line["status"] for line in t.proxy.access(2)], [101, 101], "access lines")


# ---- over TLS ----


def over_tls(t):
    authority = Authority(t.directory)
    certificate, key = authority.issue("server", names="DNS:shop.test,IP:%s" % t.address)
    t.tls, t.tls_name = client_context(authority.file), "shop.test"
    t.einmal(tls={"certificate": certificate, "key": key})
    t.api.on(Raw(SWITCH, echo, end="close"), path="/chat")


@test("a WebSocket over TLS: bytes both ways, a close_notify of one side is the FIN of the other", "asan race")
def websocket_tls(t):
    over_tls(t)
    client, _ = opened(t, after=b"early")
    t.equal(exactly(t, client, 5), b"early", "bytes in the record of the head")
    for size in (1, 16384, 16385) + (30000,) * 10:  # one after the other: Python's TLS sockets are not for two threads at once
        data = os.urandom(size)
        t.equal(hashlib.sha256(exactly(t, client.send(data), size)).digest(), hashlib.sha256(data).digest(), "%d bytes" % size)
    plain = client.sock.unwrap()  # sends close_notify and waits for the API's FIN as ours
    t.equal(plain.recv(1), b"", "and the connection ends")
    line = t.proxy.access(1, path="/chat")[0]
    t.equal((line["status"], line["outcome"]), (101, "passed"), "one access line")
    t.check(line["bytes_in"] > 332000 and line["bytes_out"] > 332000, "bytes of the tunnel count", line)


@test("a tunnel over TLS whose API is cut: no close_notify tells the client that it was whole", "asan")
def cut_tls(t):
    over_tls(t)
    t.api.on(Raw(SWITCH + b"half", 0.1, end="reset"), path="/chat")
    client, _ = opened(t)
    t.equal(exactly(t, client, 4), b"half", "what came before")
    try:
        t.equal(client.sock.recv(1), None, "a cut tunnel must not look whole")
    except (ConnectionError, ssl.SSLError):
        pass
    t.wait_until(lambda: t.proxy.access(path="/chat"), text="access line")
