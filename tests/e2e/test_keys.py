"""Keys: sent and derived, good and bad; scopes; fingerprints (contract §3, §4.2; cases S16, S19, S21, S22)."""
import threading

from lib.case import Reply, is_action_id, request_bytes, test

BAD = ["", " ", '""', '"   "', '"abc', 'abc"', '"a" "b"', '"a", "b"', "a, b", "a b", "a\tb", '"a\tb"', "a;b", "a\\b", '"a\\b"',
       "\x80abc", '"\xe9"', "x" * 256, '"%s"' % ("x" * 256), "x" * 4096, ":YWJj:;", '("a")', '"a";', '"a";P=1', '"a" x',
       "a,", ",a", '"a";p=', '"a";=1', '"abc" ;p']

SAME = [  # each row: forms of one key
    (["abc", '"abc"', '  abc  ', '\t"abc"', '"abc";p=1', '"abc";a;b="x";c=?1;d=:YQ==:;e=1.5'], "abc"),
    (['"a\\"b"'], 'a"b'),
    (['"a\\\\b"'], "a\\b"),
    (["?1", '"?1"'], "?1"),
    ([":YWJj:", '":YWJj:"'], ":YWJj:"),
    (["x" * 255, '"%s"' % ("x" * 255)], "x" * 255),
    (['"%s"' % ("\\\\" * 255)], "\\" * 255),
    (['"a b"'], "a b"),
    (['"a,b;c"'], "a,b;c"),
    (['" a"'], " a"),
    (["8e03978e-40d5-43dd-bc93-6894a57f9324", '"8e03978e-40d5-43dd-bc93-6894a57f9324"'], "uuid"),
]


@test("bad keys are 400 key-invalid, never treated as absent; the connection goes on (S22)", "asan")
def bad_keys(t):
    t.einmal()
    for value in BAD:
        client = t.client()
        answer = client.ask(key_line=" " + value)
        t.problem(answer, 400, "key-invalid", retry_after=False, text="key %r" % value)
        if not answer.closes:
            t.status(client.ask("GET", target="/free"), 200, "the connection goes on after %r" % value)
        client.close()
    for value in ("a\x7fb", '"a\x01b"', '"a\x00"'):
        t.status(t.ask(key_line=" " + value), 400, "control characters %r" % value)
    t.effects(0, method="POST")


@test("forms of one key are one key; case and every character count (S22)", "asan")
def same_keys(t):
    t.einmal()
    for forms, name in SAME:
        first = t.fresh(t.ask(key_line=" " + forms[0]), text="key %r" % name)
        for form in forms:
            t.replay(t.ask(key_line=" " + form), first, "form %r" % form)
    t.effects(len(SAME))
    for value in ("Abc", "abcd", '"abc "', "ABC", "uuid", "x" * 254):
        t.fresh(t.ask(key_line=" " + value), text="another key %r" % value)
    t.effects(len(SAME) + 6)


@test("two lines or a list of keys are 400, also with equal values (S21)", "asan")
def duplicate_key_lines(t):
    t.einmal()
    for second in ('"k1"', '"k2"', ""):
        answer = t.ask(key="k1", headers=[("IDEMPOTENCY-KEY", second)])
        t.problem(answer, 400, "key-invalid", text="second line %r" % second)
    t.problem(t.ask(key_line=' "k1", "k1"'), 400, "key-invalid")
    t.effects(0)
    t.equal(t.api.connections, 0, "nothing reached the API")
    t.fresh(t.ask(key="k1"))
    t.effects(1)


