"""https upstreams (contract §3 `upstreams.*.tls`, §4.5, §4 "Body ended by close"; cases T01, T02, T06, S13, O09)."""
import hashlib
import signal
import socket
import ssl
import threading
import time

from lib.case import Raw, Reply, Truncated, request_bytes, test
from lib.certs import Authority, client_context, server_context

BLOCK = hashlib.sha256(b"block").digest() * 8192  # 256 KiB
VERSIONS = {"TLS 1.2": ssl.TLSVersion.TLSv1_2, "TLS 1.3": ssl.TLSVersion.TLSv1_3}


def secure(t, pair=None, address=None, **what):
    """The API over TLS instead of the plain one; t.ca signs. Its certificate is for api.test and its address."""
    if not hasattr(t, "ca"):
        t.ca = Authority(t.directory)
    pair = pair or t.ca.issue("api", names="DNS:api.test,IP:%s" % t.address)
    t.api.close()
    t.apis.remove(t.api)
    t.api = t.new_api(tls=server_context(pair, **what))
    return t.api


def trust(t, **tls):
    return {"tls": {"ca": t.ca.file, **tls}}


def handshakes(t):
    return [one for one in t.api.handshakes if isinstance(one, tuple)]


def reload(t):
    before = t.proxy.stderr().count("configuration reloaded")
    t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: t.proxy.stderr().count("configuration reloaded") > before, 5, "reloaded")
    time.sleep(0.1)


@test("requests go to an https API: executed once, replayed; connections are kept in spite of tickets", "race asan")
def forwarded(t):
    for name, version in VERSIONS.items():
        secure(t, version=version)
        if t.proxy:
            t.proxy.kill()
            t.proxies.remove(t.proxy)
        t.proxy = None
        t.einmal(upstream={"keepalive_idle": "30s", **trust(t)}, workers=1)
        client = t.client()
        for number in range(10):
            key = "%s-%d" % (name.replace(" ", ""), number)
            first = t.fresh(client.ask(key=key))
            t.replay(client.ask(key=key), first)
            t.effects(1, key=key)
            time.sleep(0.02)
        t.equal(len(handshakes(t)), 1, "one connection for all")
        t.status(client.ask("GET", target="/free"), 200)


@test("HTTP/1.0 without Host: the authority of the url, without the usual port", "asan")
def authority(t):
    secure(t)
    t.einmal(upstream=trust(t))
    t.status(t.ask("GET", target="/free", host=None, version="1.0"), 200)
    t.equal(t.api.last().get("Host"), t.api.url[len("https://"):], "Host")


# ---- the certificate (T02) ----


def ask_api(t, key):
    """One keyed request, and the API has noted its handshake."""
    before = len(t.api.handshakes)
    answer = t.ask(key=key)
    t.api.wait_for(lambda api: len(api.handshakes) > before, 2)
    return answer


