"""The side listeners (contract §8): what they show is true, what a person decides counts for the next retry, and nobody who may not can
ask for anything."""
import base64
import json
import os
import socket
import stat
import threading
import time

from lib.case import Closed, ProtocolError, Raw, Reply, Truncated, is_action_id, test
from lib.proxy import free_port
from test_fault import Disk

MEMBERS = ["id", "route", "scope_name", "task", "key", "key_source", "state", "status", "reason", "executions", "created", "since",
           "expires"]


class Side:
    """One of the two listeners."""

    def __init__(self, t, address):
        self.t, self.address = t, address
        self.host = "localhost" if isinstance(address, str) else "%s:%d" % address

    def client(self, **what):
        return self.t.client(address=self.address, **what)

    def ask(self, method, target, body=b"", headers=(), host=None, auth=None, kind="application/json"):
        client = self.client()
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        try:
            return client.ask(method, target=target, body=body, headers=headers, host=host or self.host, auth=auth, kind=kind)
        finally:
            client.close()

    def get(self, target, **what):
        """The JSON of a 200."""
        answer = self.t.status(self.ask("GET", target, **what), 200, target)
        self.t.equal(answer.get("Content-Type"), "application/json", target)
        self.t.equal(answer.get("Cache-Control"), "no-store", target)
        return json.loads(answer.body)

    def resolve(self, action, said):
        return self.ask("POST", "/v1/actions/%s/resolve" % action, said)

    def actions(self, query=""):
        return self.get("/v1/actions" + query)["actions"]


def side_address(t):
    return (t.address, free_port(t.address))


def started(t, **settings):
    """An einmal with both listeners."""
    t.health, t.admin = Side(t, side_address(t)), Side(t, side_address(t))
    admin = {"address": t.admin.host, **settings.pop("admin", {})}
    settings.setdefault("route", {"task": "header:X-Task-Id", "scope": []})
    t.einmal(health={"address": t.health.host}, admin=admin, **settings)
    return t.admin


def made_unknown(t, key, task="task"):
    """An action that the API did before it closed the connection. Its id."""
    t.api.on(Raw(end="close"), key=key, times=1)
    return t.problem(t.ask(key=key, headers=[("X-Task-Id", task)]), 502, "upstream-closed", action=True)["action"]


# ---- probes, status ----

@test("probes: the health listener knows three paths and asks nobody for a token", "asan race")
def probes(t):
    token = t.path("token")
    with open(token, "w") as out:
        out.write("secret\n")
    started(t, admin={"token_file": token})
    for side in (t.health, t.admin):
        t.equal(side.get("/healthz"), {"healthy": True}, "healthz")
        t.equal(side.get("/readyz"), {"ready": True}, "readyz")
        metrics = t.status(side.ask("GET", "/metrics", host="prometheus.svc"), 200)
        t.check(metrics.get("Content-Type").startswith("text/plain; version=0.0.4"), "type", metrics)
        t.check(b"einmal_build_info{" in metrics.body, "metrics", metrics)
        head = t.status(side.ask("HEAD", "/metrics"), 200)
        t.equal(head.body, b"", "HEAD has no body")
        for path in ("/healthz", "/readyz", "/metrics"):
            for method in ("POST", "PUT", "DELETE", "OPTIONS"):
                answer = side.ask(method, path)
                t.problem(answer, 405, "method-not-allowed")
                t.equal(answer.get("Allow"), "GET, HEAD", "Allow")
    for path in ("/", "/v1/actions", "/v1/status", "/v1/backup", "/healthz/", "/x"):
        t.problem(t.health.ask("GET", path), 404, "not-found", text=path)
    t.problem(t.health.ask("POST", "/v1/drain"), 404, "not-found")
    t.equal(t.health.get("/readyz"), {"ready": True}, "nobody has begun a drain")


@test("status counts what is there, and answers on one connection one after another", "asan")
def status(t):
    admin = started(t)
    t.fresh(t.ask(key="a"))
    made_unknown(t, "b")
    client = admin.client()
    for _ in range(3):
        answer = client.ask("GET", target="/v1/status", host=admin.host, auth=None)
        t.status(answer, 200)
    got = json.loads(answer.body)
    t.equal(sorted(got), sorted(["version", "draining", "uptime_seconds", "store", "actions", "waiters", "connections"]), "members")
    t.equal(got["actions"], {"in_progress": 0, "completed": 1, "unknown": 1}, "actions")
    t.equal((got["draining"], got["waiters"], got["store"]["durability"]), (False, 0, "strict"), "the rest")
    t.equal(got["store"]["max_bytes"], 64 << 20, "max_bytes")
    t.check(0 < got["store"]["used_bytes"] < 64 << 20, "used_bytes", got)
    page = t.status(admin.ask("GET", "/"), 200)
    t.check(page.body.startswith(b"<!doctype html>"), "the page", page)
    t.check("default-src 'none'" in page.get("Content-Security-Policy") and page.get("X-Frame-Options") == "DENY", "its policy", page)


