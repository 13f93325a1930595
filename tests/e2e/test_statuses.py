"""What a status of the API means: first answer, repetition (contract §3 `statuses`, §4; case S14)."""
from lib.case import Reply, test

RELEASE = [307, 308, 401, 403, 407, 421, 425, 429]
UNKNOWN = [408, 500, 502, 503, 504]
COMPLETED = [200, 201, 202, 203, 204, 205, 206, 299, 300, 301, 302, 303, 304, 305, 400, 402, 404, 405, 406, 409, 410, 411,
             412, 413, 414, 415, 416, 417, 418, 422, 423, 424, 426, 428, 431, 451, 499, 501, 505, 507, 511, 599]


def run_status(t, status, meaning, headers=(), target="/orders"):
    key = "k-%d-%s-%d-%s" % (status, meaning, len(headers), target[-1])
    body = b"" if status in (204, 205, 304) else b"answer %d" % status
    t.api.on(Reply(status, [("X-Status", str(status))] + list(headers), body), key=key, times=1)
    first = t.fresh(t.ask(key=key, target=target), status, "first %d" % status)
    t.equal(first.body, body, "body of %d" % status)
    second = t.ask(key=key, target=target)
    if meaning == "release":
        t.fresh(second, 201, "%d releases: the next attempt executes" % status)
        t.effects(2, "%d" % status, key=key)
        t.replay(t.ask(key=key, target=target), second, "%d, then 201" % status)
        t.effects(2, "%d" % status, key=key)
        return
    t.replay(second, first, "%d is %s" % (status, meaning))
    t.equal(second.get("X-Status"), str(status), "%d: headers" % status)
    t.replay(t.ask(key=key, target=target), first, "%d again" % status)
    t.effects(1, "%d is %s" % (status, meaning), key=key)


@test("the default table, completed: replayed, one effect", "asan")
def default_completed(t):
    t.einmal()
    for status in COMPLETED:
        run_status(t, status, "completed")


@test("the default table, release: the next attempt executes, then that answer stays", "asan")
def default_release(t):
    t.einmal()
    for status in RELEASE:
        run_status(t, status, "release")


@test("the default table, unknown: the recorded answer is repeated, nothing executes again", "asan")
def default_unknown(t):
    t.einmal()
    for status in UNKNOWN:
        run_status(t, status, "unknown")
    states = {entry["status"]: entry["outcome"] for entry in t.proxy.access(len(UNKNOWN), outcome="unknown")}
    t.equal(sorted(states), UNKNOWN, "the log tells unknown for")


@test("409 and 503 with Retry-After release, without are what the table says", "asan")
def with_retry_after(t):
    t.einmal()
    run_status(t, 409, "release", [("Retry-After", "1")])
    run_status(t, 503, "release", [("Retry-After", "Wed, 21 Oct 2030 07:28:00 GMT")])
    run_status(t, 409, "completed")
    run_status(t, 503, "unknown")
    run_status(t, 500, "unknown", [("Retry-After", "1")])
    run_status(t, 404, "completed", [("Retry-After", "1")])


@test("configured lists: a status counts before its class, `other` for the rest", "asan")
def configured(t):
    t.einmal(routes=[
        {"name": "a", "match": {"path": "/orders/a"}, "upstream": "api",
         "statuses": {"completed": ["2xx", 404], "release": ["4xx", "5xx"], "unknown": [500], "other": "unknown"}},
        {"name": "b", "match": {"path": "/orders/b"}, "upstream": "api",
         "statuses": {"completed": ["2xx"], "release": [], "unknown": [], "other": "release"}},
        {"name": "c", "match": {"path": "/orders/c"}, "upstream": "api",
         "statuses": {"completed": [], "release": ["418+retry-after"], "unknown": ["3xx"], "other": "completed"}},
        {"name": "d", "match": {"path": "/orders/**"}, "upstream": "api"},
    ])
    table = {"/orders/a": {200: "completed", 404: "completed", 403: "release", 409: "release", 500: "unknown",
                           503: "release", 301: "unknown", 308: "unknown"},
             "/orders/b": {201: "completed", 301: "release", 404: "release", 500: "release", 503: "release"},
             "/orders/c": {301: "unknown", 307: "unknown", 401: "completed", 429: "completed", 503: "completed",
                           418: "completed"}}
    for target, statuses in table.items():
        for status, meaning in statuses.items():
            run_status(t, status, meaning, target=target)
    run_status(t, 418, "release", [("Retry-After", "1")], target="/orders/c")


@test("on_unknown: retry executes again after an unknown ending, and a completed answer then stays", "asan")
def retry_unknown(t):
    t.einmal(route={"on_unknown": "retry"})
    t.api.on(Reply(500, [], b"no"), key="k", times=1)
    t.fresh(t.ask(key="k"), 500)
    again = t.fresh(t.ask(key="k"), 201, "executes again")
    t.effects(2, key="k")
    t.replay(t.ask(key="k"), again)
    t.effects(2, key="k")
    # An unknown action is never released by a status; it stays unknown and is retried.
    t.api.on(Reply(429, [], b"busy"), key="k2", times=1)
    t.api.on(Reply(500, [], b"no"), key="k2", times=1)
    t.fresh(t.ask(key="k2"), 500)
    t.fresh(t.ask(key="k2"), 429)
    t.fresh(t.ask(key="k2"), 201)
    t.effects(3, key="k2")
    t.problem(t.ask(key="k2", body=b"other"), 422, "key-reused")
    # Nothing sent: the unknown record is put back as it was.
    t.api.on(Reply(500, [], b"no"), key="k3", times=1)
    t.fresh(t.ask(key="k3"), 500)
    t.api.stop()
    t.api.close_connections()
    t.problem(t.ask(key="k3"), 502, "upstream-unreachable")
    t.problem(t.ask(key="k3", body=b"other"), 422, "key-reused", text="the record is still there")
    t.api.start()
    t.fresh(t.ask(key="k3"), 201)
    t.effects(2, key="k3")
