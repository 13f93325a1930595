"""Many attempts at one action: one effect, and what those who wait get (contract §4; cases S01–S04, S17)."""
import socket
import struct
import threading
import time

from lib.case import Raw, Reply, request_bytes, test


def burst(case, clients, rounds, api_pause):
    """Each round: the same request on every connection, its last byte held back until all are there."""
    case.api.reply(Reply(delay=api_pause))
    for number in range(rounds):
        key = "burst-%d" % number
        data = request_bytes(key=key)
        for client in clients:
            client.send(data[:-1])
        for client in clients:
            client.send(data[-1:])
        answers = [client.read() for client in clients]
        case.equal({answer.status for answer in answers}, {201}, "round %d: statuses" % number)
        case.equal(len({answer.body for answer in answers}), 1, "round %d: different bodies" % number)
        case.equal(len({answer.get("Location") for answer in answers}), 1, "round %d: Location" % number)
        case.equal(sum(answer.replayed for answer in answers), len(clients) - 1, "round %d: marked replays" % number)
        case.effects(1, "round %d" % number, key=key)


@test("50 concurrent duplicates, 200 rounds: one effect each (S01)", "", seconds=120)
def fifty_duplicates_200_rounds(t):
    t.einmal(workers=4)
    clients = [t.client() for _ in range(50)]
    burst(t, clients, t.rounds(200, 20), 0.02)


@test("concurrent duplicates while sanitizers watch: one effect each", "race asan", seconds=60)
def duplicates_few_rounds(t):
    t.einmal(workers=4)
    burst(t, [t.client() for _ in range(20)], 15, 0.01)


@test("an API that answers at once: duplicates race with the completion itself", "race asan", seconds=60)
def duplicates_without_delay(t):
    t.einmal(workers=4)
    burst(t, [t.client() for _ in range(16)], t.rounds(60, 20), 0)


@test("those who wait get the answer when the first one has it, by notification (S02)", "race asan")
def waiters_are_woken(t):
    t.einmal()
    gate = threading.Event()
    t.api.reply(Reply(delay=gate))
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "the first request reaches the API")
    waiters = [t.start(key="k") for _ in range(10)]
    t.check(waiters[0].waits(1.0), "a waiter waits")
    busy = t.proxy.cpu_seconds()
    t.check(waiters[5].waits(1.0), "a waiter waits on")
    if not t.options.sanitizer:
        t.check(t.proxy.cpu_seconds() - busy < 0.2, "waiting costs no processor time")
    released = time.monotonic()
    gate.set()
    first = t.fresh(owner.read())
    for waiter in waiters:
        answer = waiter.read()
        t.replay(answer, first, "waiter")
        t.within(answer.at - released, 4.0, "a waiter is woken")
    t.effects(1, key="k")


@test("the wait limit: 409 with Retry-After, the connection goes on, nobody executes (S03)", "asan")
def wait_limit(t):
    t.einmal(route={"wait_timeout": "500ms"})
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "the first request reaches the API")
    waiter = t.start(key="k")
    answer = waiter.read()
    body = t.problem(answer, 409, "in-progress", retry_after=True, action=True)
    t.equal(body["state"], "in_progress", "state")
    t.check(answer.took >= 0.45, "not before the limit", answer.took)
    t.within(answer.took, 2.0, "the limit")
    t.check(not answer.closes, "the connection of a waiter goes on", answer)
    t.problem(waiter.ask(key="k"), 409, "in-progress", retry_after=True)
    t.status(waiter.ask("GET", target="/free"), 200, "another request on the waiter's connection")
    gate.set()
    first = t.fresh(owner.read())
    t.replay(waiter.ask(key="k"), first, "afterwards")
    t.effects(1, key="k")


