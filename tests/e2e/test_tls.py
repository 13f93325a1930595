"""TLS towards clients (contract §3 `listen[].tls`; cases T06, O08, O09). The API's side: test_tls_upstream.py."""
import hashlib
import os
import signal
import socket
import ssl
import subprocess
import time

from lib.case import Closed, Raw, Reply, Truncated, request_bytes, test
from lib.certs import Authority, client_context

NAME = "shop.test"
BLOCK = hashlib.sha256(b"block").digest() * 8192  # 256 KiB
VERSIONS = {"TLS 1.2": ssl.TLSVersion.TLSv1_2, "TLS 1.3": ssl.TLSVersion.TLSv1_3}


def serve(t, client_ca=None, pair=None, **settings):
    """An einmal that serves TLS as shop.test; t.ca signs."""
    t.ca = Authority(t.directory)
    t.pair = pair or t.ca.issue("server", names="DNS:%s,IP:%s" % (NAME, t.address))
    t.listen = {"certificate": t.pair[0], "key": t.pair[1]}
    if client_ca:
        t.listen["client_ca"] = client_ca
    t.tls, t.tls_name = client_context(t.ca.file), NAME
    return t.einmal(tls=t.listen, **settings)


def raw(t):
    sock = socket.create_connection(t.proxy.address, 10)
    t.cleanups.append(sock.close)
    return sock


def reload(t, text="configuration reloaded"):
    before = t.proxy.stderr().count(text)
    t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: t.proxy.stderr().count(text) > before, 5, "no line '%s'" % text)
    time.sleep(0.1)  # the workers take it with their next turn


# ---- serving ----


@test("requests over TLS 1.2 and 1.3: executed once, replayed, told to the API as https", "race asan")
def served(t):
    serve(t)
    for name, version in VERSIONS.items():
        client = t.client(tls=client_context(t.ca.file, version=version))
        t.equal(client.sock.version().replace("v", " "), name, "version")
        first = t.fresh(client.ask(key=name.replace(" ", "")))
        t.replay(client.ask(key=name.replace(" ", "")), first, name)
        t.equal(t.api.last().get("X-Forwarded-Proto"), "https", name)
        t.status(client.ask("GET", target="/free"), 200, name)
    t.effects(2, path="/orders")


@test("the same action by name with and without the default port", "asan")
def default_port(t):
    serve(t)
    first = t.fresh(t.ask(key="k", host="shop.test"))
    t.replay(t.ask(key="k", host="SHOP.test:443"), first)
    t.effects(1, key="k")


@test("ALPN: http/1.1 is chosen among others; who offers none of ours is refused")
def protocols(t):
    serve(t)
    for offered, wanted in (([], None), (["http/1.1"], "http/1.1"), (["h2", "http/1.1"], "http/1.1")):
        client = t.client(tls=client_context(t.ca.file, protocols=offered))
        t.equal(client.sock.selected_alpn_protocol(), wanted, "chosen of %r" % offered)
        t.status(client.ask("GET", target="/free"), 200)
    for offered in (["h2"], ["h2", "http/1.0"]):
        try:
            t.client(tls=client_context(t.ca.file, protocols=offered))
            t.check(False, "a client that offers only %r is refused" % offered)
        except ssl.SSLError as error:
            t.check("no_application_protocol" in str(error).lower().replace(" ", "_"), "told why", error)


@test("TLS 1.1 is refused")
def old_version(t):
    serve(t)
    context = client_context(t.ca.file)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    try:
        t.client(tls=context)
        t.check(False, "TLS 1.1 is refused")
    except ssl.SSLError as error:
        t.check("PROTOCOL_VERSION" in str(error), "told why", error)


@test("pipelined requests in one record, a body over many, one byte a record", "asan")
def records(t):
    serve(t)
    client = t.client()
    client.send(b"".join(request_bytes(key="p%d" % n) for n in range(5)))
    t.equal(len({t.fresh(client.read()).body for _ in range(5)}), 5, "five answers")
    body = BLOCK[:100000]
    t.fresh(client.ask(key="long", body=body))
    t.equal(t.api.last().body_sha256, hashlib.sha256(body).hexdigest(), "content")
    data = request_bytes(key="drops")
    for n in range(len(data)):
        client.send(data[n:n + 1])
    t.fresh(client.read())
    client.send(b"".join(request_bytes(key="l%d" % n, body=body) for n in range(4)))  # more than is read at once
    for n in range(4):
        t.fresh(client.read())
        t.effects(1, key="l%d" % n)


