"""explain: the dry run says what the running proxy does, to the last digit of the action's id, and shows no credential
(contract §2); check --print: the file it writes means the same."""
import json
import os
import subprocess

from lib import certs
from lib.case import test

FORM = "application/x-www-form-urlencoded"


def clean_environment(**environment):
    return dict({n: v for n, v in os.environ.items() if not n.startswith("EINMAL_")}, **environment)


def command(t, *arguments, stdin=None, env=None):
    return subprocess.run([t.options.binary] + [str(a) for a in arguments], capture_output=True, timeout=20 * t.slow,
                          input=stdin, env=clean_environment(**(env or {})))


def arguments_of(method="POST", target="/orders", key=None, body=None, headers=(), host="shop.test",
                 auth="Bearer tok-alice", key_line=None, kind="application/json", framing="length"):
    """What lib.client.request_bytes sends, as arguments of explain."""
    if body is None:
        body = b'{"a":1}' if method in ("POST", "PUT", "PATCH") else b""
    out = ["-X", method]
    fields = [("Host", host), ("Authorization", auth), ("Idempotency-Key", '"%s"' % key if key is not None else None)]
    if key_line is not None:
        fields.append(("Idempotency-Key", key_line.strip()))
    if body and kind:
        fields.append(("Content-Type", kind))
    if framing == "chunked":
        fields.append(("Transfer-Encoding", "chunked"))
    for name, value in fields + list(headers):
        if value is not None:
            out += ["-H", "%s: %s" % (name, value)]
    return out + ["-d", "@-", target], body


def explained(t, proxy, *extra, **what):
    arguments, body = arguments_of(**what)
    done = command(t, "explain", "-c", proxy.file, "--json", *extra, *arguments, stdin=body)
    t.equal((done.returncode, done.stderr), (0, b""), "explain %r" % (arguments,))
    text = done.stdout.decode()
    t.check("tok-alice" not in text, "no credential in the explanation", text)
    return json.loads(text)


# route settings (beside name and upstream): requests
RULES = {
    "default": ({}, [{"key": "k1"}, {"key": "k1", "body": b"other"}, {"key_line": " bare"}, {"key_line": ' "k1";p=1'},
                     {"key": "k1", "auth": None}, {"key": "k1", "auth": None, "headers": [("Cookie", "a=1"), ("Cookie", "b=2")]},
                     {"key": "k1", "headers": [("Cookie", "a=1")]}, {"key": "k1", "host": "SHOP.test:80"},
                     {"key": "k2", "framing": "chunked"}, {}, {"key": "k1", "method": "PATCH"}, {"key": "k1", "method": "PUT"},
                     {"key_line": ' "a'}, {"key_line": ""}, {"key": "k", "headers": [("Idempotency-Key", "k")]},
                     {"key": "k", "headers": [("Authorization", "x")]}]),
    "required": ({"required": True}, [{}, {"key": "k1"}]),
    "headers": ({"key": [{"derive": ["header:X-Event", "header:x-kind", "method", "host"]}]},
                [{"headers": [("X-Event", "e"), ("X-Kind", "1")]}, {"headers": [("X-Event", "e")]},
                 {"headers": [("x-event", "e"), ("x-kind", "1"), ("X-Kind", "2")]}, {"headers": [("X-Event", ""), ("X-Kind", "1")]}]),
    "json": ({"key": [{"header": "X-Key"}, {"derive": ["json:/m/id", "json:/n"]}, {"derive": ["json:/list/1"]}], "scope": []},
             [{"body": b'{"m":{"id":"\\u0061"},"n":1.0}'}, {"body": b'{"m":{"id":null},"n":1,"list":[0,true]}'},
              {"body": b'{"m":1,"m":2}'}, {"body": b"{"}, {"headers": [("X-Key", "k")], "body": b"{}"}, {"body": b'{"m":{"id":[]}}'},
              {"body": b'{"list":[0,"x"]}', "headers": [("Content-Encoding", "gzip")]}]),
    "form": ({"key": [{"derive": ["form:id", "query:q"]}]},
             [{"kind": FORM, "body": b"id=a+b&x=1", "target": "/form?q=%31"}, {"body": b"id=a", "target": "/form?q=1"},
              {"kind": FORM, "body": b"id=a&id=b", "target": "/form?q=1"}]),
    "path": ({"match": {"path": "/path/{order}/**"}, "key": [{"derive": ["path:order", "path", "query", "body"]}]},
             [{"target": "/path/%6f1/./x//y?a=b"}, {"target": "/path/o1"}, {"target": "http://other.test:8080/path/o1?x"},
              {"target": "/path"}]),
    "cookie": ({"scope": ["cookie:sid", "header:X-User"], "key": [{"derive": ["cookie:order", "literal:v1"]}], "task": "header:X-Task"},
               [{"headers": [("Cookie", "sid=s1; order=7"), ("X-User", "u"), ("X-Task", "t-1")]},
                {"headers": [("Cookie", "sid=s1; order=7; order=8")]}, {"headers": [("Cookie", "order=7"), ("X-User", "")]},
                {"headers": [("Cookie", "order=7"), ("X-User", "a"), ("X-User", "b")]}]),
    "canonical": ({"fingerprint": "json", "ignore": ["json:/sent_at"], "on_mismatch": "new"},
                  [{"key": "k", "body": b'{"b":1,"a":2,"sent_at":3}'}, {"key": "k", "body": b'{"a":2,"b":1}'},
                   {"key": "k", "body": b'{"a":3}'}, {"key": "k", "body": b"no json"}]),
    "listed": ({"fingerprint": ["header:X-A", "json:/a", "query:q"], "on_mismatch": "new", "scope_name": "shared"},
               [{"key": "k", "headers": [("X-A", "1")], "target": "/listed?q=1"}, {"key": "k", "target": "/listed?q=1&q=2"}]),
    "bound": ({"fingerprint": "body", "on_mismatch": "new"},
              [{"key": "k", "target": "/bound?q=1"}, {"key": "k", "body": b"other"}, {"key": "k", "kind": "text/plain"}]),
    "unbound": ({"fingerprint": "none", "scope": ["query:who"]}, [{"key": "k", "target": "/unbound?who=a"}, {"key": "k"}]),
    "small": ({"max_request_body": 10, "key": [{"header": "Idempotency-Key"}, {"derive": ["json:/a"]}]},
              [{"key": "k", "body": b"x" * 11}, {"key": "k", "body": b"x" * 10}, {"body": b"x" * 11}]),
    "chunked-small": ({"max_request_body": 10}, [{"key": "k", "body": b"x" * 11, "framing": "chunked"}]),
}