@test("a key that was sent goes on as it was; required: a missing one is 400, else the request passes", "asan")
def key_on_the_way(t):
    t.einmal(routes=[
        {"name": "must", "match": {"path": "/orders/must"}, "upstream": "api", "required": True},
        {"name": "may", "match": {"path": "/orders/**"}, "upstream": "api"},
    ])
    t.ask(key_line=' "k";p=1', target="/orders/a")
    t.equal(t.api.last().all("Idempotency-Key"), ['"k";p=1'], "unchanged")
    t.ask(key_line=" bare", target="/orders/a")
    t.equal(t.api.last().all("Idempotency-Key"), ["bare"], "unchanged")
    t.problem(t.ask(target="/orders/must"), 400, "key-missing", retry_after=False)
    t.effects(0, path="/orders/must")
    t.fresh(t.ask(target="/orders/must", key="k"))
    for _ in range(2):
        answer = t.status(t.ask(target="/orders/b"), 201)
        t.equal(answer.all("Idempotent-Replayed"), [], "unprotected")
    t.effects(2, path="/orders/b")
    # GET and others on a protected path pass, also with a key, and reserve nothing.
    for method in ("GET", "PUT", "DELETE", "OPTIONS"):
        for _ in range(2):
            t.check(t.ask(method, target="/orders/must", key="g").status in (200, 201), method)
    t.effects(2, path="/orders/must", key="g", method="PUT")


@test("another header as the key, alternatives in order", "asan")
def alternatives(t):
    t.einmal(route={"key": [{"header": "X-Order-Key"}, {"derive": ["json:/id"]}], "scope": []})
    first = t.fresh(t.ask(headers=[("X-Order-Key", '"o1"')], body=b'{"id":5}'))
    t.replay(t.ask(headers=[("X-Order-Key", "o1")], body=b'{"id":5}'), first)
    t.effects(1)
    second = t.fresh(t.ask(body=b'{"id":5}'), text="derived and sent keys never equal each other")
    t.replay(t.ask(body=b'{"id":5}'), second)
    t.problem(t.ask(headers=[("X-Order-Key", "")], body=b'{"id":5}'), 400, "key-invalid", text="empty is bad, not absent")
    t.problem(t.ask(headers=[("X-Order-Key", '"o')], body=b'{"id":5}'), 400, "key-invalid")
    t.effects(2)
    t.fresh(t.ask(body=b'{"other":5}'), text="no key: passes")
    t.fresh(t.ask(body=b'{"other":5}'), text="no key: passes")
    t.effects(4)


# component: (one request, the same action otherwise written, other actions)
DERIVED = {
    "header:X-Event": ({"headers": [("X-Event", "e1")]}, {"headers": [("x-event", "e1"), ("X-Other", "1")]},
                       [{"headers": [("X-Event", "e2")]}, {"headers": [("X-Event", "E1")]}]),
    "json:/data/id": ({"body": b'{"data":{"id":"e1"},"n":1}'}, {"body": b'{ "n":2, "data" : {"x":[1],"id":"\\u0065\\u0031"}}'},
                      [{"body": b'{"data":{"id":"e2"}}'}]),
    "json:/n": ({"body": b'{"n":1}'}, {"body": b'{"n": 1 ,"m":2}'},
                [{"body": b'{"n":"1"}'}, {"body": b'{"n":1.0}'}, {"body": b'{"n":true}'}, {"body": b'{"n":1e0}'}]),
    "json:/items/1/a~1b": ({"body": b'{"items":[0,{"a/b":7}]}'}, {"body": b'{"items":[5,{"a/b":7},6]}'},
                           [{"body": b'{"items":[0,{"a/b":8}]}'}]),
    "form:id": ({"kind": "application/x-www-form-urlencoded", "body": b"id=a+b&x=1"},
                {"kind": "application/x-www-form-urlencoded", "body": b"y=2&id=a%20b"},
                [{"kind": "application/x-www-form-urlencoded", "body": b"id=a%2Bb"}]),
    "query:id": ({"target": "/orders?id=a+b&z=1"}, {"target": "/orders?z=2&id=a%20b"}, [{"target": "/orders?id=ab"}]),
    "cookie:sid": ({"headers": [("Cookie", "a=1; sid=s1")]}, {"headers": [("Cookie", "sid=s1; b=2")]},
                   [{"headers": [("Cookie", "sid=s2")]}]),
    "path:order": ({"target": "/items/o1/x"}, {"target": "/items//o1/./x"}, [{"target": "/items/o2/x"}]),
    "query": ({"target": "/orders?a=1&b=2"}, {"target": "/orders?a=1&b=2"}, [{"target": "/orders?b=2&a=1"}]),
    "body": ({"body": b"abc"}, {"body": b"abc", "framing": "chunked"}, [{"body": b"abcd"}]),
}