# ---- endings ----


@test("the end of an answer is told: close_notify where it is whole, none where it is cut", "asan")
def endings(t):
    serve(t)
    t.api.on(Reply(200, [], [b"a" * 1000, b"b" * 1000], framing="chunked"), path="/whole")
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 0.2, end="reset"), path="/cut")
    client = t.client()
    answer = client.ask("GET", target="/whole", version="1.0")
    t.equal((answer.framing, len(answer.body)), ("close", 2000), "an HTTP/1.0 client reads to the end, which is real")
    try:
        t.client().ask("GET", target="/cut", version="1.0")
        t.check(False, "a cut answer must not look whole")
    except Truncated:
        pass


@test("a client that sends FIN without close_notify after its request gets the answer; idle it is let go (T01)", "asan")
def client_fin(t):
    serve(t)
    t.api.on(Reply(delay=0.3), key="k")
    client = t.client()
    client.post(key="k")
    os_shutdown(client.sock)
    t.fresh(client.read())
    t.effects(1, key="k")
    client = t.client()
    t.fresh(client.ask(key="k2"))
    os_shutdown(client.sock)
    t.equal(client.expect_end(), b"", "quietly")
    client = t.client()
    client.send(request_bytes(key="k3")[:-3])
    os_shutdown(client.sock)
    t.equal(client.expect_end(), b"", "in the middle of a request")
    time.sleep(0.2)
    t.effects(0, key="k3")
    t.check('"level":"error"' not in t.proxy.stderr(), "no errors are logged for what clients do")


def os_shutdown(sock):
    """FIN of the socket beneath, without close_notify."""
    plain = socket.socket(fileno=os.dup(sock.fileno()))
    plain.shutdown(socket.SHUT_WR)
    plain.close()


@test("a waiting client that resets is noticed over TLS: its place in the line is free", "asan")
def waiting_reset(t):
    serve(t)
    t.api.on(Reply(delay=1.0), key="k", times=1)
    owner = t.start(key="k")
    t.check(t.api.wait_for(lambda api: api.heads), "the owner is at the API")
    waiter = t.start(key="k")
    time.sleep(0.2)
    waiter.reset()
    t.fresh(owner.read())
    t.wait_until(lambda: t.proxy.access(key=None) and len(t.proxy.access()) >= 2, 5, "both are over")
    t.check(499 in [line["status"] for line in t.proxy.access()], "the waiter left", t.proxy.access())
    t.effects(1, key="k")


# ---- the handshake (T06) ----


@test("plain HTTP on the TLS port: the connection ends without a reset (T06)", "asan")
def plain_on_tls(t):
    serve(t)
    for data in (request_bytes(key="k"), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 100, b"\x16\x03\x01\xff\xff" + b"a" * 70000):
        sock = raw(t)
        try:
            sock.sendall(data)
        except ConnectionError:
            t.check(False, "reset while it was sent")
        answer = b""
        while True:
            piece = sock.recv(4096)  # ConnectionResetError would fail the test
            if not piece:
                break
            answer += piece
        t.check(len(answer) <= 7, "nothing but an alert", answer)
        sock.close()
    t.effects(0)


@test("whoever stalls in the handshake is let go after timeouts.header (T06)", "asan")
def stalled(t):
    serve(t, timeouts={"header": "1s", "idle": "60s"})
    silent, half = raw(t), raw(t)
    half.sendall(hello(t)[:60])
    patient = t.client()
    began = time.monotonic()
    for sock in (silent, half):
        sock.settimeout(10)
        while sock.recv(4096):
            pass
    t.within(time.monotonic() - began, 3.0, "let go")
    t.check(time.monotonic() - began > 0.5, "not at once", time.monotonic() - began)
    time.sleep(1.0)
    t.fresh(patient.ask(key="k"), text="idle after the handshake counts by timeouts.idle")


def hello(t):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = client_context(t.ca.file).wrap_bio(incoming, outgoing, server_hostname=NAME)
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def bundle(t, count):
    """A chain file that is far longer than it has to be: its flight fills the socket."""
    filler = t.ca.issue("filler", names=",".join("DNS:name-%04d.example" % n for n in range(100)))[0]
    chain = t.path("chain.crt")
    with open(chain, "w") as out:
        for name in [t.pair[0]] + [filler] * count:
            with open(name) as source:
                out.write(source.read())
    return chain


