"""The scripted API that stands behind einmal.

It is the judge: an effect is counted when a *whole* request has been read, per (method, path, key), whatever happens to
the answer afterwards. Two answers "200" prove nothing; one effect does.

One thread accepts, one thread serves each connection with blocking calls, so that a script reads from top to bottom.
A script is a Reply (an ordinary answer) or a Raw (bytes, pauses, events and an ending). Every execution of the default
answer has a body of its own, so that a replay can be told from a second execution.

Left out: trailers of its own accord, and every check of what the proxy sends beyond its framing: tests look at
`requests` for that.
"""
import hashlib
import os
import socket
import struct
import threading
import time
from collections import Counter

from lib.proxy import GIVEN

KEEP_BODY = 1 << 16  # request bodies up to this size are kept, of larger ones the length and the hash

REASONS = {200: "OK", 201: "Created", 204: "No Content", 304: "Not Modified", 404: "Not Found", 500: "Internal Server Error"}


class BadRequest(Exception):
    """The proxy sent something that is no well-framed HTTP/1.1 request."""


class Gone(Exception):
    """The proxy closed the connection in the middle of something."""


class Request:
    def __init__(self, raw_head, connection):
        self.raw_head = raw_head
        self.connection = connection
        self.at = time.monotonic()
        lines = raw_head[:-4].decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3 or parts[2] != "HTTP/1.1":
            raise BadRequest("request line %r" % lines[0])
        self.method, self.target = parts[0], parts[1]
        self.path = self.target.split("?", 1)[0]
        self.headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip() or "\n" in line or "\r" in line:
                raise BadRequest("header line %r" % line)
            self.headers.append((name, value.strip(" \t")))
        self.key = self.get("Idempotency-Key")
        if self.key and len(self.key) > 1 and self.key[0] == '"' and self.key[-1] == '"':
            self.key = self.key[1:-1]
        self.body, self.body_length, self.body_sha256 = b"", 0, None
        self.number = 0  # of this execution, counted over all; 0: not executed (yet)
        self.whole = False

    def all(self, name):
        return [value for n, value in self.headers if n.lower() == name.lower()]

    def get(self, name, default=None):
        values = self.all(name)
        return values[0] if values else default


class Connection:
    """One connection from the proxy, seen from the API."""

    def __init__(self, sock, number):
        self.sock, self.number = sock, number
        self.buffer = b""
        self.raw = bytearray()  # what came, up to 1 MiB
        self.closed = False

    def receive(self):
        """More bytes into the buffer; False at the end."""
        try:
            data = self.sock.recv(1 << 16)
        except OSError:
            data = b""
        if len(self.raw) < 1 << 20:
            self.raw += data
        self.buffer += data
        return bool(data)

    def read_head(self):
        while b"\r\n\r\n" not in self.buffer:
            if not self.receive():
                if self.buffer:
                    raise Gone("in the head of a request")
                return None
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        return Request(head + b"\r\n\r\n", self)

    def take(self, count):
        """Yields `count` bytes in pieces."""
        while count:
            if not self.buffer and not self.receive():
                raise Gone("in the body of a request")
            piece, self.buffer = self.buffer[:count], self.buffer[count:]
            count -= len(piece)
            yield piece

    def line(self):
        while b"\r\n" not in self.buffer:
            if not self.receive():
                raise Gone("in a chunk line")
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def body_pieces(self, request):
        lengths, codings = request.all("Content-Length"), request.all("Transfer-Encoding")
        if len(lengths) + len(codings) > 1:
            raise BadRequest("framing by %r and %r" % (lengths, codings))
        if lengths:
            yield from self.take(int(lengths[0]))
        elif codings:
            if codings[0] != "chunked":
                raise BadRequest("coding %r" % codings)
            while True:
                size = int(self.line(), 16)
                if size == 0:
                    break
                yield from self.take(size)
                if b"".join(self.take(2)) != b"\r\n":
                    raise BadRequest("chunk without its end")
            while self.line():
                pass

    def read_body(self, request):
        digest, kept = hashlib.sha256(), []
        for piece in self.body_pieces(request):
            digest.update(piece)
            request.body_length += len(piece)
            if request.body_length <= KEEP_BODY:
                kept.append(piece)
        request.body, request.body_sha256, request.whole = b"".join(kept), digest.hexdigest(), True

    def send(self, data):
        self.sock.sendall(data)

    def close(self):
        if not self.closed:
            self.closed = True
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            self.sock.close()

    def reset(self):
        if not self.closed:
            self.closed = True
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.close()