@test("a full store is ready but degraded; commits that fail for 5 s are not", "asan", seconds=60)
def readiness(t):
    disk = Disk(t)
    started(t, store={"max_size": "1MiB"}, env=disk.env)
    t.equal(t.health.get("/readyz"), {"ready": True}, "before")
    t.api.default = Reply(200, body=b"x" * 20000)
    number = 0
    while t.ask(key="k%d" % number).status != 503:
        number += 1
        t.check(number < 200, "fills up")
    t.wait_until(lambda: t.health.get("/readyz") == {"ready": True, "degraded": ["store-full"]}, 5.0, "degraded")
    t.status(t.ask(key="k0"), 200, "replays go on")
    disk.fails("sync EIO")
    t.admin.ask("DELETE", "/v1/actions/%s" % t.admin.actions("?limit=1")[0]["id"])
    began = time.monotonic()
    t.wait_until(lambda: t.health.ask("GET", "/readyz").status == 503, 20.0, "not ready while commits fail")
    t.check(time.monotonic() - began > 2, "not at once: a hiccup is no reason to be taken out of service")
    reasons = json.loads(t.health.ask("GET", "/readyz").body)
    t.equal((reasons["ready"], reasons["reasons"]), (False, ["store-commits-fail"]), "reasons")
    t.equal(t.health.get("/healthz"), {"healthy": True}, "alive all the same")
    disk.works()
    t.wait_until(lambda: t.health.ask("GET", "/readyz").status == 200, 20.0, "ready again")
    t.ordinary = False
    t.equal(t.proxy.stop(), 0, "exit code")


# ---- actions, tasks ----

@test("actions are listed with all that is known of them, filtered, one by one", "asan race")
def listing(t):
    admin = started(t, routes=[
        {"name": "orders", "match": {"path": "/orders/**"}, "task": "header:X-Task-Id", "scope": []},
        {"name": "mails", "match": {"path": "/mails"}, "key": [{"derive": ["json:/a"]}], "scope": ["header:X-User"]}])
    t.api.default = Reply(201, [("Location", "/orders/7"), ("Set-Cookie", "a=b")], b'{"id":7}')
    t.ask(key="first", headers=[("X-Task-Id", "T 1")])
    t.ask(target="/mails", body=b'{"a":5}')
    unknown = made_unknown(t, "third", "T 1")
    one, two, three = admin.actions()
    for action in (one, two, three):
        t.equal(list(action), MEMBERS, "members")
        t.check(is_action_id(action["id"]), "id", action)
        for name in ("created", "since"):
            t.check(len(action[name]) == 24 and action[name].endswith("Z"), name, action)
    t.equal([one[name] for name in ("route", "scope_name", "task", "key", "key_source", "state", "status", "reason", "executions")],
            ["orders", "orders", "T 1", "first", "sent", "completed", 201, None, 1], "the first")
    t.equal([two[name] for name in ("route", "task", "key", "key_source")], ["mails", None, None, "derived"], "a derived key")
    t.equal([three[name] for name in ("id", "state", "status", "reason")], [unknown, "unknown", None, "closed"], "the unknown one")
    for query, ids in (("?state=unknown", [three]), ("?state=completed", [one, two]), ("?state=in_progress", []), ("?route=mails", [two]),
                       ("?task=T%201", [one, three]), ("?task=T+1&state=completed", [one]), ("?key=third", [three]), ("?route=x", [])):
        t.equal([action["id"] for action in admin.actions(query)], [action["id"] for action in ids], query)
    whole = admin.get("/v1/actions/" + one["id"])
    t.equal(list(whole), MEMBERS + ["response", "decision"], "members of one")
    t.equal((whole["response"]["status"], whole["response"]["body_bytes"], whole["decision"]), (201, 8, None), "its response")
    t.check(["Location", "/orders/7"] in whole["response"]["headers"], "headers", whole)
    t.check("Set-Cookie" not in json.dumps(whole), "what is dropped is not there", whole)
    t.equal(admin.get("/v1/actions/" + unknown)["response"], None, "nothing came")
    t.problem(admin.ask("GET", "/v1/actions/" + "0" * 64), 404, "no-action")
    for target in ("/v1/actions/x", "/v1/actions/" + one["id"].upper(), "/v1/actions/" + one["id"][:-1], "/v1/actions?limit=0",
                   "/v1/actions?limit=x", "/v1/actions?after=1", "/v1/actions?state=done", "/v1/actions?sate=unknown", "/v1/status?a=b",
                   "/v1/actions?task=%0", "/v1/tasks/%zz", "/v1/actions/%00"):
        t.problem(admin.ask("GET", target), 400, "bad-request", text=target)
    t.check("first" not in t.proxy.stderr(), "no key in the log", t.proxy.stderr())


