"""Raw bytes on both sides: the 194 inputs at which parsers part ways, against the running proxy (contract §7; H01–H05, H08, H12, H22–H26).

The unit test judges the parser; here the same verdict must come out of the socket, and nothing else may come of it: the
API sees exactly the accepted requests, the client exactly the accepted response, and the next one is not touched.
"""
import threading
import time

from lib.case import Closed, Raw, Reply, Truncated, test
from lib.verdicts import rows

SAMPLE = 6  # every n-th row is cut at every offset


def quiet(client, data):
    try:
        client.send(data)
    except OSError:
        pass


def judge_request(t, row, client, seen, how):
    """Reads what comes back and compares it, and what the API saw, with the verdict."""
    what = "%s (%s)" % (row.name, how)
    for number, length in enumerate(row.bodies):
        answer = client.read("GET")
        t.check(answer.status in (200, 201), what + ": accepted", answer)
        request = t.api.requests[seen + number]
        t.equal(request.body_length, length, what + ": body at the API")
    if row.end.isdigit():
        answer = client.read()
        t.equal(answer.status, int(row.end), what + ": refused")
        t.check(answer.closes, what + ": and closed", answer)
    client.half_close()
    t.equal(client.expect_end(), b"", what + ": nothing more")
    t.equal(len(t.api.requests) - seen, len(row.bodies), what + ": requests at the API")
    t.equal(t.api.errors, [], what + ": well-formed at the API")


@test("each ambiguous request gets its verdict, whole and byte by byte; the API sees the accepted ones only", "asan", seconds=90)
def requests(t):
    t.einmal(log={"access": False})
    for row in rows("request"):
        for how in ("whole", "byte by byte"):
            client, seen = t.client(), len(t.api.requests)
            if how == "whole":
                quiet(client, row.bytes)
            else:
                for byte in row.bytes:
                    quiet(client, bytes([byte]))
            judge_request(t, row, client, seen, how)
            client.close()


@test("a sample of them, cut in two at every offset, gets the same verdict at each", "asan", seconds=120)
def request_cuts(t):
    t.einmal(log={"access": False})
    for row in rows("request")[::SAMPLE]:
        for cut in range(1, len(row.bytes), 1 if t.slow == 1 else 3):
            client, seen = t.client(), len(t.api.requests)
            quiet(client, row.bytes[:cut])
            time.sleep(0.0007)
            quiet(client, row.bytes[cut:])
            judge_request(t, row, client, seen, "cut at %d" % cut)
            client.close()


def final_status(row):
    """Status that the client must get: of the first final response; 0: none, so 502."""
    if not row.bodies:
        return 0
    rest = row.bytes
    while True:
        status = int(rest[9:12])
        if status >= 200 or status == 101:
            return 0 if status == 101 else status
        rest = rest.split(b"\r\n\r\n", 1)[1]


def judge_response(t, row, script, how):
    what = "%s (%s)" % (row.name, how)
    wanted = final_status(row)
    final = row.bodies[-1] if row.bodies else 0
    head = row.kind == "head-response"
    serving, sent = [], threading.Event()

    def all_sent(connection, _):
        with t.api.changed:
            sent.set()
            t.api.changed.notify_all()
    script.items = (lambda connection, _: serving.append(connection),) + script.items + (all_sent,)
    t.api.rules = []
    t.api.on(script, path="/raw", times=1)
    try:
        answer = t.raw_client.ask("HEAD" if head else "GET", target="/raw")
        if wanted:
            t.equal((answer.status, len(answer.body)), (wanted, final), what)
        elif head:
            t.status(answer, 502, what)
        else:
            t.problem(answer, 502, "upstream-invalid", text=what)
        ended = answer.closes
    except (Truncated, Closed):
        t.check(not wanted, what + ": a complete answer is passed on whole")
        ended = True
    if ended:
        t.raw_client = t.client()
    # What nobody asked for is on the idle connection by then, or that is closed; later it could be taken for an answer.
    t.check(not wanted or t.api.wait_for(lambda api: sent.is_set() or serving[0] not in api.open), what + ": the API has said it")
    number = t.api.executed_count
    again = t.raw_client.ask("GET", target="/next")
    t.equal((again.status, again.body), (200, b'{"id":%d}' % (number + 1)), what + ": the next answer is its own")