def check_one(t, number, got, what):
    """The access line of the request that was just sent, and its explanation."""
    line = t.proxy.access(number)[number - 1]
    text = "%r: %r, %r" % (what, got, line)
    t.equal(got.get("route") or "-", line["route"], "route of " + text)
    t.equal(got.get("action"), line["action"], "action of " + text)
    t.equal(got.get("task"), line["task"] or None, "task of " + text)
    wanted = {"missing": "refused", "invalid": "refused", "rejected": "refused", "passed": "passed"}
    t.equal(got["result"], wanted.get(line["outcome"], "protected"), "result of " + text)
    if got["answer"]:
        t.equal(got["answer"]["status"], line["status"], "status of " + text)


@test("explain gives the action's id, the route and the refusals of the running proxy, for every kind of rule", "asan", seconds=90)
def the_same_action(t):
    routes = [dict({"name": name, "match": {"path": "/%s/**" % name}, "upstream": "api"}, **settings)
              for name, (settings, _) in RULES.items()]
    t.einmal(routes=routes)
    number, actions = 0, set()
    for name, (_, requests) in RULES.items():
        for what in requests:
            what = dict({"target": "/" + name}, **what)
            answer = t.ask(**what)
            number += 1
            got = explained(t, t.proxy, **what)
            check_one(t, number, got, what)
            if got["answer"]:
                t.equal(json.loads(answer.body)["code"], got["answer"]["code"], "code of %r" % (what,))
                t.equal(json.loads(answer.body)["detail"], got["answer"]["detail"], "detail of %r" % (what,))
            actions.add(got.get("action"))
    t.check(len(actions) > 25, "many actions, not one again and again", sorted(map(str, actions)))