@test("paging shows each action that stays exactly once while others come and go", "asan race")
def paging(t):
    admin = started(t)
    for number in range(40):
        t.ask(key="k%02d" % number)
    ids = {action["key"]: action["id"] for action in admin.actions()}
    t.equal(len(ids), 40, "all of them")
    seen, cursor, turn = [], "", 0
    while cursor is not None:
        page = admin.get("/v1/actions?limit=7" + cursor)
        t.check(len(page["actions"]) <= 7, "not more than asked for", page)
        seen += [action["key"] for action in page["actions"]]
        cursor = page["next"] and "&after=" + page["next"]
        t.ask(key="new-%d" % turn)
        gone = "k%02d" % (39 - turn)
        if gone not in seen:
            t.status(admin.ask("DELETE", "/v1/actions/" + ids[gone]), 200)
            del ids[gone]
        turn += 1
        t.check(turn < 30, "ends")
    t.equal(len(seen), len(set(seen)), "none twice")
    t.equal([key for key in sorted(ids) if key not in seen], [], "none left out")
    t.equal(admin.get("/v1/actions?limit=1000")["next"], None, "one page holds them")


@test("a task: its actions in order, and what may be done with each", "asan")
def tasks(t):
    admin = started(t)
    name, path = "order 7/ä", "/v1/tasks/order%207%2F%C3%A4"
    as_sent = name.encode().decode("latin-1")
    t.ask(key="reserve", headers=[("X-Task-Id", as_sent)])
    made_unknown(t, "charge", as_sent)
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="mail", times=1)
    waiting = t.start(key="mail", headers=[("X-Task-Id", as_sent)])
    t.check(t.api.wait_count(1, key="mail"), "reaches the API")
    task = admin.get(path)
    t.equal(task["task"], name, "its name")
    t.equal([(action["key"], action["state"], action["resume"]) for action in task["actions"]],
            [("reserve", "completed", "no"), ("charge", "unknown", "settle"), ("mail", "in_progress", "wait")], "its actions")
    gate.set()
    t.status(waiting.read(), 201)
    t.equal(admin.get("/v1/tasks/nobody"), {"task": "nobody", "actions": []}, "a task that nobody has begun")


# ---- decisions ----

@test("resolved as completed: the next retry gets exactly that answer, the API is not asked again", "asan race")
def resolve_completed(t):
    admin = started(t)
    body = bytes(range(256)) * 3
    action = made_unknown(t, "k-secret")
    t.problem(t.ask(key="k-secret"), 409, "outcome-unknown", action=True)
    said = {"as": "completed", "status": 202, "body_base64": base64.b64encode(body).decode(),
            "headers": [["Content-Type", "application/x-thing"], ["X-B", "1"], ["X-B", " 2 "], ["Set-Cookie", "session=1"]]}
    answer = t.status(admin.resolve(action, said), 200)
    got = json.loads(answer.body)
    t.equal((got["id"], got["state"], got["status"], got["key"]), (action, "completed", 202, "k-secret"), "the action as it is now")
    t.equal(got["response"], {"status": 202, "headers": [["Content-Type", "application/x-thing"], ["X-B", "1"], ["X-B", "2"]],
                              "body_bytes": 768}, "what is recorded")
    t.check(got["decision"].startswith("resolved as completed with status 202 by 127.") and got["decision"].endswith("Z"), "who and when", got)
    for _ in range(2):
        replay = t.ask(key="k-secret")
        t.equal((replay.status, replay.body, replay.all("X-B"), replay.replayed, replay.all("Set-Cookie")), (202, body, ["1", "2"], True, []),
                "the retry")
    t.effects(1, key="k-secret")
    conflict = t.problem(admin.resolve(action, said), 409, "wrong-state")
    t.equal((conflict["action"], conflict["state"]), (action, "completed"), "why not")
    t.proxy.restart()
    t.equal(t.ask(key="k-secret").body, body, "after a restart")
    t.equal(admin.get("/v1/actions/" + action)["decision"], got["decision"], "the decision stays")
    text = t.proxy.stderr()
    t.check("action %s resolved as completed with status 202 by 127." % action in text, "logged", text)
    t.check("k-secret" not in text and "session" not in text, "neither key nor response in the log", text)


