"""Every way an exchange with the API can end, and what the repetition sees (contract §4; cases S12, S13, H24, H26, H27)."""
import signal
import threading
import time

from lib.case import Closed, Failure, Raw, Reply, Truncated, test

HEAD = b"HTTP/1.1 201 Created\r\nX-From: api\r\n"
CODES = ("upstream-invalid", "upstream-closed")

# name: (script, does the client see the head)
BROKEN = {
    "close without a byte": (Raw(end="close"), False),
    "reset without a byte": (Raw(end="reset"), False),
    "half a status line": (Raw(b"HTTP/1.1 20", end="close"), False),
    "half a status line, reset": (Raw(b"HTTP/1.1 20", 0.05, end="reset"), False),
    "cut head": (Raw(HEAD + b"X-Cut: yes", end="close"), False),
    "head without its end": (Raw(HEAD, end="close"), False),
    "cut body": (Raw(HEAD + b"Content-Length: 100\r\n\r\n" + b"x" * 40, end="close"), True),
    "cut body, later": (Raw(HEAD + b"Content-Length: 100\r\n\r\n" + b"x" * 40, 0.2, b"y" * 10, end="close"), True),
    "body reset": (Raw(HEAD + b"Content-Length: 100\r\n\r\n" + b"x" * 40, 0.1, end="reset"), True),
    "no body at all": (Raw(HEAD + b"Content-Length: 100\r\n\r\n", end="close"), True),
    "chunked, cut at a boundary": (Raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", end="close"), True),
    "chunked, cut in a chunk": (Raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\nabc", 0.1, end="close"), True),
    "chunked, last CRLF missing": (Raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", end="close"), True),
    "chunked, bad size": (Raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n"), True),
    "until close, but reset": (Raw(HEAD + b"\r\nabc", 0.2, end="reset"), True),
    "only 100 then close": (Raw(b"HTTP/1.1 100 Continue\r\n\r\n", end="close"), False),
    "only 103 then close": (Raw(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", end="close"), False),
    "no HTTP at all": (Raw(b"220 mail.example ESMTP\r\n\r\n", end="close"), False),
    "two lengths": (Raw(HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"), False),
    "length and coding": (Raw(HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), False),
    "folded line": (Raw(HEAD + b"X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n"), False),
    "bare line feed": (Raw(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"), False),
    "HTTP/2.0": (Raw(b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"), False),
    "101 without being asked": (Raw(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nabc", end="close"),
                                False),
}


def read_broken(t, client, name, may_have_head):
    """The owner: a 502, or, where the head was already passed on, a detectably cut answer."""
    try:
        answer = client.read()
    except Truncated as cut:
        t.check(may_have_head, "%s: a cut answer only after a head" % name, cut)
        return
    except Closed:
        raise Failure("%s: the owner got no answer at all" % name)
    t.check(answer.status == 502, "%s: 502 to the owner" % name, answer)
    body_code = [code for code in CODES if ('"code":"%s"' % code).encode() in answer.body]
    t.check(body_code, "%s: code" % name, answer)
    t.problem(answer, 502, body_code[0], action=True, text=name)


@test("every broken ending: unknown, 502 or a cut answer, 409 outcome-unknown for the repetition, one effect (S12, H24)",
      "asan", seconds=60)
def broken_endings(t):
    t.einmal()
    for number, (name, (script, may_have_head)) in enumerate(BROKEN.items()):
        key = "k%d" % number
        t.api.on(script, key=key, times=1)
        read_broken(t, t.start(key=key), name, may_have_head)
        began = time.monotonic()
        body = t.problem(t.ask(key=key), 409, "outcome-unknown", action=True, text="repetition after: " + name)
        t.equal(body["state"], "unknown", name)
        t.within(time.monotonic() - began, 4.0, "the repetition is answered at once")
        t.effects(1, name, key=key)


@test("what those who wait get when the first one ends badly: the same 502, never an execution", "race asan")
def broken_endings_with_waiters(t):
    t.einmal()
    for number, name in enumerate(("close without a byte", "reset without a byte", "half a status line", "cut body",
                                   "chunked, cut in a chunk")):
        key, gate = "k%d" % number, threading.Event()
        script, may_have_head = BROKEN[name]
        t.api.on(Raw(gate, *script.items, end=script.end), key=key, times=1)
        owner = t.start(key=key)
        t.check(t.api.wait_count(1, key=key), "reaches the API")
        waiters = [t.start(key=key) for _ in range(5)]
        t.check(waiters[-1].waits(0.2), "waits")
        gate.set()
        read_broken(t, owner, name, may_have_head)
        for waiter in waiters:
            answer = waiter.read()
            t.status(answer, 502, "waiter after: " + name)
            t.check(not answer.replayed, "einmal's own answer is no replay", answer)
        t.effects(1, name, key=key)
        t.problem(t.ask(key=key), 409, "outcome-unknown")


@test("a body that the end of the connection ends is complete: recorded, replayed (H24 d)", "asan")
def close_delimited(t):
    t.einmal()
    for number, script in enumerate((Raw(HEAD + b"\r\nabc", end="close"), Raw(HEAD + b"\r\nab", 0.2, b"c", end="close"),
                                     Raw(b"HTTP/1.0 201 Created\r\nX-From: api\r\n\r\nabc", end="close"))):
        key = "k%d" % number
        t.api.on(script, key=key, times=1)
        first = t.fresh(t.ask(key=key))
        t.equal(first.body, b"abc", "body")
        again = t.ask(key=key)
        t.replay(again, first)
        t.equal(again.framing, "length", "a replay has a length")
        t.effects(1, key=key)


@test("response_timeout: 504; einmal listens on, those who wait and later attempts get the late answer", "race asan")
def late_response(t):
    t.einmal(upstream={"response_timeout": "400ms", "outcome_timeout": "20s"})
    gate = threading.Event()
    t.api.reply(Reply(delay=gate))
    owner = t.start(key="k")
    answer = owner.read()
    t.problem(answer, 504, "upstream-timeout", action=True)
    t.check(answer.took >= 0.35, "not before the timeout", answer.took)
    t.check(not answer.closes, "the owner's connection goes on", answer)
    t.effects(1, key="k")
    waiters = [t.start(key="k") for _ in range(3)] + [owner.post(key="k")]
    t.check(waiters[0].waits(0.7), "in progress: repetitions wait on")
    gate.set()
    answers = [waiter.read() for waiter in waiters]
    for answer in answers:
        t.status(answer, 201, "the late answer")
        t.check(answer.replayed, "marked", answer)
    t.replay(t.ask(key="k"), answers[0])
    t.effects(1, key="k")


@test("outcome_timeout: unknown; those who wait get 504, later ones 409 outcome-unknown (S12 a)", "race asan")
def outcome_timeout(t):
    t.einmal(upstream={"response_timeout": "300ms", "outcome_timeout": "700ms"})
    t.api.on(Raw(end="hang"), key="k", times=1)
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    waiter = t.start(key="k")
    t.problem(owner.read(), 504, "upstream-timeout", action=True)
    answer = waiter.read()
    t.problem(answer, 504, "upstream-timeout", action=True)
    t.check(answer.at - owner.started >= 0.95, "waits until the outcome is given up", answer.at - owner.started)
    body = t.problem(t.ask(key="k"), 409, "outcome-unknown", action=True)
    t.equal(body["state"], "unknown", "state")
    t.effects(1, key="k")
    t.equal(t.api.connections, 1, "no second connection of its own accord")


@test("a client that left: outcome_timeout runs from its leaving", "asan")
def outcome_timeout_without_client(t):
    t.einmal(upstream={"response_timeout": "30s", "outcome_timeout": "500ms"})
    t.api.on(Raw(end="hang"), key="k", times=1)
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    owner.reset()
    time.sleep(0.1)
    answer = t.ask(key="k")
    t.problem(answer, 504, "upstream-timeout")
    t.within(answer.took, 3.0, "given up")
    t.problem(t.ask(key="k"), 409, "outcome-unknown")
    t.effects(1, key="k")


@test("stall_timeout: an answer that stops in its body is cut; unknown", "asan")
def stall(t):
    t.einmal(upstream={"stall_timeout": "500ms"})
    t.api.on(Raw(HEAD + b"Content-Length: 100\r\n\r\n" + b"x" * 40, end="hang"), key="k", times=1)
    client = t.start(key="k")
    try:
        answer = client.read()
        t.check(answer.status in (502, 504), "cut", answer)
    except Truncated:
        pass
    t.problem(t.ask(key="k"), 409, "outcome-unknown")
    t.effects(1, key="k")
    # unkeyed: cut as well, detectably
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", end="hang"), path="/free", times=1)
    try:
        t.ask("GET", target="/free")
        raise Failure("a stalled answer is not passed as whole")
    except Truncated:
        pass


@test("send_timeout: an API that does not read is given up; unknown, 504", "asan")
def send_timeout(t):
    t.einmal(upstream={"send_timeout": "500ms"})
    t.api.on(Raw(30, before_body=True), key="k", times=1)
    answer = t.ask(key="k", body=b"x" * (12 << 20))
    t.problem(answer, 504, "upstream-timeout", action=True)
    t.problem(t.ask(key="k", body=b"x" * (12 << 20)), 409, "outcome-unknown")
    t.effects(0, key="k")
    t.api.close_connections()


@test("refused, unresolvable, no socket: 502, released at once, the next attempt executes (S13)", "asan")
def provably_unsent(t):
    t.einmal()
    t.api.stop()
    answer = t.ask(key="k")
    t.problem(answer, 502, "upstream-unreachable")
    t.within(answer.took, 4.0, "refused at once")
    t.problem(t.ask(key="k", body=b"other content"), 502, "upstream-unreachable", text="the key is free for any content")
    t.api.start()
    t.fresh(t.ask(key="k"))
    t.effects(1, key="k")


@test("a name that does not resolve: 502 within connect_timeout, the key is free", "asan")
def unresolvable(t):
    t.ordinary = False
    t.einmal(upstream={"url": "http://no-such-host.invalid:3000", "connect_timeout": "1s"})
    for _ in range(2):
        answer = t.ask(key="k")
        t.problem(answer, 502, "upstream-unreachable")
        t.within(answer.took, 4.0, "resolving ends")
    t.equal(t.proxy.stop(), 0, "exit code")


@test("an API that closes a reused connection after reading: never sent twice (H27 a, c)", "asan")
def closed_after_reading(t):
    t.einmal(workers=1, upstream={"keepalive_idle": "5s"})
    client = t.client()
    for number, script in enumerate((Raw(end="close"), Raw(end="reset"), Raw(b"H", 0.02, end="reset"))):
        t.status(client.ask(key="warm-%d" % number), 201)
        key = "k%d" % number
        t.api.on(script, key=key)
        t.status(client.ask(key=key), 502)
        t.problem(client.ask(key=key), 409, "outcome-unknown")
        t.effects(1, key=key)
    # unkeyed POST: not either
    t.status(client.ask(target="/free"), 201)
    t.api.on(Raw(end="close"), path="/once")
    t.status(client.ask(target="/once"), 502)
    t.effects(1, path="/once")


@test("an idle connection that the API closed is noticed before use; nothing is lost (H27 b)", "asan", seconds=60)
def closed_while_idle(t):
    t.einmal(workers=1, upstream={"keepalive_idle": "5s"})
    client = t.client()
    for number in range(t.rounds(100, 20)):
        t.status(client.ask(key="a%d" % number), 201)
        t.api.close_connections()
        t.status(client.ask(key="b%d" % number), 201, "after a close while idle")
        t.effects(1, key="b%d" % number)


@test("an idle connection that ends, or says something, in the very turn in which it would be used (H26, H27)", "asan")
def idle_end_in_the_same_turn(t):
    t.einmal(workers=1, upstream={"keepalive_idle": "20s"})
    client = t.client()
    for number in range(10):
        gate, said = threading.Event(), threading.Event()
        evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        t.api.on(Raw(b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ngood", gate, evil,
                     lambda connection, request: said.set()), path="/warm", times=1)
        t.equal(client.ask(target="/warm").body, b"good", "the connection is idle now")
        # Stopped, einmal finds both at once: first the request, then what the API did.
        t.proxy.stop_all_threads()
        client.post(target="/next")
        time.sleep(0.02)
        if number % 2:
            t.api.close_connections()
            gate.set()
        else:
            gate.set()
            t.check(said.wait(10), "the API said it")
        t.proxy.signal(signal.SIGCONT)
        answer = t.status(client.read(), 201, "round %d" % number)
        t.check(b"evil" not in answer.body, "never the left-over answer", answer)
    t.effects(10, path="/next")


@test("an unkeyed GET on a reused connection that fails is sent once more; a second failure is told", "asan")
def get_is_retried_once(t):
    t.einmal(workers=1, upstream={"keepalive_idle": "5s"})
    client = t.client()
    t.status(client.ask("GET", target="/free"), 200)
    t.api.on(Raw(end="close"), path="/again", times=1)
    t.status(client.ask("GET", target="/again"), 200, "sent once more")
    t.effects(2, path="/again")
    t.api.on(Raw(end="close"), path="/never")
    t.status(client.ask("GET", target="/never"), 502)
    t.check(t.api.count(path="/never") <= 2, "at most twice", t.api.count(path="/never"))


@test("bytes left on a pooled connection never answer the next request (H26)", "asan", seconds=60)
def stray_bytes(t):
    t.einmal(workers=1, upstream={"keepalive_idle": "5s"})
    client = t.client()
    evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    good = b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ngood"
    said = threading.Event()

    def say(connection, request):
        connection.send(evil)
        said.set()
    scripts = [Raw(good + evil), Raw(good, 0.02, say), Raw(good + b"\r\n"), Raw(good, say, end="close"),
               Raw(good + b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n", end="close")]
    for number in range(t.rounds(100, 25)):
        key = "k%d" % number
        t.api.on(scripts[number % len(scripts)], key=key, times=1)
        first = t.status(client.ask(key=key), 201)
        t.equal(first.body, b"good", "first")
        # What comes after the next request was written cannot be told from its answer; what comes before must be.
        if number % len(scripts) in (1, 3):
            t.check(said.wait(10), "the API said it")
            said.clear()
            time.sleep(0.002)
        other = client.ask(key="other-%d" % number)
        t.status(other, 201, "the next user")
        t.check(b"evil" not in other.body, "never the left-over answer", other)
        t.replay(client.ask(key="other-%d" % number), other)
        t.effects(1, key="other-%d" % number)


@test("a stale 408 that the API sends while idle is no answer to the next request (H26 c)", "asan")
def stale_408(t):
    t.einmal(workers=1, upstream={"keepalive_idle": "5s"})
    client = t.client()
    said = threading.Event()

    def say(connection, request):
        connection.send(b"HTTP/1.1 408 T\r\nContent-Length: 0\r\n\r\n")
        said.set()
    late = Raw(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok", 0.05, say, end="close")
    for number in range(10):
        t.api.on(late, key="k%d" % number, times=1)
        t.status(client.ask(key="k%d" % number), 201)
        t.check(said.wait(10), "the API said it")
        said.clear()
        time.sleep(0.002)
        t.status(client.ask(key="other%d" % number), 201)


@test("interim answers: swallowed for keyed ones, passed to 1.1 clients of unkeyed ones, never recorded (H23)", "asan")
def interim_answers(t):
    t.einmal()
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
    final = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"
    together = Raw(hints + hints + b"HTTP/1.1 100 Continue\r\n\r\n" + final)
    slowly = Raw(*[piece for byte in hints + hints + final for piece in (bytes([byte]), 0.001)])
    for number, script in enumerate((together, slowly)):
        key = "k%d" % number
        t.api.on(script, key=key, times=1)
        first = t.fresh(t.ask(key=key))
        t.equal([i.status for i in first.interim], [], "swallowed for a keyed request")
        t.equal(first.get("Link"), None, "not merged")
        t.replay(t.ask(key=key), first)
        t.effects(1, key=key)
        t.api.on(script, path="/free%d" % number)
        passed = t.ask(target="/free%d" % number)
        t.status(passed, 201)
        t.equal([i.status for i in passed.interim if i.status == 103], [103, 103], "passed on to an unkeyed client")
        old = t.ask(target="/free%d" % number, version="1.0")
        t.equal([i.status for i in old.interim], [], "none to a 1.0 client")


@test("more than limits of a head from the API: 502, keyed unknown")
def head_limits(t):
    t.einmal(limits={"header_bytes": "4KiB", "headers": 20})
    big = Raw(HEAD + b"X-Big: " + b"x" * 5000 + b"\r\nContent-Length: 0\r\n\r\n")
    many = Raw(HEAD + b"".join(b"X-%d: y\r\n" % n for n in range(30)) + b"Content-Length: 0\r\n\r\n")
    endless = Raw(*[b"HTTP/1.1 103 E\r\nLink: <%d>\r\n\r\n" % n + b"" for n in range(2000)], end="close")
    for number, script in enumerate((big, many, endless)):
        key = "k%d" % number
        t.api.on(script, key=key, times=1)
        t.status(t.ask(key=key), 502)
        t.problem(t.ask(key=key), 409, "outcome-unknown")
        t.effects(1, key=key)


@test("an early answer of the API to a keyed request is its answer (H18)", "asan")
def early_answer(t):
    t.einmal()
    early = Raw(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig", 0.3, end="close",
                before_body=True)
    for number in range(10):
        t.api.on(early, key="k%d" % number, times=1)
        answer = t.ask(key="k%d" % number, body=b"x" * (4 << 20))
        # Either the API's own answer, or, where a reset destroyed it, an unknown ending; never anything invented.
        t.check(answer.status in (413, 502), "the API's answer", answer)
    t.effects(0)