@test("explain of a caller with a client certificate: scope auto and tls: components", "asan")
def client_certificate(t):
    authority = certs.Authority(t.directory)
    pair = authority.issue("server", names="DNS:localhost,IP:%s" % t.address)
    t.tls = certs.client_context(authority.file, authority.issue("alice", "/O=Example, Inc/CN=alice"))
    t.tls_name = "localhost"
    routes = [{"name": "auto", "match": {"path": "/auto"}, "upstream": "api"},
              {"name": "tls", "match": {"path": "/tls"}, "upstream": "api", "scope": ["tls:subject", "tls:fingerprint"],
               "key": [{"derive": ["tls:subject", "body"]}]},
              {"name": "orders", "match": {"path": "/orders/**"}, "upstream": "api"}]
    t.einmal(routes=routes, tls={"certificate": pair[0], "key": pair[1], "client_ca": authority.file})
    for number, what in enumerate(({"target": "/auto", "key": "k", "auth": None}, {"target": "/tls"}), 1):
        t.status(t.ask(**what), 201)
        check_one(t, number, explained(t, t.proxy, "--cert", authority.path("alice.crt"), **what), what)
    t.check(explained(t, t.proxy, target="/tls")["result"] == "passed", "without one there is no key")


@test("explain tells why: routes, alternatives, components; hides credentials; sends nothing, opens no store", "asan")
def reasons(t):
    t.ordinary = False
    proxy = t.prepare(routes=[
        {"name": "host", "match": {"host": "other.test"}, "upstream": "api"},
        {"name": "path", "match": {"path": "/elsewhere"}, "upstream": "api"},
        {"name": "method", "match": {"methods": ["PUT"]}, "upstream": "api"},
        {"name": "it", "match": {"path": "/orders"}, "upstream": "api", "scope": ["header:X-Api-Key", "cookie:sid"],
         "key": [{"header": "X-Key"}, {"derive": ["json:/no"]}, {"derive": ["json:/id", "header:X-Auth-Token", "query"]},
                 {"derive": ["body"]}],
         "statuses": {"completed": [], "release": ["503+retry-after", 429], "unknown": ["5xx"], "other": "completed"}},
        {"name": "later", "upstream": "api"},
    ])
    what = {"target": "/orders?access_token=tok-alice", "body": b'{"id":"i1"}',
            "headers": [("X-Api-Key", "tok-alice"), ("X-Auth-Token", "tok-alice"), ("Cookie", "sid=tok-alice")]}
    got = explained(t, proxy, **what)
    t.equal([(r["name"], r["applies"], r["why"]) for r in got["routes"]],
            [("host", False, "host"), ("path", False, "path"), ("method", False, "method"), ("it", True, None),
             ("later", False, "earlier")], "routes")
    t.equal([a["verdict"] for a in got["alternatives"]], ["yields_none", "yields_none", "counts", "not_asked"], "alternatives")
    t.equal(got["alternatives"][1]["derive"][0]["why"], "is absent", "why not")
    counts = got["alternatives"][2]["derive"]
    t.equal([(c["component"], c["value"], c["hidden"]) for c in counts],
            [("json:/id", "i1", False), ("header:x-auth-token", None, True), ("query", None, True)], "components")
    t.equal([c["hidden"] for c in got["scope"]["components"]], [True, True], "credentials of the scope")
    t.equal(got["statuses"]["release"], {"statuses": ["429"], "with_retry_after": ["503"]}, "release")
    t.equal(got["statuses"]["unknown"], {"statuses": ["500-599"], "with_retry_after": []}, "unknown")
    arguments, body = arguments_of(**what)
    text = command(t, "explain", "-c", proxy.file, *arguments, stdin=body).stdout.decode()
    t.check("tok-alice" not in text, "no credential in the text", text)
    for words in (got["action"], got["fingerprint"]["value"], "it is for other.test", "it is for /elsewhere", "it is for PUT",
                  "an earlier route applies", "json:/no = -  is absent", 'json:/id = "i1"', "hidden: a credential",
                  "with Retry-After also 503", "protected"):
        t.check(words in text, "the text says %r" % words, text)
    t.equal(t.api.connections, 0, "nothing is sent")
    t.check(not os.path.exists(proxy.store), "no store is opened")


