"""A raw HTTP client: bytes with control over cuts and timing, and a small strict parser for what comes back.

The parser trusts nothing: both framings at once, a bare line feed, a folded line, a repeated or malformed length are
errors of the proxy. The end of a message must be told by its own framing; a connection that ends earlier raises
Truncated (a cut answer) or Closed (no byte of an answer).
"""
import re
import socket
import ssl
import struct
import time

STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])( [\t\x20-\x7e\x80-\xff]*)?\Z")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*\Z")


class ProtocolError(Exception):
    """What came is no well-formed HTTP/1.1 response."""


class Closed(Exception):
    """The connection ended (FIN or RST) before the first byte of an answer."""


class Truncated(Exception):
    """The connection ended in the middle of an answer."""

    def __init__(self, text, response=None):
        super().__init__(text)
        self.response = response


class Response:
    def __init__(self):
        self.status, self.reason, self.headers, self.body = 0, b"", [], b""
        self.interim = []  # 1xx that came before
        self.raw_head = b""
        self.framing = ""
        self.at = 0.0  # when its end was read

    def all(self, name):
        return [value for n, value in self.headers if n.lower() == name.lower()]

    def get(self, name, default=None):
        values = self.all(name)
        return values[0] if values else default

    @property
    def replayed(self):
        return self.all("Idempotent-Replayed") == ["true"]

    @property
    def closes(self):
        return "close" in (self.get("Connection") or "").lower()

    def __repr__(self):
        return "<%d %r %s%r>" % (self.status, self.headers, "" if len(self.body) < 200 else "%d bytes " % len(self.body),
                                 self.body[:200])