@test("each ambiguous response: passed on, or 502; what comes after it is nobody's answer", "asan", seconds=90)
def responses(t):
    t.einmal(log={"access": False})
    t.raw_client = t.client()
    for row in rows("response", "head-response"):
        judge_response(t, row, Raw(row.bytes, end="close"), "whole")
        judge_response(t, row, Raw(*[x for byte in row.bytes for x in (bytes([byte]), 0.0001)], end="close"), "byte by byte")
        if row.end not in ("close", "more") and row.words != ["ok", "refused"]:
            judge_response(t, row, Raw(row.bytes, end="keep"), "and kept open")


@test("a sample of them, cut in two at every offset", "asan", seconds=120)
def response_cuts(t):
    t.einmal(log={"access": False})
    t.raw_client = t.client()
    for row in rows("response", "head-response")[::SAMPLE]:
        for cut in range(1, len(row.bytes), 1 if t.slow == 1 else 3):
            judge_response(t, row, Raw(row.bytes[:cut], 0.001, row.bytes[cut:], end="close"), "cut at %d" % cut)


@test("the same responses to keyed requests: recorded once and replayed, or unknown and never executed again", "asan", seconds=90)
def keyed_responses(t):
    t.einmal(log={"access": False}, upstream={"keepalive": 0})  # the API closes each: a reused one could end in that moment
    for number, row in enumerate(rows("response")):
        t.api.rules = []
        key, wanted = "raw-%d" % number, final_status(row)
        t.api.on(Raw(row.bytes, end="close"), key=key)
        try:
            first = t.ask(key=key)
        except (Truncated, Closed):
            first = None
        again = t.ask(key=key)
        if wanted:
            t.status(first, wanted, row.name)
            t.equal(len(first.body), row.bodies[-1], row.name + ": body")
            t.replay(again, first, row.name)
        else:
            if first is not None:
                t.problem(first, 502, "upstream-invalid", text=row.name)
            t.problem(again, 409, "outcome-unknown", text=row.name)
        t.effects(1, row.name, key=key)


@test("fields that Connection names go, but never framing, Host, Authorization, the key; 1.0 and 1.1 (H12)", "asan")
def nominations(t):
    t.einmal()
    headers = [("Connection", "close, X-Drop, Idempotency-Key, Authorization, Content-Length, Host"), ("X-Drop", "1"),
               ("Connection", "keep-alive, X-Other"), ("X-Other", "2"), ("X-Stays", "3")]
    first = t.fresh(t.ask(key="k", headers=headers))
    request = t.api.last(key="k")
    t.equal([request.get(name) for name in ("X-Drop", "X-Other", "X-Stays", "Host", "Authorization", "Content-Length")],
            [None, None, "3", "shop.test", "Bearer tok-alice", "7"], "fields at the API")
    t.replay(t.ask(key="k", headers=headers), first)
    t.effects(1)
    t.api.on(Reply(201, [("Location", "/1"), ("X-Gone", "1"), ("Connection", "Location, X-Gone")], b"x"), key="l")
    answer = t.ask(key="l")
    t.equal((answer.get("X-Gone"), answer.get("Location")), (None, None), "fields of the answer")
    t.equal(t.ask(key="l").get("X-Gone"), None, "fields of the replay")