NO_KEY = {  # these yield no key, and the request passes unprotected
    "header:X-Event": [{}, {"headers": [("X-Event", "")]}, {"headers": [("X-Event", "a"), ("X-Event", "a")]}],
    "json:/data/id": [{"body": b""}, {"body": b"{}"}, {"body": b'{"data":{"id":null}}'}, {"body": b'{"data":{"id":{}}}'},
                      {"body": b'{"data":{"id":[]}}'}, {"body": b'{"data":{"id":""}}'}, {"body": b'{"data":{"id":"a"}'},
                      {"body": b'{"data":{"id":1},"data":{"id":2}}'}, {"body": b'{"data":{"id":1,"\\u0069d":1}}'},
                      {"body": b'{"data":{"id":"\\ud800"}}'}, {"body": b'\xff{"data":{"id":1}}'},
                      {"body": b'{"data":{"id":"a"}}', "headers": [("Content-Encoding", "gzip")]}],
    "form:id": [{"body": b"id=a"}, {"kind": "application/x-www-form-urlencoded", "body": b"id=a&id=a"},
                {"kind": "application/x-www-form-urlencoded", "body": b"id="}],
    "query:id": [{"target": "/orders"}, {"target": "/orders?id="}, {"target": "/orders?id=1&id=1"}],
    "cookie:sid": [{}, {"headers": [("Cookie", "sid=")]}, {"headers": [("Cookie", "sid=1; sid=1")]}],
}


def derived_routes(component):
    """`path:` needs a pattern that has the name; the others live on a plain path."""
    path = "/items/{order}/x" if component == "path:order" else "/orders/**"
    return [{"name": "orders", "match": {"path": path}, "upstream": "api", "key": [{"derive": [component]}], "scope": []}]


@test("keys derived from each kind of component: equal where equal, different where different", "asan", seconds=90)
def derived_keys(t):
    t.ordinary = False
    for number, (component, (one, same, others)) in enumerate(DERIVED.items()):
        proxy = t.proxy = t.prepare("-%d" % number, routes=derived_routes(component)).start()
        before = t.api.count()
        first = t.fresh(t.ask(**one), text=component)
        keys = t.api.last().all("Idempotency-Key")
        t.check(len(keys) == 1 and is_action_id(keys[0].strip('"')) and keys[0][0] == '"',
                "the API gets the action's id as a quoted key (%s)" % component, keys)
        t.replay(t.ask(**same), first, "%s: the same otherwise written" % component)
        for other in others:
            t.fresh(t.ask(**other), text="%s: another: %r" % (component, other))
        for missing in NO_KEY.get(component, []):
            for _ in range(2):
                answer = t.status(t.ask(**missing), 201, "%s: no key: %r" % (component, missing))
                t.equal(answer.all("Idempotent-Replayed"), [], "%s: no key: %r" % (component, missing))
        t.equal(t.api.count() - before, 1 + len(others) + 2 * len(NO_KEY.get(component, [])), component + ": effects")
        t.equal(proxy.stop(), 0, "exit code")


@test("a key that was sent is replaced on a route that only derives; derive lists do not run together", "asan")
def derived_list(t):
    t.einmal(route={"key": [{"derive": ["header:X-A", "header:X-B", "literal:v1", "method", "host"]}], "scope": []})
    first = t.fresh(t.ask(key="sent", headers=[("X-A", "ab"), ("X-B", "c")]))
    t.check(is_action_id(t.api.last().get("Idempotency-Key").strip('"')), "replaced", t.api.last().headers)
    t.equal(len(t.api.last().all("Idempotency-Key")), 1, "one key")
    t.replay(t.ask(key="other", headers=[("X-A", "ab"), ("X-B", "c")]), first)
    t.fresh(t.ask(headers=[("X-A", "a"), ("X-B", "bc")]), text="length-prefixed")
    t.fresh(t.ask(headers=[("X-A", "abc")]), text="one missing: no key")
    t.fresh(t.ask(method="PATCH", headers=[("X-A", "ab"), ("X-B", "c")]), text="another method")
    t.fresh(t.ask(host="other.test", headers=[("X-A", "ab"), ("X-B", "c")]), text="another host")
    t.effects(5)
    line = t.proxy.access(6)[0]
    t.equal(line["action"], t.api.requests[0].get("Idempotency-Key").strip('"'), "the log names the same action")