@test("on_concurrent: reject answers 409 at once", "asan")
def concurrent_rejected(t):
    t.einmal(route={"on_concurrent": "reject"})
    gate = threading.Event()
    t.api.reply(Reply(delay=gate))
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "the first request reaches the API")
    answer = t.ask(key="k")
    t.problem(answer, 409, "in-progress", retry_after=True, action=True)
    t.within(answer.took, 4.0, "rejected at once")
    gate.set()
    first = t.fresh(owner.read())
    t.replay(t.ask(key="k"), first)
    t.effects(1, key="k")


@test("more waiters than waiters_per_action: 409 for the rest", "asan")
def waiters_per_action(t):
    t.einmal(limits={"waiters_per_action": 3})
    gate = threading.Event()
    t.api.reply(Reply(delay=gate))
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "the first request reaches the API")
    waiters = [t.start(key="k") for _ in range(3)]
    t.check(waiters[2].waits(0.3), "three may wait")
    t.problem(t.ask(key="k"), 409, "in-progress", retry_after=True)
    gate.set()
    first = t.fresh(owner.read())
    for waiter in waiters:
        t.replay(waiter.read(), first)
    t.effects(1, key="k")


@test("more waiters than limits.waiters over all keys: 409 for the rest")
def waiters_in_all(t):
    t.einmal(limits={"waiters": 4})
    gate = threading.Event()
    t.api.reply(Reply(delay=gate))
    owners = [t.start(key="k%d" % i) for i in range(2)]
    t.check(t.api.wait_count(2), "two actions run")
    waiters = [t.start(key="k%d" % (i % 2)) for i in range(4)]
    t.check(waiters[3].waits(0.3), "four may wait")
    t.problem(t.ask(key="k0"), 409, "in-progress", retry_after=True)
    gate.set()
    for client in owners + waiters:
        t.status(client.read(), 201)
    t.effects(2)


@test("another body under a running key: 422 at once, the first untouched (S17)", "asan")
def mismatch_while_running(t):
    t.einmal()
    gate = threading.Event()
    t.api.reply(Reply(delay=gate))
    owner = t.start(key="k", body=b'{"a":1}')
    t.check(t.api.wait_count(1), "the first request reaches the API")
    answer = t.ask(key="k", body=b'{"a":2}')
    t.problem(answer, 422, "key-reused", retry_after=False)
    t.within(answer.took, 4.0, "a mismatch is told at once")
    gate.set()
    first = t.fresh(owner.read())
    t.replay(t.ask(key="k", body=b'{"a":1}'), first)
    t.effects(1, key="k")


@test("key reused with other content: 422, the original replays on (S16)", "asan")
def mismatch_afterwards(t):
    t.einmal()
    first = t.fresh(t.ask(key="k"))
    others = [{"body": b'{"a":2}'}, {"body": b'{"a":1} '}, {"target": "/orders?x=1"}, {"target": "/orders/other"},
              {"kind": "text/plain"}, {"method": "PATCH"},
              {"host": "other.test"}, {"body": b""}]
    for other in others:
        t.problem(t.ask(**dict({"key": "k"}, **other)), 422, "key-reused", text="other %r" % other)
    t.replay(t.ask(key="k"), first)
    t.effects(1, key="k")


@test("nothing was sent: one of those who wait takes over, the rest wait on; no stampede (S04 a)", "race asan")
def takeover_after_refused(t):
    # The first attempt cannot reach the API: its name is one whose port is closed until the attempt was made.
    t.einmal()
    t.api.stop()
    gate = threading.Event()
    t.api.reply(Reply(delay=gate))
    clients = [t.client() for _ in range(20)]
    data = request_bytes(key="k")
    for client in clients:
        client.send(data[:-1])
    for client in clients:
        client.send(data[-1:])
    t.api.start()
    gate.set()
    answers = [client.read() for client in clients]
    good = [answer for answer in answers if answer.status == 201]
    for answer in answers:
        if answer.status != 201:
            t.problem(answer, 502, "upstream-unreachable")
    t.check(t.api.count(key="k") <= 1, "at most one effect", t.api.count(key="k"))
    if good:
        t.equal(len({answer.body for answer in good}), 1, "one answer for all")
    last = t.ask(key="k")
    t.status(last, 201)
    t.effects(1, key="k")