def request_bytes(method="POST", target="/orders", key=None, body=None, headers=(), host="shop.test",
                  auth="Bearer tok-alice", framing="length", version="1.1", key_line=None, kind="application/json"):
    """One request. `key` is sent as a quoted string, `key_line` verbatim. `framing`: length, chunked or none."""
    if body is None:
        body = b'{"a":1}' if method in ("POST", "PUT", "PATCH") else b""
    lines = ["%s %s HTTP/%s" % (method, target, version)]
    if host is not None:
        lines.append("Host: %s" % host)
    if auth is not None:
        lines.append("Authorization: %s" % auth)
    if key is not None:
        lines.append('Idempotency-Key: "%s"' % key)
    if key_line is not None:
        lines.append("Idempotency-Key:%s" % key_line)
    if body and kind:
        lines.append("Content-Type: %s" % kind)
    lines += ["%s: %s" % header for header in headers]
    if framing == "chunked":
        lines.append("Transfer-Encoding: chunked")
        half = len(body) // 2
        body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[:half], body[half:]) if p) + b"0\r\n\r\n"
    elif framing == "length" and (body or method in ("POST", "PUT", "PATCH")):
        lines.append("Content-Length: %d" % len(body))
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class Client:
    def __init__(self, address, timeout=15.0, receive_buffer=None, tls=None, name=None, session=None):
        """`address`: (host, port) or the path of a unix socket. `tls`: an ssl context; `name`: what the certificate must
        say. A FIN without close_notify then is an error (Truncated), not an end."""
        self.sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(timeout)
        self.sock.connect(address)
        if not isinstance(address, str):
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.sock = tls.wrap_socket(self.sock, server_hostname=name, session=session, suppress_ragged_eofs=False)
        self.buffer = b""
        self.ended = False
        self.started = time.monotonic()

    # ---- sending ----

    def send(self, data):
        self.sock.sendall(data)
        return self

    def send_cut(self, data, cuts, pause=0.01):
        """Sends `data` cut at the offsets `cuts`."""
        last = 0
        for cut in list(cuts) + [len(data)]:
            self.send(data[last:cut])
            last = cut
            if cut < len(data):
                time.sleep(pause)
        return self

    def post(self, **what):
        self.started = time.monotonic()
        return self.send(request_bytes(**what))

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)
        return self

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()

    # ---- reading ----

    def receive(self):
        if self.ended:
            return False
        try:
            data = self.sock.recv(1 << 18)
        except (ConnectionError, ssl.SSLError):
            data = b""
        if not data:
            self.ended = True
        self.buffer += data
        return bool(data)

    def waits(self, seconds):
        """True if nothing at all (no byte, no end) arrives for that long."""
        if self.buffer:
            return False
        before = self.sock.gettimeout()
        self.sock.settimeout(seconds)
        try:
            self.receive()
            return False
        except TimeoutError:
            return True
        finally:
            self.sock.settimeout(before)

    def expect_end(self, seconds=5.0):
        """Waits for the end of the connection; returns what came before it."""
        self.sock.settimeout(seconds)
        while self.receive():
            pass
        return self.buffer

    def _head(self):
        while b"\r\n\r\n" not in self.buffer:
            if not self.receive():
                if self.buffer:
                    raise Truncated("in a head: %r" % self.buffer[:300])
                raise Closed("no answer")
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        response = Response()
        response.raw_head = head + b"\r\n\r\n"
        lines = head.split(b"\r\n")
        match = STATUS_LINE.match(lines[0])
        if not match:
            raise ProtocolError("status line %r" % lines[0])
        response.status, response.reason = int(match.group(1)), (match.group(2) or b"").strip()
        for line in lines[1:]:
            field = FIELD.match(line)
            if not field:
                raise ProtocolError("header line %r" % line)
            response.headers.append((field.group(1).decode("latin-1"), field.group(2).decode("latin-1")))
        return response

    def _line(self, response):
        while b"\r\n" not in self.buffer:
            if not self.receive():
                raise Truncated("in a chunk line", response)
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def _exactly(self, count, response, parts):
        while count:
            if not self.buffer and not self.receive():
                response.body = b"".join(parts)
                raise Truncated("%d bytes of a body missing" % count, response)
            piece, self.buffer = self.buffer[:count], self.buffer[count:]
            parts.append(piece)
            count -= len(piece)

    def _chunks(self, response):
        parts, end = [], []
        while True:
            line = self._line(response)
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,16}", line):
                raise ProtocolError("chunk line %r" % line)
            size = int(line, 16)
            if size == 0:
                break
            try:
                self._exactly(size, response, parts)
                self._exactly(2, response, end)
            finally:
                response.body = b"".join(parts)
            if end[-1] != b"\r\n" and b"".join(end)[-2:] != b"\r\n":
                raise ProtocolError("chunk without its end")
        response.body = b"".join(parts)
        if self._line(response) != b"":
            raise ProtocolError("trailers")

    def _body(self, response, method):
        lengths, codings = response.all("Content-Length"), response.all("Transfer-Encoding")
        if len(lengths) + len(codings) > 1:
            raise ProtocolError("framing by %r and %r" % (lengths, codings))
        if lengths and not re.fullmatch("[0-9]{1,18}", lengths[0]):
            raise ProtocolError("Content-Length %r" % lengths[0])
        if response.status in (204, 304) or response.status < 200:
            if codings or (lengths and response.status != 304):
                raise ProtocolError("framing on a %d" % response.status)
            response.framing = "none"
        elif method == "HEAD":
            response.framing = "none"
        elif codings:
            if codings[0].lower() != "chunked":
                raise ProtocolError("coding %r" % codings)
            response.framing = "chunked"
            self._chunks(response)
        elif lengths:
            response.framing = "length"
            parts = []
            self._exactly(int(lengths[0]), response, parts)
            response.body = b"".join(parts)
        else:
            response.framing = "close"
            while True:
                try:
                    data = self.sock.recv(1 << 18)
                except (ConnectionError, ssl.SSLError):
                    response.body = self.buffer
                    raise Truncated("reset in a body that the end of the connection ends", response)
                if not data:
                    break
                self.buffer += data
            self.ended = True
            response.body, self.buffer = self.buffer, b""

    def read_head(self):
        """Head of the next answer, interim ones collected."""
        interim = []
        while True:
            response = self._head()
            if 100 <= response.status < 200 and response.status != 101:
                if response.all("Content-Length") or response.all("Transfer-Encoding"):
                    raise ProtocolError("framing on a 1xx")
                interim.append(response)
                continue
            response.interim = interim
            return response

    def read(self, method="POST"):
        """One whole answer."""
        response = self.read_head()
        self._body(response, method)
        response.at = time.monotonic()
        response.took = response.at - self.started
        return response

    def ask(self, method="POST", **what):
        self.post(method=method, **what)
        return self.read(method)
