"""Where two things happen at once: a drain and a request that is already on its way (contract §9)."""
import signal
import threading
import time

from lib.case import Raw, Reply, request_bytes, test
from lib.certs import Authority, client_context


def serve_tls(t):
    authority = Authority(t.directory)
    pair = authority.issue("server", names="DNS:shop.test,IP:%s" % t.address)
    t.tls, t.tls_name = client_context(authority.file), "shop.test"
    t.einmal(tls={"certificate": pair[0], "key": pair[1]})


def requests_after_the_signal(t):
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    fresh = [t.client() for _ in range(8)]
    time.sleep(0.2)
    t.proxy.signal(signal.SIGTERM)
    t.wait_until(lambda: "draining" in t.proxy.stderr(), text="drains")
    time.sleep(0.2)  # all workers know it, and the second in which a new connection may still ask has not passed
    for number, client in enumerate(fresh):
        client.post(key="new%d" % number)
    for client in fresh:
        answer = client.read()
        t.problem(answer, 503, "draining", retry_after=True)
        t.check(answer.closes, "Connection: close", answer)
        t.equal(client.expect_end(5 * t.slow), b"", "then the end")
    gate.set()
    t.fresh(owner.read())
    t.equal(t.proxy.wait(), 0, "exit code")
    t.effects(1, key="k")
    for number in range(len(fresh)):
        t.effects(0, key="new%d" % number)


@test("SIGTERM: a request that is in the socket, or comes soon on a new connection, gets 503 draining", "race asan")
def drain_meets_requests(t):
    t.ordinary = False
    t.einmal()
    requests_after_the_signal(t)


@test("the same with TLS", "asan")
def drain_meets_tls_requests(t):
    t.ordinary = False
    serve_tls(t)
    requests_after_the_signal(t)


def signal_and_requests_together(t):
    """All stands still while the signal and the requests arrive; then whatever is looked at first, none may be lost."""
    kept = [t.client() for _ in range(12)]
    for number, client in enumerate(kept):
        if number % 3:
            t.fresh(client.ask(key="first%d" % number))
    time.sleep(0.2)
    t.proxy.stop_all_threads()
    t.proxy.signal(signal.SIGTERM)
    for number, client in enumerate(kept):
        client.post(key="k%d" % number)
    t.proxy.signal(signal.SIGCONT)
    for number, client in enumerate(kept):
        answer = client.read()
        t.check(answer.status in (201, 503), "request %d is answered" % number, answer)
        t.effects(1 if answer.status == 201 else 0, key="k%d" % number)
    t.equal(t.proxy.wait(), 0, "exit code")


@test("SIGTERM in the same moment as requests on new and on kept connections: each is answered", "race asan")
def drain_with_requests(t):
    t.ordinary = False
    t.einmal()
    signal_and_requests_together(t)


@test("the same moment with TLS", "asan")
def drain_with_tls_requests(t):
    t.ordinary = False
    serve_tls(t)
    signal_and_requests_together(t)


@test("memory that one worker gave back serves the other: no 503 on an idle proxy", "asan")
def memory_is_not_stranded(t):
    t.einmal(workers=2, limits={"buffer_memory": "1MiB"})
    clients = [t.client(), t.client()]
    for round_number in range(4):
        for number, client in enumerate(clients):
            key = "k%d-%d" % (round_number, number)
            t.fresh(client.ask(key=key, body=b"x" * 600000))
            time.sleep(0.1)  # what was taken is given back right after the answer went out
            t.effects(1, key=key)


@test("an unknown ending whose answer was too large to keep is reported as unknown", "asan")
def unknown_not_kept(t):
    t.einmal(route={"max_response_body": "10KiB"})
    t.api.on(Reply(500, [], b"y" * 20000), key="k", times=1)
    t.status(t.ask(key="k"), 500)
    body = t.problem(t.ask(key="k"), 409, "outcome-unknown", action=True)
    t.equal(body["state"], "unknown", "state")
    t.effects(1, key="k")


@test("an answer that is malformed in its first packet is a 502, not a reset without a byte", "asan")
def malformed_at_once(t):
    t.einmal()
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX"), path="/free", times=1)
    t.problem(t.ask("GET", target="/free"), 502, "upstream-invalid")


@test("a cut answer leaves the answers before it on the connection alone", "asan")
def cut_after_an_answer(t):
    t.einmal()
    big = b"b" * 1500000
    t.api.on(Reply(201, [], big), key="big", times=1)
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", end="close"), path="/cut", times=1)
    client = t.client(receive_buffer=8192)
    client.send(request_bytes(key="big") + request_bytes("GET", "/cut"))
    time.sleep(0.5)
    t.equal(client.read().body, big, "the first answer is whole")
    t.effects(1, key="big")


@test("the API's own marker is removed also where no route applies", "asan")
def marker_without_route(t):
    t.einmal()
    t.api.on(Reply(200, [("Idempotent-Replayed", "true")], b"x"), path="/free", times=1)
    answer = t.status(t.ask("GET", target="/free"), 200)
    t.equal(answer.all("Idempotent-Replayed"), [], "the API's marker")


@test("routes that share a scope name differ in their rules: no warning at a reload that changes nothing", "asan")
def shared_scope_name(t):
    t.einmal(routes=[{"name": "a", "scope_name": "s", "match": {"path": "/orders"}, "upstream": "api"},
                     {"name": "b", "scope_name": "s", "match": {"path": "/other"}, "upstream": "api", "fingerprint": "none"}])
    t.fresh(t.ask(key="k"))
    t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: "configuration reloaded" in t.proxy.stderr(), 5, "reloaded")
    t.check("not recognised" not in t.proxy.stderr(), "no warning", t.proxy.stderr())