@test("a flight of the handshake that the socket does not take at once; answers go on afterwards (T06)", "asan")
def long_flight(t):
    serve(t)
    t.listen["certificate"] = bundle(t, 38)
    t.proxy.configure(tls=t.listen)
    reload(t)
    for name, version in VERSIONS.items():
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.settimeout(10)
        sock.connect(t.proxy.address)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        side = client_context(t.ca.file, version=version).wrap_bio(incoming, outgoing, server_hostname=NAME)
        done, received = False, 0
        while not done:
            try:
                side.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                time.sleep(0.2 if received == 0 else 0)
                data = sock.recv(4096)
                t.check(data, name + ": ended in the handshake")
                received += len(data)
                incoming.write(data)
        t.check(received > 60000, "the flight was long", received)
        side.write(request_bytes(key=name.replace(" ", "")))
        sock.sendall(outgoing.read())
        while True:
            try:
                answer = side.read(10000)
                break
            except ssl.SSLWantReadError:
                incoming.write(sock.recv(4096))
        t.check(answer.startswith(b"HTTP/1.1 201 "), name, answer)
        sock.close()


@test("clients that vanish anywhere in the handshake leave nothing behind (T06)", "race asan", seconds=60)
def vanishing(t):
    serve(t)
    data = hello(t)
    for number in range(t.rounds(300, 60)):
        sock = socket.create_connection(t.proxy.address, 10)
        sock.sendall(data[:number * 7 % (len(data) + 1)])
        if number % 3 == 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        elif number % 3 == 1:
            time.sleep(0.002)
        sock.close()
    for number in range(t.rounds(200, 40)):
        client = t.client()
        client.reset()
    time.sleep(0.3)
    t.clients = []
    t.fresh(t.ask(key="k"))