@test("resolved as not executed: the next retry executes once", "asan race")
def resolve_not_executed(t):
    admin = started(t)
    action = made_unknown(t, "k")
    answer = t.status(admin.resolve(action, {"as": "not-executed"}), 200)
    t.equal(json.loads(answer.body), {"id": action, "state": "released"}, "the answer")
    t.problem(admin.ask("GET", "/v1/actions/" + action), 404, "no-action")
    t.problem(admin.resolve(action, {"as": "not-executed"}), 404, "no-action")
    first = t.fresh(t.ask(key="k"))
    t.replay(t.ask(key="k"), first)
    t.effects(2, key="k", text="once before, once after")
    t.check("action %s resolved as not executed by 127." % action in t.proxy.stderr(), "logged", t.proxy.stderr())


@test("what crashed can be settled by a person, too", "asan")
def resolve_after_crash(t):
    admin = started(t)
    t.api.on(Raw(end="hang"), key="k", times=1)
    t.start(key="k")
    t.check(t.api.wait_count(1, key="k"), "reaches the API")
    t.proxy.restart()
    action, = admin.actions("?state=unknown")
    t.equal((action["reason"], action["key"]), ("crash", "k"), "why")
    t.status(admin.resolve(action["id"], {"as": "completed", "status": 201, "body": "ok"}), 200)
    t.equal(t.ask(key="k").body, b"ok", "the retry")
    t.effects(1, key="k")


@test("what is not unknown cannot be resolved, what runs cannot be forgotten, and nothing changes", "asan race")
def wrong_states(t):
    admin = started(t)
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="runs", times=1)
    waiting = t.start(key="runs")
    t.check(t.api.wait_count(1, key="runs"), "reaches the API")
    running, = admin.actions("?state=in_progress")
    for answer in (admin.resolve(running["id"], {"as": "not-executed"}), admin.ask("DELETE", "/v1/actions/" + running["id"])):
        t.equal(t.problem(answer, 409, "wrong-state")["state"], "in_progress", "why not")
    gate.set()
    first = t.fresh(waiting.read())
    t.equal(t.problem(admin.resolve(running["id"], {"as": "completed", "status": 500}), 409, "wrong-state")["state"], "completed", "why not")
    t.replay(t.ask(key="runs"), first)
    for method, target in (("DELETE", "/v1/actions/" + "0" * 64), ("POST", "/v1/actions/%s/resolve" % ("0" * 64))):
        t.problem(admin.ask(method, target, {"as": "not-executed"}), 404, "no-action")
    t.problem(admin.ask("DELETE", "/v1/actions/zz"), 400, "bad-request")
    t.effects(1, key="runs")


@test("a bad resolution is refused with what to correct, and the action stays unknown", "asan")
def bad_resolutions(t):
    admin = started(t)
    action = made_unknown(t, "k")
    target = "/v1/actions/%s/resolve" % action
    done = {"as": "completed", "status": 200}
    for said, word in (({}, "as:"), ({"as": "maybe"}, "as:"), ({"as": "completed"}, "status"), ({**done, "status": 100}, "200 to 599"),
                       ({**done, "status": "200"}, "status"), ({**done, "x": 1}, "unknown member"), ({**done, "body": 5}, "body"),
                       ({**done, "body": "", "body_base64": ""}, "exclude"), ({**done, "body_base64": "?"}, "base64"),
                       ({**done, "headers": [["A b", "c"]]}, "headers[0]"), ({**done, "headers": [["A", "b\r\nC: d"]]}, "headers[0]"),
                       ({**done, "headers": [["Content-Length", "1"]]}, "Content-Length"), ([], "object")):
        t.check(word in t.problem(admin.ask("POST", target, said), 400, "bad-request", text=str(said))["detail"], word, said)
    for raw in (b"", b"{", b'{"as":"completed","as":"completed","status":200}', b"\xff\xfe", b'{"as":"not-executed"} x'):
        t.problem(admin.ask("POST", target, raw), 400 if raw else 415, "bad-request" if raw else "unsupported-media-type", text=repr(raw))
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", None):
        t.problem(admin.ask("POST", target, {"as": "not-executed"}, kind=kind), 415, "unsupported-media-type", text=str(kind))
    client = admin.client()
    client.send(b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n"
                % (target.encode(), admin.host.encode()))
    t.problem(client.read(), 413, "body-too-large", text="a body beyond the limit is refused before it is read")
    t.problem(t.ask(key="k"), 409, "outcome-unknown", action=True)
    large = "x" * (6 << 20)
    client = admin.client(timeout=30)
    answer = client.ask("POST", target=target, body=json.dumps({**done, "body": large}).encode(), host=admin.host, auth=None,
                        headers=[("Expect", "100-continue")], framing="chunked")
    t.status(answer, 200, "a large one, chunked")
    t.equal(len(answer.interim), 1, "100 Continue")
    t.equal(t.ask(key="k").body, large.encode(), "the retry")


