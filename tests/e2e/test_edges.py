"""Where two things happen at once: a drain and a request that is already on its way (contract §9)."""
import signal
import threading
import time

from lib.case import Reply, test
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
    time.sleep(0.3)  # the drain is known to all workers
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