@test("renegotiation is refused and the connection goes on (T06)")
def renegotiation(t):
    serve(t)
    process = subprocess.Popen(["openssl", "s_client", "-tls1_2", "-connect", "%s:%d" % t.proxy.address, "-CAfile", t.ca.file,
                                "-servername", NAME, "-legacy_renegotiation"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    t.cleanups.append(process.kill)
    time.sleep(0.5)
    process.stdin.write(b"R\n")
    process.stdin.flush()
    time.sleep(0.5)
    process.stdin.close()
    out = process.stdout.read()
    t.check(b"RENEGOTIATING" in out, "it was tried", out[-500:])
    t.check(b"no renegotiation" in out, "it was refused", out[-500:])


# ---- client certificates ----


def with_people(t, **settings):
    t.people = Authority(t.directory, "people")
    serve(t, client_ca=t.people.file, **settings)
    return {name: t.people.issue(name, "/O=Example, Inc/CN=" + name, "DNS:" + name) for name in ("alice", "bob")}


@test("client_ca: only who shows a certificate of it comes in; scope auto tells the callers apart", "asan")
def client_certificates(t):
    pairs = with_people(t)
    stranger = Authority(t.directory, "strangers").issue("mallory", "/CN=alice", "DNS:alice")
    expired = t.people.issue("late", "/CN=late", "DNS:late", days=-1)
    for name, pair in (("none", None), ("of another authority", stranger), ("expired", expired)):
        for version in VERSIONS.values():
            try:
                t.client(tls=client_context(t.ca.file, pair, version)).ask(key="x", auth=None)
                t.check(False, "a client certificate: %s" % name)
            except (ssl.SSLError, Closed, ConnectionError):
                pass
    t.effects(0)
    alice, bob = (client_context(t.ca.file, pairs[name]) for name in ("alice", "bob"))
    first = t.fresh(t.client(tls=alice).ask(key="k", auth=None))
    t.replay(t.client(tls=alice).ask(key="k", auth=None), first)
    t.problem(t.client(tls=bob).ask(key="k", auth=None), 409, "identity-changed")
    t.fresh(t.client(tls=bob).ask(key="k", auth=None, body=b"other"), text="another content")
    t.check("no identity" not in t.proxy.stderr(), "nobody is anonymous")
    t.tls = alice


@test("tls:subject and tls:fingerprint as components: a renewed certificate is the same subject", "asan")
def certificate_components(t):
    def route(name, **what):
        return {"name": name, "match": {"path": "/" + name}, "upstream": "api", **what}
    pairs = with_people(t, routes=[route("subject", scope=["tls:subject"]), route("print", scope=["tls:fingerprint"]),
                                   route("derived", scope=["tls:subject"], key=[{"derive": ["tls:subject", "json:/id"]}]),
                                   {"name": "orders", "match": {"path": "/orders/**"}, "upstream": "api"}])
    renewed = t.people.issue("renewed", "/O=Example, Inc/CN=alice", "DNS:alice")
    alice, bob, again = (client_context(t.ca.file, pair) for pair in (pairs["alice"], pairs["bob"], renewed))
    for target, same in (("/subject", True), ("/print", False)):
        first = t.fresh(t.client(tls=alice).ask(key="k", target=target))
        t.fresh(t.client(tls=bob).ask(key="k", target=target), text="another subject")
        answer = t.client(tls=again).ask(key="k", target=target)
        if same:
            t.replay(answer, first, "the same subject")
        else:
            t.fresh(answer, text="another certificate")
    first = t.fresh(t.client(tls=alice).ask(target="/derived", body=b'{"id":7}'))
    t.replay(t.client(tls=again).ask(target="/derived", body=b'{"id":7}'), first, "derived from the subject")
    t.fresh(t.client(tls=bob).ask(target="/derived", body=b'{"id":7}'))
    t.tls = alice


# ---- resumption ----


def resume(t, context, session=None):
    """(was it resumed, the session for the next time)"""
    client = t.client(tls=context, session=session)
    t.status(client.ask("GET", target="/free", auth=None), 200)
    reused, new = client.sock.session_reused, client.sock.session
    client.close()
    return reused, new


@test("sessions are resumed by ticket, over a reload with another certificate, too", "asan")
def resumption(t):
    serve(t)
    for name, version in VERSIONS.items():
        context = client_context(t.ca.file, version=version)
        reused, session = resume(t, context)
        t.equal(reused, False, name + ": the first time")
        for _ in range(4):  # whichever worker it meets
            reused, session = resume(t, context, session)
            t.equal(reused, True, name + ": resumed")
        kept = t.client(tls=context)
        old = kept.sock.getpeercert(True)
        new = t.ca.issue("new", names="DNS:" + NAME)
        for of, to in zip(new, t.pair):
            os.replace(of, to)
        reload(t)
        t.check(t.client(tls=context).sock.getpeercert(True) != old, name + ": new connections see the new certificate")
        reused, session = resume(t, context, session)
        t.equal(reused, True, name + ": resumed after the reload")
        t.status(kept.ask("GET", target="/free"), 200, name + ": connections outlive a reload")


@test("a resumed connection has the identity of its first; other authorities make tickets void", "asan")
def resumed_identity(t):
    pairs = with_people(t)
    for name, version in VERSIONS.items():
        key = name.replace(" ", "")
        context = client_context(t.ca.file, pairs["alice"], version)
        first = t.fresh(t.client(tls=context).ask(key=key, auth=None))
        _, session = resume(t, context)
        client = t.client(tls=context, session=session)
        t.replay(client.ask(key=key, auth=None), first, name)
        t.equal(client.sock.session_reused, True, name)
    others = Authority(t.directory, "others")
    t.listen["client_ca"] = others.file
    t.proxy.configure(tls=t.listen)
    reload(t)
    for version in VERSIONS.values():
        context = client_context(t.ca.file, pairs["alice"], version)
        try:
            t.client(tls=context, session=session).ask(key="x", auth=None)
            t.check(False, "a ticket made under other authorities lets nobody in")
        except (ssl.SSLError, ValueError, Closed, ConnectionError):
            pass
    t.effects(0, key="x")
    t.tls = client_context(t.ca.file, others.issue("carol", "/CN=carol", "DNS:carol"))


# ---- files ----


@test("a reload with a bad certificate changes nothing and says where", "asan")
def bad_reload(t):
    serve(t)
    session = resume(t, t.tls)[1]
    with open(t.pair[0], "w") as out:
        out.write("nonsense\n")
    reload(t, "the running one stays in force")
    t.check("einmal.yaml:" in t.proxy.stderr() and "listen[0].tls.certificate: " in t.proxy.stderr(), "where",
            t.proxy.stderr())
    t.fresh(t.ask(key="k"))
    t.equal(resume(t, t.tls, session)[0], True, "resumed")


def checked(t, proxy, text):
    done = subprocess.run([t.options.binary, "check", "-c", proxy.file], capture_output=True, timeout=30 * t.slow)
    err = done.stderr.decode()
    t.equal((done.returncode, err.count("\n")), (0, 0) if text is None else (2, 1), "%s: %s" % (text, err))
    if text:
        t.check(text in err and ": error: " in err and "einmal.yaml:" in err, "message", err, text)


@test("`check` reads every file that TLS names and says what is wrong with it, with its place")
def check_files(t):
    t.ordinary = False
    ca = Authority(t.directory)
    good, other = ca.issue("good", names="DNS:a"), ca.issue("other", names="DNS:b")
    locked, empty = t.path("locked.key"), t.path("empty")
    subprocess.run(["openssl", "ec", "-in", good[1], "-aes128", "-passout", "pass:secret", "-out", locked], check=True,
                   capture_output=True)
    open(empty, "w").close()
    missing = t.path("missing")
    listeners = (
        ({"certificate": good[0], "key": good[1]}, None),
        ({"certificate": good[0], "key": good[1], "client_ca": ca.file}, None),
        ({"certificate": missing, "key": good[1]}, "listen[0].tls.certificate: %s: No such file or directory" % missing),
        ({"certificate": t.directory, "key": good[1]}, "listen[0].tls.certificate: %s: Is a directory" % t.directory),
        ({"certificate": empty, "key": good[1]}, "listen[0].tls.certificate: %s: not accepted as a certificate chain" % empty),
        ({"certificate": good[1], "key": good[1]}, "listen[0].tls.certificate: %s: not accepted as a" % good[1]),
        ({"certificate": good[0], "key": missing}, "listen[0].tls.key: %s: No such file or directory" % missing),
        ({"certificate": good[0], "key": good[0]}, "listen[0].tls.key: %s: not accepted as a private key" % good[0]),
        ({"certificate": good[0], "key": locked}, "listen[0].tls.key: %s: not accepted as a private key" % locked),
        ({"certificate": good[0], "key": other[1]},
         "listen[0].tls.key: %s: does not belong to the certificate: %s" % (other[1], good[0])),
        ({"certificate": good[0], "key": good[1], "client_ca": empty}, "listen[0].tls.client_ca: %s: not accepted" % empty),
    )
    proxy = t.prepare()
    for tls, text in listeners:
        proxy.configure(tls=tls)
        checked(t, proxy, text)
    upstreams = (
        ({"ca": ca.file, "certificate": good[0], "key": good[1], "server_name": "a"}, None),
        ({"ca": missing}, "upstreams.api.tls.ca: %s: No such file or directory" % missing),
        ({"ca": empty}, "upstreams.api.tls.ca: %s: not accepted as certificates" % empty),
        ({"certificate": good[0], "key": other[1]}, "upstreams.api.tls.key: %s: does not belong to the" % other[1]),
    )
    for tls, text in upstreams:
        proxy.configure(upstream={"url": "https://a", "tls": tls})
        checked(t, proxy, text)
    proxy.configure(tls={"certificate": missing, "key": good[1]})
    proxy.spawn()
    t.equal(proxy.wait(), 2, "a start with a bad file fails like a bad configuration")
    t.check("listen[0].tls.certificate" in proxy.stderr(), "and says why", proxy.stderr())


# ---- bytes ----


def send_blocks(count):
    def send(connection, request):
        for _ in range(count):
            connection.send(BLOCK)
    return send


def whole(count):
    wanted = hashlib.sha256()
    for _ in range(count):
        wanted.update(BLOCK)
    return wanted.hexdigest()


@test("100 MB down and up over TLS: whole, with bounded memory (O09)", "asan", seconds=90)
def large(t):
    serve(t)
    count = 100 if t.options.sanitizer else 400
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (count * len(BLOCK)), send_blocks(count)), path="/large")
    t.ask(key="warm")
    before = t.proxy.memory("VmHWM")
    client = t.client()
    answer = client.ask("GET", target="/large")
    t.equal(hashlib.sha256(answer.body).hexdigest(), whole(count), "content down")
    for framing in ("length", "chunked"):
        head = request_bytes("PUT", "/up", body=b"", framing="none")[:-2]
        if framing == "length":
            client.send(head + b"Content-Length: %d\r\n\r\n" % (count * len(BLOCK)))
            for _ in range(count):
                client.send(BLOCK)
        else:
            client.send(head + b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(count):
                client.send(b"%x\r\n%s\r\n" % (len(BLOCK), BLOCK))
            client.send(b"0\r\n\r\n")
        t.status(client.read("PUT"), 201, framing)
        t.equal(t.api.last().body_sha256, whole(count), "content up by " + framing)
    if not t.options.sanitizer:
        t.check(t.proxy.memory("VmHWM") - before < 4 * 1024, "memory (KiB)", t.proxy.memory("VmHWM") - before)


@test("a slow reader over TLS holds the API back; nothing spins; then all comes (O09)", "asan", seconds=60)
def back_pressure_down(t):
    serve(t)
    sent = []

    def produce(connection, request):
        for number in range(160):  # 40 MiB
            connection.send(BLOCK)
            sent.append(number)
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (160 * len(BLOCK)), produce), path="/large")
    client = t.client(receive_buffer=8192).post(method="GET", target="/large")
    client.read_head()
    level = t.settled(lambda: len(sent))
    busy, before = t.proxy.cpu_seconds(), t.proxy.memory()
    time.sleep(1.5)
    t.equal(len(sent), level, "the API is held back")
    t.check(level < 150, "not all was taken", level)
    if not t.options.sanitizer:
        t.check(t.proxy.cpu_seconds() - busy < 0.2, "nothing spins in the pause", t.proxy.cpu_seconds() - busy)
        t.check(t.proxy.memory() - before < 1024, "memory (KiB)")
    digest, total = hashlib.sha256(client.buffer), len(client.buffer)
    while total < 160 * len(BLOCK):
        data = client.sock.recv(1 << 18)
        t.check(data, "goes on and is not cut", total)
        digest.update(data)
        total += len(data)
    t.equal(digest.hexdigest(), whole(160), "content")
    client.buffer = b""
    t.status(client.ask("GET", target="/free"), 200, "the connection goes on")