@test("an HTTP/1.0 API: ended by FIN, by a length, kept alive only where it says so", "asan")
def old_api(t):
    t.einmal()
    rows_ = [(b"HTTP/1.0 200 OK\r\n\r\nabc", "close", b"abc"), (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", "keep", b"abc"),
             (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nabc", "keep", b"abc")]
    for number, (data, end, body) in enumerate(rows_):
        t.api.on(Raw(data, end=end), path="/old/%d" % number)
        for attempt in range(2):
            client = t.client()
            answer = client.ask("GET", target="/old/%d" % number)
            t.equal((answer.status, answer.body), (200, body), "row %d, attempt %d" % (number, attempt))
            client.ask("GET", target="/x")
            used = t.api.last(path="/old/%d" % number).connection
            t.equal(t.api.last(path="/x").connection is used, number == 2, "row %d: the connection is reused" % number)
        answer = t.ask(key="o%d" % number)
        t.status(answer, 201)


@test("an early final answer whose request cannot be drained says Connection: close; one that can goes on (H18, H19)", "asan")
def early_answers(t):
    t.einmal()
    early = b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"
    t.api.on(Raw(early, end="close", before_body=True), path="/early")
    client = t.client()
    client.send(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
    answer = client.read()
    t.equal((answer.status, answer.body, answer.closes), (403, b"no", True), "a body that is held back for a 100 that will not come")
    t.equal(client.expect_end(), b"", "closed")
    client = t.client()
    client.send(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
    answer = client.read()
    t.equal((answer.status, answer.closes), (403, True), "more than is thrown away")
    client = t.client()
    client.send(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + b"x" * 50000)
    answer = client.read()
    t.equal((answer.status, answer.closes), (403, False), "as much as is thrown away")
    client.send(b"x" * 50000 + b"GET /after HTTP/1.1\r\nHost: a\r\n\r\n")
    t.status(client.read("GET"), 200, "the next one")


@test("1xx: passed to 1.1 clients of unkeyed requests, in order; not to others, never recorded, never endless (H23)", "asan")
def interim(t):
    t.einmal()
    data = (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n"
            b"HTTP/1.1 102 Processing\r\nContent-Length: 3\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nabc")
    for script in (Raw(data), Raw(*[x for byte in data for x in (bytes([byte]), 0.0002)])):
        t.api.reply(script)
        answer = t.ask(target="/free")
        t.equal([i.status for i in answer.interim], [103, 103, 102], "all of them, in order")
        t.equal([i.get("Link") for i in answer.interim], ["</a>", "</b>", None], "with their fields")
        t.equal(answer.interim[1].get("X-Hop"), None, "end-to-end ones only")
        t.equal((answer.status, answer.body), (201, b"abc"), "then the answer")
        t.equal(t.ask(target="/free", version="1.0").interim, [], "none to HTTP/1.0")
    first = t.fresh(t.ask(key="k"))
    t.equal((first.interim, first.body), ([], b"abc"), "none for a keyed request")
    t.replay(t.ask(key="k"), first)
    t.api.on(Raw(*[b"HTTP/1.1 103 E\r\n\r\n"] * 100, end="close"), path="/endless")
    t.problem(t.ask(target="/endless"), 502, "upstream-invalid")


@test("bodiless GET, HEAD, OPTIONS go out once more when a reused connection fails before an answer; nothing else does (H27)", "asan")
def resent(t):
    t.einmal(upstream={"keepalive_idle": "10s"})
    for method, target, wanted in (("GET", "/r", 200), ("HEAD", "/r", 200), ("OPTIONS", "/r", 200), ("POST", "/r", 502),
                                   ("DELETE", "/r", 502), ("PUT", "/r", 502)):
        client = t.client()
        t.status(client.ask("GET", target="/warm"), 200)
        before = t.api.count(path=target, method=method)
        t.api.on(Raw(end="close"), path=target, method=method, times=1)
        answer = client.ask(method, target=target)
        t.status(answer, wanted, "%s on a reused connection that is closed" % method)
        t.equal(t.api.count(path=target, method=method) - before, 2 if wanted == 200 else 1, "times at the API: " + method)
        client.close()
    client = t.client()
    t.status(client.ask("GET", target="/warm"), 200)
    t.api.on(Raw(b"HTTP/1.1 2", end="reset"), path="/r", times=1)
    t.problem(client.ask("GET", target="/r"), 502, "upstream-invalid", text="a byte of an answer came")


@test("OPTIONS of the whole server, absolute-form, and what the API gets of them", "asan")
def targets(t):
    t.einmal()
    for target, wanted, host in (("*", "*", "shop.test"), ("http://other.test", "*", "other.test"), ("http://other.test/", "/", "other.test"),
                                 ("HTTP://other.test:81/a?b", "/a?b", "other.test:81"), ("http://other.test?q", "/?q", "other.test")):
        t.status(t.ask("OPTIONS", target=target), 200, target)
        request = t.api.last()
        t.equal((request.target, request.all("Host")), (wanted, [host]), target)
    t.ask("GET", target="http://other.test")
    t.equal(t.api.last().target, "/", "an empty path of another method")
    t.status(t.ask("GET", target="/orders/a/../%2e/b"), 200)
    t.equal(t.api.last().target, "/orders/a/../%2e/b", "the target goes on as it came")
    t.status(t.ask("GET", host=None, version="1.0"), 200)
    t.equal(t.api.last().all("Host"), [t.api.url[7:]], "HTTP/1.0 without Host: the upstream's authority")


@test("connections over the limit are not accepted until one closes; nothing spins, nothing is lost", "asan")
def connection_limit(t):
    t.einmal(limits={"connections": 4}, timeouts={"idle": "30s"})
    held = [t.client() for _ in range(4)]
    for client in held:
        t.status(client.ask("GET", target="/x"), 200)
    late = t.client()
    late.send(b"GET /late HTTP/1.1\r\nHost: a\r\n\r\n")
    before = t.proxy.cpu_seconds()
    t.check(late.waits(1.0), "not served")
    t.check(t.proxy.cpu_seconds() - before < 0.3 * t.slow, "accepting pauses without spinning")
    held[0].close()
    t.status(late.read("GET"), 200, "served when one has closed")