@test("a derived key has no fingerprint by default: a changed body replays; with `required` a missing one is 400", "asan")
def derived_defaults(t):
    t.einmal(route={"key": [{"derive": ["json:/id"]}], "scope": [], "required": True, "max_request_body": "64KiB"})
    first = t.fresh(t.ask(body=b'{"id":1,"n":1}'))
    t.replay(t.ask(body=b'{"id":1,"n":2}'), first)
    t.problem(t.ask(body=b'{"n":2}'), 400, "key-missing")
    t.problem(t.ask(body=b'{"id":1,"n":"' + b"x" * 70000 + b'"}'), 413, "body-too-large")
    t.effects(1)
    t.ordinary = False  # a key must be derived here
    t.equal(t.proxy.stop(), 0, "exit code")


@test("identities: the same key and content from another one is 409 identity-changed, other content its own (S19)", "asan")
def other_identity(t):
    t.einmal()
    first = t.fresh(t.ask(key="k", auth="Bearer tok-alice"))
    for who in ({"auth": "Bearer tok-bob"}, {"auth": None}, {"auth": None, "headers": [("Cookie", "sid=c1")]},
                {"auth": "bearer tok-alice"}):
        body = t.problem(t.ask(key="k", **who), 409, "identity-changed", text="identity %r" % who)
        for member in ("action", "state", "original_status"):
            t.check(member not in body, "identity-changed tells nothing of the other's action", body)
    t.effects(1, key="k")
    own = t.fresh(t.ask(key="k", auth="Bearer tok-bob", body=b'{"b":1}'), text="other content is another action")
    t.replay(t.ask(key="k", auth="Bearer tok-bob", body=b'{"b":1}'), own)
    t.replay(t.ask(key="k", auth="Bearer tok-alice"), first)
    t.problem(t.ask(key="k", headers=[("Authorization", "Bearer tok-alice")]), 400, "bad-request", text="two Authorization lines")
    t.effects(2, key="k")
    t.equal(t.proxy.stop(), 0, "exit code")
    import os
    for name in os.listdir(t.proxy.store):
        with open(os.path.join(t.proxy.store, name), "rb") as file:
            content = file.read()
        t.check(b"tok-alice" not in content and b"tok-bob" not in content, "credentials are not in the store (%s)" % name)
    t.proxy.start()


@test("another identity while the first runs: 409 at once as well", "asan")
def other_identity_while_running(t):
    t.einmal()
    gate = threading.Event()
    t.api.reply(Reply(delay=gate))
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    answer = t.ask(key="k", auth="Bearer tok-bob")
    t.problem(answer, 409, "identity-changed")
    gate.set()
    t.fresh(owner.read())
    t.effects(1, key="k")


@test("on_other_identity: separate: one effect per identity (S19)", "asan")
def separate_identities(t):
    t.einmal(route={"on_other_identity": "separate"})
    who = [{"auth": "Bearer tok-alice"}, {"auth": "Bearer tok-bob"}, {"auth": None},
           {"auth": None, "headers": [("Cookie", "sid=c1")]}, {"auth": None, "headers": [("Cookie", "sid=c2")]}]
    firsts = [t.fresh(t.ask(key="k", **one)) for one in who]
    for one, first in zip(who, firsts):
        t.replay(t.ask(key="k", **one), first, "identity %r" % one)
    t.effects(5, key="k")
    # Several Cookie lines are joined with "; ".
    joined = t.fresh(t.ask(key="j", auth=None, headers=[("Cookie", "a=1"), ("Cookie", "b=2")]))
    t.replay(t.ask(key="j", auth=None, headers=[("Cookie", "a=1; b=2")]), joined)
    t.effects(1, key="j")