@test("certificate and name are verified: a table of certificates (T02)", "asan", seconds=90)
def certificates(t):
    t.ca, other = Authority(t.directory), Authority(t.directory, "other")
    names = "DNS:api.shop.test,IP:%s" % t.address
    ip, named = {}, {"server_name": "api.shop.test"}
    table = (  # name, certificate, settings, accepted, words in the log
        ("address in the certificate", t.ca.issue("a", names=names), ip, True, None),
        ("the right name", t.ca.issue("b", names="DNS:api.shop.test"), named, True, None),
        ("upper case and a dot at the end", t.ca.issue("c", names="DNS:api.shop.test"), {"server_name": "API.Shop.Test."}, True, None),
        ("upper case in the certificate", t.ca.issue("d", names="DNS:API.SHOP.TEST"), named, True, None),
        ("a wildcard", t.ca.issue("e", names="DNS:*.shop.test"), named, True, None),
        ("another name", t.ca.issue("f", names="DNS:other.test"), named, False, "hostname mismatch"),
        ("a name where the address is needed", t.ca.issue("g", names="DNS:api.shop.test"), ip, False, "ip address mismatch"),
        ("an address as text of a name", t.ca.issue("h", names="DNS:%s" % t.address), ip, False, "ip address mismatch"),
        ("part of a label as wildcard", t.ca.issue("i", names="DNS:a*.shop.test"), named, False, "hostname mismatch"),
        ("a wildcard for two labels", t.ca.issue("j", names="DNS:*.shop.test"), {"server_name": "a.b.shop.test"}, False,
         "hostname mismatch"),
        ("only a common name", t.ca.issue("k", "/CN=api.shop.test"), named, False, "hostname mismatch"),
        ("expired", t.ca.issue("l", names=names, days=-1), ip, False, "expired"),
        ("self-signed", t.ca.self_signed("m", names), ip, False, "self-signed"),
        ("another authority", other.issue("n", names=names), ip, False, "unable to get local issuer"),
        ("not verified on demand", other.issue("o", names="DNS:x"), {"verify": False}, True, None),
    )
    t.einmal(workers=1)
    for number, (name, pair, tls, accepted, words) in enumerate(table):
        secure(t, pair)
        t.proxy.upstream_url = t.api.url
        t.proxy.configure(upstream=trust(t, **tls))
        reload(t)
        log = len(t.proxy.stderr())
        answer = ask_api(t, "k%d" % number)
        if accepted:
            t.fresh(answer, text=name)
            wanted = tls["server_name"].lower().rstrip(".") if "server_name" in tls else None
            t.equal(handshakes(t)[0][0], wanted, name + ": SNI")
            continue
        t.problem(answer, 502, "upstream-unreachable", text=name)
        t.effects(0, name)
        t.equal(t.api.heads, [], name + ": not one byte of the request")
        t.check(words in t.proxy.stderr()[log:].lower(), name + ": the log says why", t.proxy.stderr()[log:])
    secure(t, t.ca.issue("p", names=names))
    t.proxy.upstream_url = t.api.url
    t.proxy.configure(upstream=trust(t))
    reload(t)
    t.fresh(t.ask(key="k12"), text="a key that was refused is free again")
    t.effects(1, key="k12")


@test("without `ca` the system's authorities count, and the host of the url is the name", "asan")
def system_authorities(t):
    t.ca = Authority(t.directory)
    pair = t.ca.issue("local", names="DNS:localhost")
    t.api.close()
    t.apis.remove(t.api)
    t.api = t.new_api(tls=server_context(pair))
    t.api.stop()
    t.api.address, t.api.port = "127.0.0.1", 0
    t.api.start()
    url = "https://LOCALHOST:%d" % t.api.port
    t.einmal(upstream={"url": url}, env={"SSL_CERT_FILE": t.ca.file})
    t.fresh(t.ask(key="k"))
    t.equal(handshakes(t)[0][0], "localhost", "SNI")
    t.proxy.stop()
    proxy = t.prepare("2", upstream={"url": url}, env={"SSL_CERT_FILE": "/nonexistent", "SSL_CERT_DIR": "/nonexistent"}).start()
    t.problem(t.client(proxy.address).ask(key="k2"), 502, "upstream-unreachable")
    t.effects(0, key="k2")
    proxy.stop()
    t.proxy.start()


@test("our certificate is shown to an API that asks for it", "asan")
def own_certificate(t):
    t.ca = Authority(t.directory)
    secure(t, client_ca=t.ca.file)
    t.einmal(upstream=trust(t))
    answer = t.ask(key="k")
    t.check(answer.status == 502, "an API that wants one refuses us without", answer)
    pair = t.ca.issue("einmal", "/CN=einmal")
    t.proxy.configure(upstream=trust(t, certificate=pair[0], key=pair[1]))
    reload(t)
    t.fresh(t.ask(key="k2"))
    t.equal(handshakes(t)[-1][2]["subject"], ((("commonName", "einmal"),),), "what the API saw")


# ---- sessions and reloads ----