@test("of two people who decide at once exactly one wins", "asan race")
def two_decide(t):
    admin = started(t)
    for number in range(t.rounds(8)):
        action = made_unknown(t, "k%d" % number)
        answers = []
        threads = [t.thread(lambda status=status: answers.append(admin.resolve(action, {"as": "completed", "status": status, "body": str(status)})))
                   for status in (200, 201, 202)]
        for thread in threads:
            thread.join(20)
        t.equal(sorted(answer.status for answer in answers), [200, 409, 409], "one wins")
        won = next(json.loads(answer.body)["status"] for answer in answers if answer.status == 200)
        t.equal(t.ask(key="k%d" % number).body, str(won).encode(), "and that is what counts")


@test("forgotten: a completed or unknown record is gone, and the next attempt executes", "asan race")
def forget(t):
    admin = started(t)
    t.fresh(t.ask(key="done"))
    unknown = made_unknown(t, "lost")
    for key, action in (("done", admin.actions("?key=done")[0]["id"]), ("lost", unknown)):
        answer = t.status(admin.ask("DELETE", "/v1/actions/" + action), 200)
        t.equal(json.loads(answer.body), {"id": action, "forgotten": True}, "the answer")
        t.problem(admin.ask("DELETE", "/v1/actions/" + action), 404, "no-action")
        t.fresh(t.ask(key=key))
        t.effects(2, key=key)
        t.check("action %s forgotten by 127." % action in t.proxy.stderr(), "logged", t.proxy.stderr())


# ---- who may ask ----

def basic(user, password):
    return "Basic " + base64.b64encode(("%s:%s" % (user, password)).encode()).decode()


@test("with a token all but the probes need it, as Bearer or password; a reload changes it", "asan")
def token(t):
    file = t.path("token")

    def write(text):
        with open(file + ".new", "w") as out:
            out.write(text)
        os.rename(file + ".new", file)
    write("first-token\n")
    admin = started(t, admin={"token_file": file})
    action = made_unknown(t, "k")
    for auth in (None, "Bearer wrong", "Bearer first-toke", "first-token", basic("alice", "wrong"), "Basic ???"):
        for method, target in (("GET", "/v1/actions"), ("GET", "/"), ("GET", "/v1/backup"), ("POST", "/v1/drain"), ("GET", "/nothing"),
                               ("DELETE", "/v1/actions/" + action), ("POST", "/v1/actions/%s/resolve" % action)):
            answer = admin.ask(method, target, auth=auth)
            t.problem(answer, 401, "unauthorized", text="%s %s" % (auth, target))
            t.equal([value.split(" ")[0] for value in answer.all("WWW-Authenticate")], ["Bearer", "Basic"], "how to ask")
    t.status(admin.ask("GET", "/healthz"), 200)
    for auth in ("Bearer first-token", "bearer first-token", basic("", "first-token"), basic("alice", "first-token")):
        t.status(admin.ask("GET", "/v1/actions", auth=auth), 200, auth)
    answer = admin.ask("POST", "/v1/actions/%s/resolve" % action, {"as": "completed", "status": 200}, auth=basic("alice", "first-token"))
    t.check(" by alice from 127." in json.loads(t.status(answer, 200).body)["decision"], "who", answer)
    write("second-token")
    t.proxy.signal(1)
    t.wait_until(lambda: admin.ask("GET", "/v1/actions", auth="Bearer second-token").status == 200, 5.0, "the new one")
    t.problem(admin.ask("GET", "/v1/actions", auth="Bearer first-token"), 401, "unauthorized")
    write("\n")
    t.proxy.signal(1)
    t.wait_until(lambda: "is empty" in t.proxy.stderr(), 5.0, "an empty file is told")
    t.status(admin.ask("GET", "/v1/actions", auth="Bearer second-token"), 200, "the old one stays in force")
    t.check("second-token" not in t.proxy.stderr(), "no token in the log")
    write("second-token")


@test("watch_config sees another token, too", "asan")
def token_watched(t):
    file = t.path("token")
    for word in ("first", "second"):
        with open(file + ".new", "w") as out:
            out.write(word)
        os.rename(file + ".new", file)
        if word == "first":
            admin = started(t, admin={"token_file": file}, watch_config=True)
        t.wait_until(lambda: admin.ask("GET", "/v1/actions", auth="Bearer " + word).status == 200, 10.0, word)
    t.problem(admin.ask("GET", "/v1/actions", auth="Bearer first"), 401, "unauthorized")