@test("a client that resets while 10 MB are sent to it over TLS: no signal kills, the action is kept (O08)", "race asan")
def reset_under_answer(t):
    serve(t)
    pid = t.proxy.pid
    t.api.reply(Reply(200, [], [BLOCK] * 40))
    for number in range(4):
        client = t.client(receive_buffer=4096).post(key="k%d" % number)
        client.read_head()
        client.reset()
    t.clients = []
    for number in range(4):
        answer = t.ask(key="k%d" % number)
        t.equal((answer.status, len(answer.body), answer.replayed), (200, 40 * len(BLOCK), True), "replay")
        t.effects(1, key="k%d" % number)
    t.equal(t.proxy.pid, pid, "the same process")


@test("an idle TLS connection takes at most 20 KiB (contract §10)", seconds=60)
def idle_memory(t):
    serve(t, workers=1)
    if t.options.sanitizer:
        return
    t.ask(key="warm")
    count, before = 500, t.proxy.memory()
    clients = [t.client() for _ in range(count)]
    for client in clients:
        t.status(client.ask("GET", target="/free"), 200)
    time.sleep(0.3)
    each = (t.proxy.memory() - before) / count
    print("%.1f KiB per idle TLS connection" % each)
    t.check(each <= 20, "KiB per idle TLS connection", each)


@test("a drain ends idle TLS connections with close_notify and finishes what runs", "asan")
def drained(t):
    serve(t)
    t.ordinary = False
    t.api.on(Reply(delay=0.6), key="k")
    idle, fresh = t.client(), raw(t)
    t.fresh(idle.ask(key="i"))
    running = t.client().post(key="k")
    t.check(t.api.wait_count(2), "it runs")
    t.proxy.signal(signal.SIGTERM)
    idle.sock.settimeout(5)
    t.equal(idle.sock.recv(10), b"", "close_notify, not a bare FIN")
    t.fresh(running.read())
    t.equal(running.sock.recv(10), b"", "and so for the one that ran")
    t.equal(fresh.recv(10), b"", "one in the handshake ends, too")
    t.equal(t.proxy.wait(), 0, "exit code")