@test("unsent twice: all who wait get that 502, and nobody hammers the API", "race asan")
def unsent_twice(t):
    t.einmal(workers=1)
    t.api.stop()
    clients = [t.client() for _ in range(20)]
    data = request_bytes(key="k")
    began = time.monotonic()
    for client in clients:
        client.send(data[:-1])
    for client in clients:
        client.send(data[-1:])
    for client in clients:
        t.problem(client.read(), 502, "upstream-unreachable", text="unreachable")
    t.within(time.monotonic() - began, 3.0, "all are answered")
    t.effects(0)
    t.api.start()
    t.fresh(t.ask(key="k"), text="the key is free")
    t.effects(1, key="k")


def slow_to_connect(t, **upstream):
    """An API to which connecting hangs: its backlog is full. Returns what waits for einmal to try, and what opens it up."""
    t.api.stop()
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((t.address, t.api.port))
    listener.listen(0)
    for _ in range(4):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
        t.cleanups.append(filler.close)
    t.cleanups.append(listener.close)
    place = "%08X:%04X" % (struct.unpack("=I", socket.inet_aton(t.address))[0], t.api.port)

    def connecting():  # in the state SYN_SENT
        with open("/proc/net/tcp") as table:
            return sum(line.split()[2:4] == [place, "02"] for line in table)
    fillers = connecting()
    t.einmal(upstream=upstream)

    def tried():
        t.wait_until(lambda: connecting() > fillers, text="einmal connects")

    def open_up():
        listener.listen(1024)
        t.api.listener = listener
        t.thread(t.api._accept, listener)
    return tried, open_up


@test("nothing was sent: the longest-waiting executes, the others wait on for its answer (S04 a, S13)", "race asan")
def takeover_after_connect_timeout(t):
    tried, open_up = slow_to_connect(t, connect_timeout="900ms")  # it is tried again after a second
    t.api.reply(Reply(delay=0.2))
    owner = t.start(key="k")
    tried()
    waiters = [t.start(key="k") for _ in range(10)]
    time.sleep(0.2)
    open_up()
    t.problem(owner.read(), 502, "upstream-unreachable", text="owner")
    answers = [t.status(waiter.read(), 201, "waiter") for waiter in waiters]
    t.equal(len({answer.body for answer in answers}), 1, "one answer")
    t.equal(sum(answer.replayed for answer in answers), 9, "one executed, nine are replays")
    t.effects(1, key="k")


@test("connect timeout: 502, nothing sent; those who wait follow one after the other at most once", "asan")
def connect_timeout(t):
    t.ordinary = False
    tried, _ = slow_to_connect(t, connect_timeout="500ms")
    owner = t.start(key="k")
    tried()
    waiters = [t.start(key="k") for _ in range(5)]
    answer = owner.read()
    t.problem(answer, 502, "upstream-unreachable")
    t.check(answer.took > 0.4, "not before the connect timeout", answer.took)
    for waiter in waiters:
        answer = waiter.read()
        t.problem(answer, 502, "upstream-unreachable", text="waiter")
        t.within(answer.took, 4.0, "waiters do not try one after the other")
    t.equal(t.proxy.stop(), 0, "exit code")