@test("pages of other sites change nothing, names of others are not ours", "asan")
def other_sites(t):
    admin = started(t)
    action = made_unknown(t, "k")
    target = "/v1/actions/%s/resolve" % action
    for headers in ([("Origin", "http://evil.example")], [("Origin", "null")], [("Sec-Fetch-Site", "cross-site")],
                    [("Sec-Fetch-Site", "same-site")], [("Origin", "http://%s" % admin.host), ("Sec-Fetch-Site", "cross-site")]):
        for method, path in (("POST", target), ("DELETE", "/v1/actions/" + action), ("POST", "/v1/drain")):
            t.problem(admin.ask(method, path, {"as": "not-executed"}, headers=headers), 403, "cross-origin", text=str(headers))
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80"):
        for method, path in (("GET", "/v1/actions"), ("GET", "/"), ("POST", target)):
            t.problem(admin.ask(method, path, host=host), 421, "host-not-allowed", text=host)
    for host in ("localhost", "10.0.0.1:9180", "[::1]"):
        t.status(admin.ask("GET", "/v1/actions", host=host), 200, host)
    t.equal(admin.get("/readyz"), {"ready": True}, "nothing drains")
    headers = [("Origin", "http://%s" % admin.host), ("Sec-Fetch-Site", "same-origin")]
    t.status(admin.ask("POST", target, {"as": "not-executed"}, headers=headers), 200, "our own page")


@test("a unix socket: its mode, who asked, and gone at the end", "asan")
def unix_socket(t):
    path = t.path("admin.sock")
    t.einmal(admin={"address": "unix:" + path, "mode": 600}, route={"scope": []})
    admin = Side(t, path)
    t.equal(stat.S_IMODE(os.stat(path).st_mode), 0o600, "mode")
    action = made_unknown(t, "k")
    t.equal(admin.actions()[0]["id"], action, "listed")
    got = json.loads(t.status(admin.resolve(action, {"as": "completed", "status": 200}), 200).body)
    t.check(" by uid %d at " % os.getuid() in got["decision"], "who", got)
    t.status(admin.ask("GET", "/v1/status", host="whatever"), 200)
    t.ordinary = False
    t.equal(t.proxy.stop(), 0, "exit code")
    t.check(not os.path.exists(path), "removed")


@test("what cannot work is an error at the start, with its place", "asan")
def wrong_settings(t):
    t.ordinary = False
    empty = t.path("empty")
    open(empty, "w").close()
    for number, (admin, code, words) in enumerate((
            ({"address": "0.0.0.0:9180"}, 2, "can be reached from other machines: set admin.token_file"),
            ({"address": "127.0.0.1:9180", "token_file": "/nowhere/token"}, 2, "/nowhere/token: cannot be read"),
            ({"address": "127.0.0.1:9180", "token_file": empty}, 2, "is empty"),
            ({"address": "%s:%d" % (t.api.address, t.api.port)}, 1, "in use"))):
        proxy = t.prepare("-%d" % number, admin=admin)
        proxy.spawn()
        t.equal(proxy.wait(), code, "exit code for %r" % admin)
        t.check(words in proxy.stderr(), words, proxy.stderr())
        if code == 2:
            t.check("einmal.yaml:" in proxy.stderr() and ": error: admin." in proxy.stderr(), "its place", proxy.stderr())
            proxy.spawn(["check", "-c", proxy.file])
            t.equal(proxy.wait(), 2, "check says the same")


@test("the admin listener by flag, by variable, and not at all", "asan")
def by_flag(t):
    admin = Side(t, side_address(t))
    proxy = t.proxy = t.prepare(env={"EINMAL_ADMIN": admin.host})
    proxy.start()
    t.equal(admin.get("/readyz"), {"ready": True}, "by the environment")
    t.equal(proxy.stop(), 0, "exit code")
    proxy.extra_arguments = ["--admin", "off"]
    proxy.start()
    try:
        admin.ask("GET", "/readyz")
        t.check(False, "nobody listens")
    except ConnectionRefusedError:
        pass
    t.fd_level = proxy.fds()


# ---- backup ----