class Raw:
    """Items in order: bytes are sent, a number is a pause in seconds, an Event is waited for, a callable gets the
    connection and the request. `end`: keep, close (FIN), reset (RST), hang (nothing more, until the proxy closes).
    `before_body`: runs when the head is there; the request then counts only if the script reads its body."""

    def __init__(self, *items, end="keep", before_body=False):
        self.items, self.end, self.before_body = items, end, before_body

    def perform(self, connection, request):
        """True: the connection goes on."""
        for item in self.items:
            play(connection, request, item)
        if self.end == "close":
            connection.close()
        elif self.end == "reset":
            connection.reset()
        elif self.end == "hang":
            while connection.receive():
                pass
        return self.end == "keep"


def play(connection, request, item):
    if isinstance(item, (bytes, bytearray)):
        connection.send(item)
    elif isinstance(item, threading.Event):
        item.wait(60)
    elif callable(item):
        item(connection, request)
    elif item:
        time.sleep(item)


class Reply:
    """An ordinary answer. `body` may be bytes, a list of bytes and pauses, or None: one that names the execution.
    `framing`: length, chunked, close (ended by FIN), none (no body at all)."""
    before_body = False

    def __init__(self, status=201, headers=None, body=None, delay=0, framing="length", close=False, reason=None):
        self.status, self.headers, self.body, self.delay = status, headers, body, delay
        self.framing, self.close = framing, close or framing == "close"
        self.reason = REASONS.get(status, "Status") if reason is None else reason
        if status in (204, 304):
            self.framing = "none"

    def head(self, request, length):
        headers = self.headers
        if headers is None:
            headers = [("Content-Type", "application/json")]
            if self.status == 201:
                headers.insert(0, ("Location", "/orders/%d" % request.number))
        lines = ["HTTP/1.1 %d %s" % (self.status, self.reason)] + ["%s: %s" % header for header in headers]
        if self.framing == "length":
            lines.append("Content-Length: %d" % length)
        elif self.framing == "chunked":
            lines.append("Transfer-Encoding: chunked")
        if self.close:
            lines.append("Connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def perform(self, connection, request):
        play(connection, request, self.delay)
        body = self.body
        if body is None:
            body = b'{"id":%d}' % request.number
        pieces = body if isinstance(body, list) else [body]
        if self.framing == "none":
            pieces = []
        length = sum(len(piece) for piece in pieces if isinstance(piece, (bytes, bytearray)))
        out = self.head(request, length)
        if request.method == "HEAD":
            pieces = []
        for piece in pieces:
            if not isinstance(piece, (bytes, bytearray)):
                connection.send(out)
                out = b""
                play(connection, request, piece)
            elif self.framing == "chunked":
                out += b"%x\r\n" % len(piece) + piece + b"\r\n" if piece else b""
            else:
                out += piece
        if self.framing == "chunked" and request.method != "HEAD":
            out += b"0\r\n\r\n"
        connection.send(out)
        if self.close:
            connection.close()
        return not self.close


class Api:
    def __init__(self, address, unix=None, start=True, keep=None, tls=None):
        """`keep`: how many requests are remembered; None: all. Effects are always counted all. `tls`: an ssl context;
        each handshake leaves (name asked for, resumed, certificate shown) or an error in `handshakes`."""
        self.address, self.unix, self.keep, self.tls = address, unix, keep, tls
        self.handshakes, self.asked_names = [], {}
        if tls:
            tls.sni_callback = self._note_name
        self.executed_count = 0
        self.port = 0
        self.default = None
        self.rules = []  # newest first: [path, method, key, reply, times left]
        self.requests, self.heads, self.errors = [], [], []
        self.effects = Counter()
        self.connections = 0
        self.open = set()
        self.changed = threading.Condition()
        self.listener = None
        self.start(listen=start)

    # ---- listening ----

    def start(self, listen=True):
        """Begins to accept; before that, connections are refused."""
        if self.listener:
            return
        if self.unix:
            if not listen:
                return
            if os.path.exists(self.unix):
                os.unlink(self.unix)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(self.unix)
        else:
            listener = socket.socket(socket.AF_INET)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.address, self.port))
            self.port = listener.getsockname()[1]
            GIVEN.add(self.port)
            if not listen:
                listener.close()
                return
        listener.listen(1024)
        self.listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def stop(self):
        """Stops accepting; open connections stay."""
        if self.listener:
            listener, self.listener = self.listener, None
            try:
                listener.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            listener.close()

    def close_connections(self):
        with self.changed:
            connections = list(self.open)
        for connection in connections:
            connection.close()

    def close(self):
        self.stop()
        self.close_connections()

    @property
    def url(self):
        return "http+unix:%s" % self.unix if self.unix else "http%s://%s:%d" % ("s" if self.tls else "", self.address, self.port)

    # ---- scripting ----

    def reply(self, reply):
        """What is answered where no rule applies; None: 201 with a body that names the execution (GET: 200)."""
        self.default = reply

    def on(self, reply, path=None, method=None, key=None, times=None):
        with self.changed:
            self.rules.insert(0, [path, method, key, reply, times])

    def _choose(self, request):
        with self.changed:
            for rule in self.rules:
                path, method, key, reply, times = rule
                if (path and path != request.path) or (method and method != request.method) or (key and key != request.key):
                    continue
                if times is not None:
                    if times <= 0:
                        continue
                    rule[4] -= 1
                return reply
        if self.default is not None:
            return self.default
        return Reply(200) if request.method in ("GET", "HEAD", "OPTIONS") else Reply()

    # ---- looking ----

    def count(self, path=None, key=None, method=None):
        with self.changed:
            return sum(n for (m, p, k), n in self.effects.items()
                       if (method is None or m == method) and (path is None or p == path) and (key is None or k == key))

    def wait_for(self, holds, timeout=10):
        """Waits until holds(self); False if it never does."""
        with self.changed:
            return self.changed.wait_for(lambda: holds(self), timeout)

    def wait_count(self, number, timeout=10, **which):
        return self.wait_for(lambda api: api.count(**which) >= number, timeout)

    def last(self, path=None, key=None):
        for request in reversed(self.requests):
            if (path is None or request.path == path) and (key is None or request.key == key):
                return request
        return None

    # ---- serving ----

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            if not self.unix:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.changed:
                self.connections += 1
                connection = Connection(sock, self.connections)
                self.open.add(connection)
                self.changed.notify_all()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def executed(self, connection, request):
        """Reads the body and counts the effect. Scripts that run before the body call this themselves."""
        connection.read_body(request)
        with self.changed:
            self.executed_count += 1
            request.number = self.executed_count
            self.requests.append(request)
            if self.keep is not None and len(self.requests) > 2 * self.keep:
                del self.requests[:self.keep], self.heads[:self.keep]
            self.effects[(request.method, request.path, request.key)] += 1
            self.changed.notify_all()

    def _note_name(self, sock, name, context):
        self.asked_names[id(sock)] = name

    def _secure(self, connection):
        """False: no handshake, no connection."""
        try:
            sock = self.tls.wrap_socket(connection.sock, server_side=True, do_handshake_on_connect=False)
            connection.sock = sock
            sock.do_handshake()
        except (OSError, ValueError) as error:
            with self.changed:
                self.handshakes.append(error)
                self.changed.notify_all()
            return False
        with self.changed:
            self.handshakes.append((self.asked_names.pop(id(sock), None), sock.session_reused, sock.getpeercert()))
            self.changed.notify_all()
        return True

    def _serve(self, connection):
        try:
            if self.tls and not self._secure(connection):
                return
            while True:
                request = connection.read_head()
                if request is None:
                    break
                reply = self._choose(request)
                with self.changed:
                    self.heads.append(request)
                    self.changed.notify_all()
                if not reply.before_body:
                    if request.get("Expect"):
                        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                    self.executed(connection, request)
                if not reply.perform(connection, request):
                    break
        except (OSError, Gone):
            pass
        except (BadRequest, ValueError) as error:
            self.errors.append("%s: %s" % (type(error).__name__, error))
        finally:
            connection.close()
            with self.changed:
                self.open.discard(connection)
                self.changed.notify_all()