@test("a scope list: separate by default; absent differs from empty; several lines are 400", "asan")
def scope_list(t):
    t.einmal(route={"scope": ["header:X-User-Id"]})
    one = t.fresh(t.ask(key="k", headers=[("X-User-Id", "u1")]))
    t.fresh(t.ask(key="k", headers=[("X-User-Id", "u2")]))
    absent = t.fresh(t.ask(key="k"))
    empty = t.fresh(t.ask(key="k", headers=[("X-User-Id", "")]))
    t.effects(4, key="k")
    t.replay(t.ask(key="k", headers=[("X-User-Id", "u1")], auth="Bearer another"), one)
    t.replay(t.ask(key="k"), absent)
    t.replay(t.ask(key="k", headers=[("X-User-Id", "")]), empty)
    t.problem(t.ask(key="k", headers=[("X-User-Id", "u1"), ("X-User-Id", "u1")]), 400, "bad-request")
    t.effects(4, key="k")


@test("scope: [] takes no identity into account; a list with on_other_identity: reject", "asan")
def scope_variants(t):
    t.einmal(routes=[{"name": "none", "match": {"path": "/orders/none"}, "upstream": "api", "scope": []},
                     {"name": "list", "match": {"path": "/orders/**"}, "upstream": "api", "scope": ["header:X-User-Id"],
                      "on_other_identity": "reject"}])
    first = t.fresh(t.ask(key="k", target="/orders/none"))
    t.replay(t.ask(key="k", target="/orders/none", auth="Bearer tok-bob"), first)
    t.replay(t.ask(key="k", target="/orders/none", auth=None), first)
    t.fresh(t.ask(key="k", headers=[("X-User-Id", "u1")]))
    t.problem(t.ask(key="k", headers=[("X-User-Id", "u2")]), 409, "identity-changed")
    t.effects(2, key="k")


@test("routes are scopes of their own, unless scope_name says otherwise", "asan")
def scope_names(t):
    t.einmal(routes=[{"name": "a", "match": {"path": "/a"}, "upstream": "api"},
                     {"name": "b", "match": {"path": "/b"}, "upstream": "api"},
                     {"name": "c", "match": {"path": "/c"}, "upstream": "api", "scope_name": "a"},
                     {"name": "orders", "match": {"path": "/orders/**"}, "upstream": "api"}])
    t.fresh(t.ask(key="k", target="/a"))
    t.fresh(t.ask(key="k", target="/b"), text="another scope")
    t.problem(t.ask(key="k", target="/c"), 422, "key-reused", text="the same scope, another path")
    t.effects(2)


@test("fingerprint: json compares in canonical form, `ignore` leaves members out", "asan")
def fingerprint_json(t):
    t.einmal(route={"fingerprint": "json", "ignore": ["json:/sent_at", "json:/meta/try"]})
    first = t.fresh(t.ask(key="k", body=b'{"a":1,"b":[1,2,{"x":"\\u00e9"}],"sent_at":"10:00"}'))
    same = [b'{ "b" : [1,2,{"x":"\xc3\xa9"}], "a":1, "sent_at":"11:00"}', b'{"a":1,"b":[1,2,{"x":"\xc3\xa9"}]}',
            b'{"a":1,"b":[1,2,{"x":"\\u00E9"}],"sent_at":{"deep":[1]}}']
    for body in same:
        t.replay(t.ask(key="k", body=body), first, "the same: %r" % body)
    other = [b'{"a":1.0,"b":[1,2,{"x":"\xc3\xa9"}]}', b'{"a":"1","b":[1,2,{"x":"\xc3\xa9"}]}', b'{"a":1,"b":[2,1,{"x":"\xc3\xa9"}]}',
             b'{"a":1}', b'{"a":1,"b":[1,2,{"x":"\xc3\xa9"}],"c":null}', b'{"a":1,"a":1,"b":[1,2,{"x":"\xc3\xa9"}]}', b"no json"]
    for body in other:
        t.problem(t.ask(key="k", body=body), 422, "key-reused", text="other: %r" % body)
    t.problem(t.ask(key="k", body=same[0], target="/orders?x=1"), 422, "key-reused", text="query counts")
    # What cannot be canonicalised counts by its exact bytes.
    exact = t.fresh(t.ask(key="x", body=b"no json"))
    t.replay(t.ask(key="x", body=b"no json"), exact)
    t.problem(t.ask(key="x", body=b"no  json"), 422, "key-reused")
    t.effects(2)