@test("a backup taken while running is a store: another einmal replays from it", "asan race", seconds=60)
def backup(t):
    admin = started(t)
    answers = {key: t.fresh(t.ask(key=key)) for key in ("a", "b", "c")}
    unknown = made_unknown(t, "d")
    copy = t.status(admin.ask("GET", "/v1/backup"), 200)
    t.equal(copy.get("Content-Type"), "application/octet-stream", "type")
    later = t.fresh(t.ask(key="later"))
    t.equal(t.status(admin.ask("HEAD", "/v1/backup"), 405).get("Allow"), "GET", "no copy is made only to be thrown away")
    other = t.prepare("-restored", route={"task": "header:X-Task-Id", "scope": []})
    os.mkdir(other.store, 0o700)
    with open(os.path.join(other.store, "data.mdb"), "wb") as out:
        out.write(copy.body)
    other.start()
    client = t.client(address=other.address)
    for key, first in answers.items():
        t.replay(client.ask(key=key), first, key)
    t.equal(t.problem(client.ask(key="d"), 409, "outcome-unknown", action=True)["action"], unknown, "what was unknown is")
    t.equal([t.api.count(key=key) for key in ("a", "b", "c", "d")], [1, 1, 1, 1], "nothing executed again")
    t.fresh(client.ask(key="later"), text="a newer key is not in it")
    t.effects(2, key="later")
    t.replay(t.ask(key="later"), later)
    t.equal(other.stop(), 0, "exit code")
    t.equal([name for name in os.listdir(t.proxy.store) if "backup" in name], [], "nothing is left beside the store")


@test("one backup at a time; who reads it slowly, or leaves, holds up nobody", "asan", seconds=60)
def slow_backup(t):
    admin = started(t)
    t.api.default = Reply(200, body=os.urandom(4 << 20))
    for number in range(6):
        t.status(t.ask(key="k%d" % number), 200)
    slow = admin.client(receive_buffer=4096)
    slow.send(b"GET /v1/backup HTTP/1.1\r\nHost: %s\r\n\r\n" % admin.host.encode())
    t.wait_until(lambda: len(slow.sock.recv(1, socket.MSG_PEEK)) == 1, 10.0, "it begins")
    t.problem(admin.ask("GET", "/v1/backup"), 409, "backup-running", retry_after=True)
    t.status(t.ask(key="k0"), 200, "the proxy goes on")
    t.status(admin.ask("GET", "/v1/status"), 200, "so does the admin side")
    slow.close()
    t.wait_until(lambda: admin.ask("GET", "/v1/backup").status == 200, 10.0, "the next one can begin")
    half = admin.client(receive_buffer=4096)
    half.send(b"GET /v1/backup HTTP/1.1\r\nHost: %s\r\n\r\n" % admin.host.encode())
    t.wait_until(lambda: len(half.sock.recv(1, socket.MSG_PEEK)) == 1, 10.0, "another")
    t.ordinary = False
    began = time.monotonic()
    t.equal(t.proxy.stop(), 0, "a backup that nobody reads holds up no end")
    t.within(time.monotonic() - began, 4.0, "ends")
    try:
        half.read("GET")
        t.check(False, "a backup that is not whole looks so")
    except (Truncated, Closed, ConnectionResetError):
        pass


# ---- hard times ----

@test("while the disk hangs the listeners answer; a decision is refused in time and made when the disk is back", "asan", seconds=60)
def hanging_disk(t):
    disk = Disk(t)
    admin = started(t, env=disk.env, store={"timeout": "1s"})
    done, action = t.fresh(t.ask(key="done")), made_unknown(t, "k")
    disk.fails("sync HANG")
    t.problem(t.ask(key="new"), 503, "store-unavailable", retry_after=True)
    began = time.monotonic()
    t.equal(t.health.get("/healthz"), {"healthy": True}, "healthz")
    t.status(t.health.ask("GET", "/metrics"), 200)
    t.equal(admin.get("/v1/status")["draining"], False, "status")
    t.check(action in [listed["id"] for listed in admin.actions()], "reading goes on")
    t.within(time.monotonic() - began, 4.0, "at once")
    t.replay(t.ask(key="done"), done, "replays go on")
    answers = []
    threads = [t.thread(lambda: answers.append(admin.resolve(action, {"as": "completed", "status": 201, "body": "ok"}))) for _ in range(3)]
    for thread in threads:
        thread.join(20)
    for answer in answers:
        t.problem(answer, 503, "store-unavailable", retry_after=True)
    many = [t.thread(lambda: answers.append(admin.resolve(action, {"as": "not-executed"}))) for _ in range(40)]
    time.sleep(0.2)
    t.equal(t.admin.get("/healthz"), {"healthy": True}, "healthz among many who wait")
    for thread in many:
        thread.join(20)
    t.equal({json.loads(answer.body)["code"] for answer in answers}, {"store-unavailable", "overloaded"}, "not more wait than may")
    disk.works()
    t.wait_until(lambda: "resolved as" in t.proxy.stderr() and admin.ask("GET", "/v1/actions/" + action).status == 200, 15.0,
                 "the first decision is made")
    t.equal(admin.get("/v1/actions/" + action)["state"], "completed", "the first one, and only that")
    t.equal(t.ask(key="k").body, b"ok", "the retry")
    t.effects(1, key="k")


