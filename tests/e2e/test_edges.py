"""Where two things happen at once: a drain and a request that is already on its way (contract §9)."""
import signal
import threading
import time

from lib.case import Reply, test


@test("SIGTERM: a request that is in the socket, or comes soon on a new connection, gets 503 draining", "race asan")
def drain_meets_requests(t):
    t.ordinary = False
    t.einmal()
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