@test("sessions to the API are resumed, and under other terms they are not", "asan")
def resumption(t):
    for name, version in VERSIONS.items():
        secure(t, version=version)
        if t.proxy:
            t.proxy.upstream_url = t.api.url
            t.proxy.configure(upstream={"keepalive": 0, **trust(t)}, workers=1)
            reload(t)
        else:
            t.einmal(upstream={"keepalive": 0, **trust(t)}, workers=1)
        for number in range(5):
            t.fresh(t.ask(key="%s%d" % (name.replace(" ", ""), number)))
        t.equal([one[1] for one in handshakes(t)], [False] + 4 * [True], name + ": resumed")
    stranger = Authority(t.directory, "stranger")
    t.proxy.configure(upstream={"keepalive": 0, "tls": {"ca": stranger.file}}, workers=1)
    reload(t)
    t.problem(t.ask(key="x"), 502, "upstream-unreachable", text="a session does not stand in for the check")
    t.effects(0, key="x")
    t.proxy.configure(upstream=trust(t), workers=1)
    reload(t)


@test("a kept connection is not reused under other terms after a reload", "asan")
def kept_over_reload(t):
    secure(t)
    gate = threading.Event()
    t.api.on(Reply(200, delay=gate), path="/slow")
    t.einmal(upstream={"keepalive_idle": "30s", **trust(t)}, workers=1)
    slow = t.client().post(method="GET", target="/slow")
    t.check(t.api.wait_count(1, path="/slow"), "it runs")
    t.proxy.configure(upstream={"keepalive_idle": "30s", "tls": {"ca": Authority(t.directory, "stranger").file}}, workers=1)
    reload(t)
    gate.set()
    t.status(slow.read("GET"), 200, "what runs goes on")
    t.problem(t.ask(key="k"), 502, "upstream-unreachable", text="the connection that became free is of other terms")
    t.effects(0, key="k")
    t.proxy.configure(upstream=trust(t), workers=1)
    reload(t)


# ---- endings (T01) ----


def fin(connection, request):
    connection.close()  # FIN without close_notify


def notify(connection, request):
    connection.sock.unwrap()


def rst(connection, request):
    connection.reset()


OK = b"HTTP/1.1 200 OK\r\n"


@test("FIN without close_notify, close_notify, reset: which answers are whole (T01)", "asan")
def endings(t):
    secure(t)
    t.einmal(upstream={"keepalive": 0, **trust(t)})
    bodies = {"length": OK + b"Content-Length: 3\r\n\r\nabc", "chunked": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
              "close": OK + b"\r\nabc", "cut length": OK + b"Content-Length: 9\r\n\r\nabc",
              "cut chunked": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "cut head": b"HTTP/1.1 200", "none": b""}
    whole = {("length", e) for e in ("fin", "notify", "rst")} | {("chunked", e) for e in ("fin", "notify", "rst")}
    whole |= {("close", "notify")}
    for framing, data in bodies.items():
        for ending, function in (("fin", fin), ("notify", notify), ("rst", rst)):
            name = "%s, %s" % (framing, ending)
            key = name.replace(" ", "").replace(",", "-")
            pause = 0.05 if ending == "rst" else 0
            t.api.on(Raw(data, pause, function, end="close"), key=key, times=1)
            try:
                answer = t.ask(key=key)
            except Truncated:
                answer = None
            if (framing, ending) in whole:
                t.equal((answer.status, answer.body), (200, b"abc"), name)
                t.replay(t.ask(key=key), answer, name)
            else:
                t.check(answer is None or answer.status == 502, name + ": not whole", answer)
                t.problem(t.ask(key=key), 409, "outcome-unknown", text=name)
            t.effects(1, name, key=key)
    t.check('"level":"error"' not in t.proxy.stderr(), "no errors in the log")