@test("silent, slow and endless peers make way for those who ask", "asan", seconds=60)
def slow_peers(t):
    admin = started(t)
    target = b"/v1/actions/%s/resolve" % (b"0" * 64)
    openings = [b"", b"G", b"GET /v1/status HTTP/1.1\r\nHost: x\r\nX: ", b"POST /v1/drain HTTP/1.1\r\n",
                b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n{" % target]
    before, kept = t.proxy.memory(), []
    for number in range(500):
        for side in (t.health, admin):
            sock = socket.create_connection(side.address, 5)
            kept.append(sock)
            sock.sendall(openings[number % len(openings)])
        if number % 100 == 99:
            t.equal(t.health.get("/healthz"), {"healthy": True}, "health")
            t.status(admin.ask("GET", "/v1/actions"), 200, "admin")
    t.check(t.proxy.fds() < t.fd_level + 150, "descriptors are bounded", t.proxy.fds(), t.fd_level)
    t.check(t.proxy.memory() - before < 16 << 10 or t.options.sanitizer, "so is memory", before, t.proxy.memory())
    t.status(t.ask(key="k"), 201, "the proxy goes on")
    for sock in kept:
        sock.close()


@test("bytes that are no request get 400 or an end, and nothing breaks", "asan")
def garbage(t):
    admin = started(t)
    for side in (t.health, admin):
        for raw in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00" * 100, b"GET / HTTP/9.9\r\n\r\n", b"GET /\r\n\r\n",
                    b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
                    b"POST /v1/drain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                    b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 200 + b"\r\n",
                    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 20000 + b"\r\n\r\n"):
            client = side.client().send(raw)
            try:
                client.half_close()
                answer = client.read("GET")
                t.check(answer.status in (400, 414, 431, 501, 505) and answer.closes, "refused", raw[:60], answer)
                t.equal(answer.get("Content-Type"), "application/problem+json", "as a problem")
            except (Closed, ProtocolError, OSError):
                pass
    t.equal(admin.get("/readyz"), {"ready": True}, "nothing drains")
    pipelined = admin.client().send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 3 + b"GET /v1/actions HTTP/1.1\r\nHost: localhost\r\n\r\n")
    t.equal([pipelined.read("GET").status for _ in range(4)], [200] * 4, "pipelined, in order")
    old = admin.client().send(b"GET /healthz HTTP/1.0\r\n\r\n")
    t.equal(old.read("GET").status, 200, "HTTP/1.0")
    old.expect_end()


# ---- drain ----

@test("a drain by order: not ready at once, answered when nothing runs any more, and the process stays", "asan race")
def drain(t):
    admin = started(t)
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="runs", times=1)
    waiting = t.start(key="runs")
    t.check(t.api.wait_count(1, key="runs"), "reaches the API")
    t.problem(admin.ask("POST", "/v1/drain?wait=x"), 400, "bad-request")
    t.equal(t.health.get("/readyz"), {"ready": True}, "not by a mistake")
    answer = json.loads(t.status(admin.ask("POST", "/v1/drain"), 200).body)
    t.equal(answer, {"draining": True, "idle": False}, "does not wait unless asked to")
    t.equal(json.loads(t.status(t.health.ask("GET", "/readyz"), 503).body), {"ready": False, "reasons": ["draining"]}, "readyz")
    t.equal(t.health.get("/healthz"), {"healthy": True}, "healthz")
    t.equal(json.loads(t.status(admin.ask("POST", "/v1/drain?wait=1"), 200).body)["idle"], False, "after a second")
    answers = []
    thread = t.thread(lambda: answers.append(admin.ask("POST", "/v1/drain?wait=30")))
    time.sleep(0.1)
    gate.set()
    t.status(waiting.read(), 201, "what runs is finished")
    waiting.close()
    thread.join(20)
    t.equal(json.loads(answers[0].body), {"draining": True, "idle": True}, "told when nothing runs")
    t.check(t.proxy.alive, "the process stays")
    t.equal(admin.get("/v1/status")["draining"], True, "and can be asked")
    t.equal(len(admin.actions()), 1, "also for what it knows")
    t.ordinary = False
    t.equal(t.proxy.stop(), 0, "SIGTERM ends it")


@test("a signal while somebody waits for a drain answers him first", "asan")
def drain_then_signal(t):
    admin = started(t)
    held = t.client()  # a connection that has not asked keeps the drain from being over at once
    answers = []
    thread = t.thread(lambda: answers.append(admin.ask("POST", "/v1/drain?wait=60")))
    t.wait_until(lambda: t.health.ask("GET", "/readyz").status == 503, 5.0, "draining")
    t.proxy.signal(15)
    thread.join(20)
    t.equal(json.loads(answers[0].body), {"draining": True, "idle": True}, "the answer")
    held.close()
    t.ordinary = False
    t.equal(t.proxy.wait(), 0, "exit code")