@test("fingerprint lists add components, `none` nothing; method, host and path always count", "asan")
def fingerprint_variants(t):
    t.einmal(routes=[{"name": "list", "match": {"path": "/list/**"}, "upstream": "api", "fingerprint": ["json:/amount", "query"]},
                     {"name": "none", "match": {"path": "/none/**"}, "upstream": "api", "fingerprint": "none"},
                     {"name": "orders", "match": {"path": "/orders/**"}, "upstream": "api"}])
    first = t.fresh(t.ask(key="k", target="/list?q=1", body=b'{"amount":5,"note":"a"}'))
    t.replay(t.ask(key="k", target="/list?q=1", body=b'{"note":"b","amount":5}'), first)
    t.problem(t.ask(key="k", target="/list?q=1", body=b'{"amount":6,"note":"a"}'), 422, "key-reused")
    t.problem(t.ask(key="k", target="/list?q=2", body=b'{"amount":5,"note":"a"}'), 422, "key-reused")
    none = t.fresh(t.ask(key="k", target="/none/a?q=1"))
    t.replay(t.ask(key="k", target="/none/a?q=2", body=b"anything"), none)
    t.problem(t.ask(key="k", target="/none/b"), 422, "key-reused", text="the path counts")
    t.problem(t.ask(key="k", target="/none/a", method="PATCH"), 422, "key-reused", text="the method counts")
    t.problem(t.ask(key="k", target="/none/a", host="other.test"), 422, "key-reused", text="the host counts")
    t.replay(t.ask(key="k", target="//none/./%61", host="SHOP.test:80"), none, "normalised")
    t.effects(2)


@test("with fingerprint: none the content still tells another identity's repetition", "asan")
def content_with_fingerprint_none(t):
    t.einmal(route={"fingerprint": "none"})
    t.fresh(t.ask(key="k", body=b"one"))
    t.problem(t.ask(key="k", body=b"one", auth="Bearer tok-bob"), 409, "identity-changed")
    t.fresh(t.ask(key="k", body=b"two", auth="Bearer tok-bob"), text="other content of another identity")
    t.effects(2)


@test("on_mismatch: new makes changed content an action of its own", "asan")
def mismatch_new(t):
    t.einmal(route={"on_mismatch": "new"})
    one = t.fresh(t.ask(key="k", body=b"one"))
    two = t.fresh(t.ask(key="k", body=b"two"))
    t.replay(t.ask(key="k", body=b"one"), one)
    t.replay(t.ask(key="k", body=b"two"), two)
    t.effects(2, key="k")


@test("the key of a request with Connection: Idempotency-Key still counts (H12); trailers never do (H10)", "asan")
def key_is_protected(t):
    t.einmal()
    nominated = [("Connection", "close, X-Drop, Idempotency-Key, Authorization, Content-Length, Host"), ("X-Drop", "1")]
    first = t.fresh(t.ask(key="k", headers=nominated))
    request = t.api.last()
    t.equal((request.get("X-Drop"), request.get("Authorization"), request.key), (None, "Bearer tok-alice", "k"), "forwarded")
    t.replay(t.ask(key="k", headers=nominated), first)
    t.effects(1)
    head = request_bytes(key="k1", framing="chunked", body=b"abc")
    data = head[:-2] + b'Idempotency-Key: "evil"\r\nAuthorization: Bearer x\r\nX-T: 1\r\n\r\n'
    client = t.client()
    one = t.fresh(client.send(data).read())
    t.equal(t.api.last().key, "k1", "the key of the head")
    for name in ("X-T", "Trailer"):
        t.equal(t.api.last().get(name), None, "trailers are dropped")
    t.equal(t.api.last().all("Authorization"), ["Bearer tok-alice"], "not merged")
    t.replay(client.ask(key="k1", framing="chunked", body=b"abc"), one)