@test("an idle connection that the API ends, resets or speaks on is dropped quietly (T01)", "asan")
def idle_endings(t):
    secure(t)
    t.einmal(upstream={"keepalive_idle": "30s", **trust(t)}, workers=1)

    def spoken(connection, request):
        connection.send(b"x")
    for number, function in enumerate((fin, notify, rst, spoken)):
        t.api.on(Raw(OK + b"Content-Length: 3\r\n\r\nabc", 0.15, function, end="keep" if function is spoken else "close"),
                 key="k%d" % number)
        t.status(t.ask(key="k%d" % number), 200)
        time.sleep(0.4)
        t.fresh(t.ask(key="next%d" % number), text=function.__name__)
        t.effects(1, key="next%d" % number)
    t.check('"level":"error"' not in t.proxy.stderr(), "quietly")


# ---- the handshake (T06, S13) ----


class Port:
    """A listener that does what `serve` does with each connection."""

    def __init__(self, t, serve):
        self.sock = socket.socket()
        self.sock.bind((t.address, 0))
        self.sock.listen(50)
        self.url = "https://%s:%d" % self.sock.getsockname()
        self.accepted = []
        t.cleanups.append(self.sock.close)

        def accept():
            while True:
                try:
                    connection, _ = self.sock.accept()
                except OSError:
                    return
                self.accepted.append(connection)
                try:
                    serve(connection)
                except OSError:
                    pass
        t.thread(accept)