@test("explain of what no route is for: the upstream it passes to, or 404; of what cannot be parsed: the answer it gets")
def no_route(t):
    t.ordinary = False
    proxy = t.prepare(routes=[{"name": "a", "match": {"path": "/a"}, "upstream": "second"}],
                      upstreams={"second": {"url": "http://second.test"}}, default_upstream="api")
    rows = [({"target": "/free"}, "passed", "api", None), ({"target": "/a", "method": "GET"}, "passed", "second", None),
            ({"target": "/a", "key": "k"}, "protected", "second", None), ({"method": "FETCH"}, "refused", None, (501, "not-implemented")),
            ({"host": "a b"}, "refused", None, (400, "bad-request")), ({"target": "/" + "x" * 9000}, "refused", None, (414, "target-too-long")),
            ({"headers": [("Content-Length", "3"), ("Transfer-Encoding", "chunked")]}, "refused", None, (400, "bad-request")),
            ({"headers": [("Expect", "more"), ("Content-Length", "7")]}, "refused", None, (417, "expectation-failed"))]
    for what, result, upstream, answer in rows:
        got = explained(t, proxy, **what)
        t.equal(got["result"], result, "%r" % what)
        t.equal((got.get("upstream") or {}).get("name"), upstream, "upstream of %r" % what)
        t.equal(got["answer"] and (got["answer"]["status"], got["answer"]["code"]), answer, "answer to %r" % what)
    proxy.configure(routes=[{"name": "a", "match": {"path": "/a"}, "upstream": "second"}],
                    upstreams={"second": {"url": "http://second.test"}})
    t.equal(explained(t, proxy, target="/free")["answer"]["code"], "no-route", "404 without default_upstream")


@test("explain's arguments: defaults, files, whole URLs, without a configuration file, usage errors")
def explain_arguments(t):
    t.ordinary = False
    proxy = t.prepare(routes=[{"name": "all", "upstream": "api", "key": [{"derive": ["host", "body"]}]}])

    def action(*arguments, stdin=b""):
        done = command(t, "explain", "-c", proxy.file, "--json", *arguments, stdin=stdin)
        t.equal((done.returncode, done.stderr), (0, b""), "%r" % (arguments,))
        return json.loads(done.stdout)["action"]
    with open(t.path("body"), "wb") as out:
        out.write(b"a\0b\n")
    by_file = action("-d", "@" + t.path("body"), "/x")
    t.check(by_file, "POST by default")
    t.equal(action("-H", "Host: localhost", "-d", "@-", "/x", stdin=b"a\0b\n"), by_file, "standard input, and the default host")
    t.equal(action("-d", "@-", "http://LOCALHOST:80/x", stdin=b"a\0b\n"), by_file, "a whole URL")
    t.check(action("-d", "a", "/x") != by_file, "another body")
    without = command(t, "explain", "--upstream", "http://api.test", "--json", "-H", "Idempotency-Key: k", "/any")
    t.equal(json.loads(without.stdout)["route"], "default", "without a file")
    by_environment = command(t, "explain", "--json", "-H", "Idempotency-Key: k", "/any", env={"EINMAL_UPSTREAM": "http://api.test"})
    t.equal(by_environment.stdout, without.stdout, "EINMAL_UPSTREAM")
    for arguments in ([], ["/a", "/b"], ["-H", "no colon", "/a"], ["-H", "a: b\r\nc: d", "/a"], ["/a b"], ["-X", "A B", "/a"],
                      ["-d", "@/nonexistent", "/a"], ["--cert", "/nonexistent", "/a"], ["--bogus", "/a"]):
        done = command(t, "explain", "-c", proxy.file, *arguments)
        t.equal((done.returncode, done.stdout), (2, b""), "usage: %r" % arguments)
        t.check(done.stderr.startswith(b"einmal: "), "told: %r" % arguments, done.stderr)


@test("check --print: the file it writes means the same, and holds no secret", "asan")
def printed_configuration(t):
    secret = "hush-%d" % os.getpid()
    settings = {"key": [{"derive": ["literal:${PEPPER_SECRET}", "header:X-Event"]}], "scope": ["header:X-User"]}
    proxy = t.prepare(env={"PEPPER_SECRET": secret}, route=settings)
    done = command(t, "check", "-c", proxy.file, "--print", env=proxy.env)
    t.equal((done.returncode, done.stderr), (0, b""), "check --print")
    text = done.stdout.decode()
    t.check(secret not in text and "literal:${PEPPER_SECRET}" in text, "the secret stands as it was written", text)
    t.proxy = proxy.start()
    t.fd_level = proxy.fds()
    first = t.fresh(t.ask(headers=[("X-Event", "e"), ("X-User", "u")]))
    t.equal(proxy.stop(), 0, "stops")
    proxy.write(text)
    again = command(t, "check", "-c", proxy.file, "--print", env=proxy.env)
    t.equal(again.stdout.decode(), text, "written again it is the same")
    proxy.start()
    t.replay(t.ask(headers=[("X-Event", "e"), ("X-User", "u")]), first, "the written file names the same actions")
    t.effects(1)
