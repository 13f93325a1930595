"""Browsers: preflights pass and reserve nothing; `cors` tells scripts what they may send and read (contract §3; case O11)."""
from lib.case import Reply, test

ORIGIN = "https://app.example"
ALLOWED = [("Access-Control-Allow-Origin", ORIGIN), ("Vary", "Origin"), ("Access-Control-Allow-Headers", "Content-Type")]
EXPOSED = "Idempotent-Replayed, Retry-After, X-Request-Id"


def preflight(t, origin=ORIGIN, method="POST", target="/orders"):
    return t.ask("OPTIONS", target=target, headers=[("Origin", origin), ("Access-Control-Request-Method", method),
                                                    ("Access-Control-Request-Headers", "idempotency-key, content-type")])


def from_browser(t, origin=ORIGIN, **what):
    return t.ask(headers=[("Origin", origin)] + what.pop("headers", []), **what)


@test("without cors nothing is added: preflights pass, replays carry the stored fields, own answers none", "asan")
def not_configured(t):
    t.einmal()
    t.api.on(Reply(204, ALLOWED), method="OPTIONS")
    answer = preflight(t)
    t.status(answer, 204)
    t.equal(answer.get("Access-Control-Allow-Headers"), "Content-Type", "the API's own words")
    for method in ("OPTIONS", "GET", "HEAD", "TRACE"):
        t.ask(method, key="k")
        t.ask(method, key="k")
    t.effects(9, "none of these is protected", path="/orders")
    t.api.reply(Reply(201, ALLOWED))
    first = t.fresh(from_browser(t, key="k"))
    again = from_browser(t, key="k")
    t.replay(again, first)
    for name, value in ALLOWED:
        t.equal(again.get(name), value, "stored " + name)
    t.equal(again.get("Access-Control-Expose-Headers"), None, "nothing is added")
    refused = from_browser(t, key="k", body=b"other")
    t.problem(refused, 422, "key-reused")
    t.equal(refused.get("Access-Control-Allow-Origin"), None, "nor to own answers")


@test("with cors: the key header joins preflight answers, the marker joins what may be read", "asan")
def configured(t):
    t.einmal(route={"cors": ["https://other.example", ORIGIN]})
    t.api.on(Reply(204, ALLOWED), method="OPTIONS")
    answer = preflight(t)
    t.equal(answer.all("Access-Control-Allow-Headers"), ["Content-Type, Idempotency-Key"], "preflight")
    t.equal(answer.get("Access-Control-Expose-Headers"), None, "a preflight has nothing to read")
    for wrong in (preflight(t, origin="https://evil.example"), preflight(t, method="DELETE"), preflight(t, target="/elsewhere")):
        t.equal(wrong.all("Access-Control-Allow-Headers"), ["Content-Type"], "not for others")
    t.equal(t.api.count(method="OPTIONS"), 4, "each reached the API")
    t.api.on(Reply(204, []), method="OPTIONS")
    t.equal(preflight(t).all("Access-Control-Allow-Headers"), ["Idempotency-Key"], "an API that says nothing")
    t.api.reply(Reply(201, ALLOWED[:2] + [("Access-Control-Expose-Headers", "ETag")]))
    first = t.fresh(from_browser(t, key="k"))
    again = from_browser(t, key="k")
    t.replay(again, first)
    for what in (first, again):
        t.equal(what.all("Access-Control-Expose-Headers"), ["ETag, " + EXPOSED], "what a script may read")
        t.equal(what.get("Access-Control-Allow-Origin"), ORIGIN, "the API's own word")
    plain = t.ask(key="k")
    t.equal(plain.all("Access-Control-Expose-Headers"), ["ETag"], "nothing joins what is no browser's, nor the record")


@test("with cors: einmal's own answers can be read by scripts of listed origins", "asan")
def own_answers(t):
    t.einmal(route={"cors": [ORIGIN], "required": True})
    t.fresh(from_browser(t, key="k"))
    rows = [(from_browser(t, key="k", body=b"other"), 422, "key-reused"), (from_browser(t), 400, "key-missing"),
            (from_browser(t, key_line=' "'), 400, "key-invalid"),
            (from_browser(t, key="k", auth="Bearer another"), 409, "identity-changed")]
    t.api.close_connections()
    t.api.stop()
    rows += [(from_browser(t, key="unsent"), 502, "upstream-unreachable"), (preflight(t), 502, "upstream-unreachable")]
    for answer, status, code in rows:
        t.problem(answer, status, code)
        t.equal(answer.all("Access-Control-Allow-Origin"), [ORIGIN], code)
        t.equal(answer.all("Vary"), ["Origin"], code)
        t.equal(answer.all("Access-Control-Allow-Credentials"), [], code + ": no cookies came")
    t.equal(rows[0][0].get("Access-Control-Expose-Headers"), EXPOSED, "what a script may read")
    t.equal(rows[5][0].get("Access-Control-Allow-Headers"), "Idempotency-Key", "a preflight of an API that is down")
    cookie = from_browser(t, headers=[("Cookie", "session=1")])
    t.equal(cookie.get("Access-Control-Allow-Credentials"), "true", "an answer to a request with cookies")
    for origin in ("https://evil.example", ORIGIN + ":444", "null", ORIGIN.upper()):
        answer = from_browser(t, origin=origin, key="k", body=b"other")
        t.equal(answer.all("Access-Control-Allow-Origin"), [], "not for %s" % origin)


@test("einmal's own answers carry the registered reason phrase", "asan")
def reason_phrases(t):
    t.einmal(route={"required": True, "max_request_body": "1KiB"}, limits={"request_target": "1KiB"})
    t.fresh(t.ask(key="k"))
    rows = [(t.ask(), b"Bad Request"), (t.ask(key="k", body=b"2"), b"Unprocessable Content"),
            (t.ask(key="k", auth="Bearer another"), b"Conflict"), (t.ask(key="l", body=b"x" * 2000), b"Content Too Large"),
            (t.ask("GET", target="/" + "x" * 2000), b"URI Too Long"), (t.ask(version="1.2"), b"HTTP Version Not Supported"),
            (t.ask("BREW"), b"Not Implemented"), (t.ask(headers=[("Expect", "tea")]), b"Expectation Failed")]
    for answer, reason in rows:
        t.equal(answer.reason, reason, "phrase of %d" % answer.status)
    t.api.on(Reply(200, reason=""), path="/silent")
    t.equal(t.ask("GET", target="/silent").reason, b"", "an API's own silence is passed on")