@test("an API that fails in the handshake got nothing: 502, the key is free (T06, S13)", "asan")
def failing_handshakes(t):
    secure(t)
    good = t.api.url

    def hang(connection):
        pass

    def plain(connection):
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    def close(connection):
        connection.close()

    def close_late(connection):
        connection.recv(10000)
        connection.close()

    def reset(connection):
        connection.recv(5)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()

    def half(connection):
        connection.recv(10000)
        connection.sendall(b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03")
    t.einmal(upstream={"connect_timeout": "500ms", **trust(t)}, workers=1)
    for number, function in enumerate((hang, plain, close, close_late, reset, half)):
        t.proxy.upstream_url = Port(t, function).url
        t.proxy.configure(upstream={"connect_timeout": "500ms", **trust(t)}, workers=1)
        reload(t)
        began = time.monotonic()
        t.problem(t.ask(key="k%d" % number), 502, "upstream-unreachable", text=function.__name__)
        t.within(time.monotonic() - began, 2.0, function.__name__)
    t.proxy.upstream_url = good
    t.proxy.configure(upstream=trust(t), workers=1)
    reload(t)
    for number in range(6):
        t.fresh(t.ask(key="k%d" % number), text="executed when the API is well again")
        t.effects(1, key="k%d" % number)


@test("clients that leave while the handshake to the API is on its way", "asan")
def left_in_handshake(t):
    secure(t)
    port = Port(t, lambda connection: None)
    t.einmal(upstream={"url": port.url, "connect_timeout": "1s", **trust(t)})
    for number in range(10):
        client = t.client().post(method="GET" if number % 2 else "POST", key=None if number % 2 else "k%d" % number,
                                 target="/orders")
        time.sleep(0.02)
        client.reset()
    time.sleep(1.5)
    t.effects(0)
    t.proxy.upstream_url = t.api.url
    t.proxy.configure(upstream=trust(t))
    reload(t)


# ---- bytes, TLS on both sides ----


def both_sides(t, **settings):
    secure(t)
    pair = t.ca.issue("server", names="DNS:shop.test")
    t.tls, t.tls_name = client_context(t.ca.file), "shop.test"
    t.einmal(tls={"certificate": pair[0], "key": pair[1]}, upstream=trust(t), **settings)


def whole(count):
    wanted = hashlib.sha256()
    for _ in range(count):
        wanted.update(BLOCK)
    return wanted.hexdigest()


@test("50 MB both ways with TLS on both sides, and many small pieces", "asan", seconds=90)
def streams(t):
    both_sides(t)
    count = 60 if t.options.sanitizer else 200

    def send(connection, request):
        for _ in range(count):
            connection.send(BLOCK)
    t.api.on(Raw(OK + b"Content-Length: %d\r\n\r\n" % (count * len(BLOCK)), send), path="/large")
    t.api.on(Reply(200, [], [b"%d;" % n for n in range(2000)], framing="chunked"), path="/small")
    client = t.client()
    t.equal(hashlib.sha256(client.ask("GET", target="/large").body).hexdigest(), whole(count), "down")
    client.send(request_bytes("PUT", "/up", body=b"", framing="none")[:-2] + b"Content-Length: %d\r\n\r\n" % (count * len(BLOCK)))
    for _ in range(count):
        client.send(BLOCK)
    t.status(client.read("PUT"), 201)
    t.equal(t.api.last().body_sha256, whole(count), "up")
    t.equal(client.ask("GET", target="/small").body, b"".join(b"%d;" % n for n in range(2000)), "small pieces")
    body = BLOCK * 8
    first = t.fresh(client.ask(key="k", body=body))
    t.equal(t.api.last().body_sha256, hashlib.sha256(body).hexdigest(), "a keyed body")
    t.replay(client.ask(key="k", body=body), first)


@test("a slow API holds an uploading client back, TLS on both sides (O09)", "asan", seconds=60)
def back_pressure_up(t):
    both_sides(t)
    gate = threading.Event()

    def take_late(connection, request):
        gate.wait(20)
        t.api.executed(connection, request)
    t.api.on(Raw(take_late, b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", before_body=True), path="/slow")
    client, sent = t.client(), []

    def send_all():
        client.send(request_bytes("POST", "/slow", body=b"", framing="none")[:-2]
                    + b"Content-Length: %d\r\n\r\n" % (160 * len(BLOCK)))
        for number in range(160):
            client.send(BLOCK)
            sent.append(number)
    sender = t.thread(send_all)
    level = t.settled(lambda: len(sent))
    busy, before = t.proxy.cpu_seconds(), t.proxy.memory()
    time.sleep(1.0)
    t.equal(len(sent), level, "the client is held back")
    t.check(level < 150, "not all was taken", level)
    if not t.options.sanitizer:
        t.check(t.proxy.cpu_seconds() - busy < 0.2, "nothing spins in the pause", t.proxy.cpu_seconds() - busy)
        t.check(t.proxy.memory() - before < 1024, "memory (KiB)")
    gate.set()
    t.status(client.read(), 201)
    sender.join(10)
    t.equal(t.api.last().body_sha256, whole(160), "content")


@test("an API that resets while a body is sent to it over TLS: no signal kills (O08)", "race asan")
def reset_under_upload(t):
    both_sides(t)
    t.api.on(Raw(rst, before_body=True), path="/orders/reset")
    for number in range(4):
        answer = t.ask(key="k%d" % number, target="/orders/reset", body=BLOCK * 8)
        t.status(answer, 502)
        t.problem(t.ask(key="k%d" % number, target="/orders/reset", body=BLOCK * 8), 409, "outcome-unknown")


@test("many at once, TLS on both sides", "race asan", seconds=60)
def mixed_load(t):
    both_sides(t, workers=4)
    t.api.on(Reply(200, [], [BLOCK] * 4, framing="chunked"), path="/large")
    failures = []

    def run(number):
        try:
            for round_number in range(t.rounds(6, 3)):
                client = t.client()
                if len(client.ask("GET", target="/large").body) != 4 * len(BLOCK):
                    failures.append("short stream")
                if client.ask(key="m%d-%d" % (number // 2, round_number)).status != 201:
                    failures.append("keyed")
                if client.ask(target="/up", body=BLOCK).status != 201:
                    failures.append("upload")
        except Exception as error:
            failures.append(repr(error))
    threads = [t.thread(run, number) for number in range(8)]
    time.sleep(0.2)
    reload(t)
    for thread in threads:
        thread.join(50)
    t.equal(failures, [], "failures")
    for number in range(4):
        for round_number in range(t.rounds(6, 3)):
            t.effects(1, key="m%d-%d" % (number, round_number))