@test("a released status: those who wait get that answer from memory, the next arrival executes (S04 b)", "race asan")
def released_status_with_waiters(t):
    t.einmal()
    gate = threading.Event()
    t.api.on(Reply(429, [("Retry-After", "7"), ("X-Kind", "busy")], b"slow down", delay=gate), times=1)
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "the first request reaches the API")
    waiters = [t.start(key="k") for _ in range(19)]
    t.check(waiters[-1].waits(0.3), "waiters wait")
    gate.set()
    first = t.fresh(owner.read(), 429)
    for waiter in waiters:
        answer = waiter.read()
        t.replay(answer, first, "waiter")
        t.equal(answer.all("Retry-After"), ["7"], "the API's own Retry-After")
    t.effects(1, key="k", text="nobody who waited executes")
    t.fresh(t.ask(key="k"), 201, "the next attempt to arrive")
    t.effects(2, key="k")


@test("503 with Retry-After releases, without it is unknown; those who wait get it either way (S04 b)", "asan")
def status_503_with_waiters(t):
    t.einmal()
    for number, headers in enumerate(([("Retry-After", "3")], [])):
        key, gate = "k%d" % number, threading.Event()
        t.api.on(Reply(503, headers, b"down", delay=gate), key=key, times=1)
        owner = t.start(key=key)
        t.check(t.api.wait_count(1, key=key), "the first request reaches the API")
        waiters = [t.start(key=key) for _ in range(10)]
        t.check(waiters[-1].waits(0.3), "waiters wait")
        gate.set()
        first = t.fresh(owner.read(), 503)
        for waiter in waiters:
            t.replay(waiter.read(), first, "waiter")
        t.effects(1, key=key)
        again = t.ask(key=key)
        if headers:
            t.fresh(again, 201, "released: executes")
            t.effects(2, key=key)
        else:
            t.replay(again, first, "unknown with an answer")
            t.effects(1, key=key)


@test("one connection can wait for another while keys of its own run: many keys side by side", "race")
def many_keys_at_once(t):
    t.einmal(workers=4)
    t.api.reply(Reply(delay=0.05))
    clients = [t.client() for _ in range(60)]
    for round_number in range(5):
        for number, client in enumerate(clients):
            client.post(key="r%d-%d" % (round_number, number // 3))
        bodies = {}
        for number, client in enumerate(clients):
            answer = t.status(client.read(), 201)
            bodies.setdefault(number // 3, set()).add(answer.body)
        t.check(all(len(group) == 1 for group in bodies.values()), "one answer a key", bodies)
        for number in range(20):
            t.effects(1, key="r%d-%d" % (round_number, number))


@test("a half-closed waiter is answered, but never executes in the first one's place", "asan")
def half_closed_waiters_are_passed_over(t):
    t.ordinary = False
    tried, _ = slow_to_connect(t, connect_timeout="1500ms")
    owner = t.start(key="k")
    tried()
    waiters = [t.start(key="k").half_close() for _ in range(3)]
    t.problem(owner.read(), 502, "upstream-unreachable")
    for waiter in waiters:
        answer = waiter.read()
        t.problem(answer, 502, "upstream-unreachable", text="half-closed waiter")
        t.within(answer.took, 2.6, "answered with the owner, without a try of its own")
    t.equal(t.proxy.stop(), 0, "exit code")


@test("waiting ends, whatever the first answer's way: chunked, closing, streamed slowly", "asan")
def waiters_of_streamed_answers(t):
    t.einmal()
    replies = [Reply(200, [], [b"a" * 1000, 0.3, b"b" * 1000], framing="chunked"),
               Reply(200, [], [b"a" * 1000, 0.3, b"b" * 1000], framing="length"),
               Reply(200, [], [b"a" * 1000, 0.3, b"b" * 1000], framing="close"),
               Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", 0.3, b"abcd")]
    for number, reply in enumerate(replies):
        key = "k%d" % number
        t.api.on(reply, key=key, times=1)
        owner = t.start(key=key)
        t.check(t.api.wait_count(1, key=key), "reaches the API")
        waiters = [t.start(key=key) for _ in range(4)]
        first = t.fresh(owner.read(), 200)
        for waiter in waiters:
            t.replay(waiter.read(), first, "waiter of reply %d" % number)
        t.effects(1, key=key)
