"""The commands that talk to a running einmal: what they print, what they decide, what they say when it fails
(contract §2). The admin interface itself: test_admin.py."""
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import threading
import time

from lib.case import Raw, Reply, Skip, test
from lib.proxy import free_port

TOKEN = "s3cret-%d" % os.getpid()


def latin(text):
    """Bytes of UTF-8 as lib.client writes header values."""
    return text.encode().decode("latin-1")


def start(t, token=False, address=None, health=False, **settings):
    """An einmal with an admin interface."""
    t.admin = address or "%s:%d" % (t.address, free_port(t.address))
    admin = {"address": t.admin}
    if token or not (address or "").startswith("unix:"):
        with open(t.path("token"), "w") as out:
            out.write(TOKEN + "\n")
        admin["token_file"] = t.path("token")
    if health:
        t.health = "%s:%d" % (t.address, free_port(t.address))
        settings["health"] = {"address": t.health}
    settings.setdefault("route", {"task": "header:X-Task"})
    t.einmal(admin=admin, **settings)
    t.wait_until(lambda: run(t, "health").returncode == 0, text="the admin interface answers")
    t.fd_level = t.proxy.fds()


def run(t, *arguments, file=None, env=None, stdin=b"", timeout=30):
    """A command, by default with -c of the running einmal."""
    environment = {n: v for n, v in os.environ.items() if not n.startswith("EINMAL_")}
    environment.update(env or {})
    where = ["-c", file or t.proxies[-1].file] if file != "" else []
    return subprocess.run([t.options.binary] + list(arguments) + where, capture_output=True, input=stdin,
                          timeout=timeout * t.slow, env=environment)


def fine(t, *arguments, **what):
    done = run(t, *arguments, **what)
    t.equal((done.returncode, done.stderr), (0, b""), "%r" % (arguments,))
    return done.stdout.decode()


def refused(t, words, *arguments, code=1, **what):
    done = run(t, *arguments, **what)
    t.equal((done.returncode, done.stdout), (code, b""), "%r says %r" % (arguments, done.stderr))
    text = done.stderr.decode()
    t.check(text.startswith("einmal: ") and text.endswith("\n"), "an error of the command", text)
    for word in words if isinstance(words, (list, tuple)) else [words]:
        t.check(word in text, "the error names %r" % word, text)
    return text


def listed(t, *arguments):
    return json.loads(fine(t, "actions", "list", "--json", *arguments))["actions"]


def unknown_action(t, key, task="t-1", status=500):
    """An action whose ending nobody knows; its id."""
    t.api.on(Reply(status=status), key=key)
    t.status(t.ask(key=key, headers=[("X-Task", task)]), status)
    (action,) = listed(t, "--key", key)
    t.equal((action["state"], action["key"], action["task"]), ("unknown", key, task), "as recorded")
    return action["id"]


# ---- actions, tasks ----


@test("actions list: a table for people, with filters, and the exact JSON for scripts", "asan")
def lists(t):
    start(t)
    for number in range(3):
        t.status(t.ask(key="k%d" % number, headers=[("X-Task", latin("order 7/ä"))]), 201)
    unknown = unknown_action(t, "u1")
    rows = fine(t, "actions", "list").splitlines()
    t.equal(rows[0].split(), ["ID", "STATE", "AGE", "ROUTE", "STATUS", "RUNS", "REASON", "TASK", "KEY"], "titles")
    t.equal(len(rows), 5, "a line for each action")
    t.check(re.match(r"[0-9a-f]{12}  completed  \d+s +orders  201 +1 +-  +order 7/ä +k0$", rows[1]), "a row", rows)
    t.check(rows[4].startswith(unknown[:12] + "  unknown ") and " status " in rows[4], "the unknown one", rows)
    columns = {row.index("orders") for row in rows[1:]}
    t.equal(columns, {rows[0].index("ROUTE")}, "aligned")
    for arguments, keys in ((["--state", "unknown"], ["u1"]), (["--state=completed"], ["k0", "k1", "k2"]), (["--key", "k1"], ["k1"]),
                            (["--task", "order 7/ä", "--limit", "2"], ["k0", "k1"]), (["--route", "orders", "--task", "t-1"], ["u1"]),
                            (["--route", "other"], [])):
        t.equal([a["key"] for a in listed(t, *arguments)], keys, "%r" % arguments)
    page = json.loads(fine(t, "actions", "list", "--json", "--limit", "2"))
    t.equal((sorted(page), len(page["actions"]), type(page["next"])), (["actions", "next"], 2, str), "a limit leaves a cursor")
    done = run(t, "actions", "list", "--key", "none")
    t.equal((done.returncode, done.stdout, done.stderr), (0, b"", b"einmal: no such action is recorded\n"), "nothing")


@test("a list goes on over pages, and is quiet when its reader leaves")
def many_pages(t):
    start(t)
    client = t.client()
    for number in range(230):
        t.status(client.ask(key="n%d" % number), 201)
    t.equal([a["key"] for a in listed(t)], ["n%d" % n for n in range(230)], "all, in order")
    t.equal(len(listed(t, "--limit", "150")), 150, "a limit over two pages")
    t.equal(len(fine(t, "actions", "list").splitlines()), 231, "the table, titles once")
    command = "%s actions list -c %s | head -n 2" % (t.options.binary, t.proxy.file)
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, timeout=20 * t.slow)
    t.equal((len(done.stdout.splitlines()), done.stderr), (2, b""), "| head")


@test("actions show: one action with its response, by its id or the beginning of it", "asan")
def shows(t):
    start(t)
    t.api.on(Reply(status=201, headers=[("X-Made", "yes"), ("Location", "/orders/7")], body=b"made"), key="k")
    t.status(t.ask(key="k", headers=[("X-Task", "t")]), 201)
    t.ask(key="other")
    (action,) = listed(t, "--key", "k")
    text = fine(t, "actions", "show", action["id"])
    for line in ("id          " + action["id"], "state       completed", "route       orders", "key         k", "task        t",
                 "key source  sent", "executions  1", "response    201", "            X-Made: yes", "            Location: /orders/7",
                 "            body of 4 bytes"):
        t.check(line + "\n" in text, "a line %r" % line, text)
    t.check(re.search(r"^expires     2\S+Z \(in \d+[hd]\)$", text, re.M), "a time to come", text)
    by_beginning = fine(t, "actions", "show", action["id"][:8])
    t.equal(re.sub(r"\(.*\)", "", by_beginning), re.sub(r"\(.*\)", "", text), "by its beginning")
    whole = json.loads(fine(t, "actions", "show", "--json", action["id"]))
    t.equal((whole["response"]["status"], whole["response"]["body_bytes"]), (201, 4), "JSON")
    refused(t, "no recorded action begins with", "actions", "show", "0123456789ab")
    refused(t, "is no id", "actions", "show", "xyz", code=2)
    refused(t, "at least 8", "actions", "show", action["id"][:7], code=2)
    refused(t, "action", "actions", "show", "0" * 64)


@test("texts of clients do not steer the terminal of who lists them")
def clean_output(t):
    start(t)
    t.status(t.ask(key="red", headers=[("X-Task", "a\x9b31mb\xc2")]), 201)
    for arguments in (["actions", "list"], ["actions", "show", listed(t)[0]["id"]], ["tasks", "show", "x"]):
        out = fine(t, *arguments)
        t.check(all(c.isprintable() or c == "\n" for c in out), "only what can be printed: %r" % arguments, out)


@test("actions resolve --completed: repetitions get the response that was given", "asan race")
def resolves(t):
    start(t)
    ident = unknown_action(t, "u1")
    with open(t.path("body"), "wb") as out:
        out.write(b"paid\0\xff")
    text = fine(t, "actions", "resolve", ident, "--completed", "--status", "201", "-H", "Location: /orders/9", "--header", "X-By:hand",
                "--body", "@" + t.path("body"))
    t.check("state       completed\n" in text, "what it is now", text)
    answer = t.ask(key="u1", headers=[("X-Task", "t-1")])
    t.equal((answer.status, answer.body, answer.get("Location"), answer.get("X-By"), answer.replayed),
            (201, b"paid\0\xff", "/orders/9", "hand", True), "the retry gets it")
    t.effects(1, key="u1")
    t.check("decision" in fine(t, "actions", "show", ident), "the decision is kept")
    refused(t, "unknown", "actions", "resolve", ident, "--not-executed")
    empty = unknown_action(t, "u2")
    t.equal(json.loads(fine(t, "actions", "resolve", empty[:10], "--completed", "--status", "204", "--json"))["state"], "completed",
            "without a body, by a beginning, as JSON")
    t.status(t.ask(key="u2", headers=[("X-Task", "t-1")]), 204)


@test("actions resolve --not-executed and forget: the next attempt executes", "asan")
def lets_execute(t):
    start(t)
    ident = unknown_action(t, "u1")
    t.check("released" in fine(t, "actions", "resolve", ident, "--not-executed"), "released")
    t.api.rules = []
    t.fresh(t.ask(key="u1"))
    t.effects(2, key="u1")
    (action,) = listed(t, "--key", "u1")
    t.check("forgotten   true" in fine(t, "actions", "forget", action["id"]), "forgotten")
    t.fresh(t.ask(key="u1"))
    t.effects(3, key="u1")
    refused(t, "", "actions", "forget", "f" * 64)


@test("actions resolve: what does not fit together is refused before anything is asked")
def resolve_usage(t):
    t.ordinary = False
    t.prepare()
    ident = "a" * 64
    for arguments, words in (([], "either --completed or --not-executed"), (["--completed", "--not-executed"], "either"),
                             (["--completed"], "--status"), (["--completed", "--status", "100"], "from 200 to 599"),
                             (["--not-executed", "--status", "200"], "no response"), (["--not-executed", "--body", "x"], "no response"),
                             (["--completed", "--status", "200", "-H", "x"], "Name: value"),
                             (["--completed", "--status", "200", "--body", "@/nonexistent"], "/nonexistent")):
        refused(t, words, "actions", "resolve", ident, *arguments, "--admin", "127.0.0.1:1", file="", code=2)


@test("tasks show: the actions of a task in order, what is done, what runs, what is open", "asan")
def tasks(t):
    start(t)
    task, held = "order 7/ä?", threading.Event()
    t.status(t.ask(key="one", headers=[("X-Task", latin(task))]), 201)
    unknown_action(t, "two", task="x")
    t.api.on(Reply(status=500), key="three")
    t.ask(key="three", headers=[("X-Task", latin(task))])
    t.api.on(Raw(held, b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"), key="four")
    client = t.start(key="four", headers=[("X-Task", latin(task))])
    t.check(t.api.wait_count(4), "the fourth runs")
    rows = fine(t, "tasks", "show", task).splitlines()
    t.equal([row.split()[0] for row in rows[:4]], ["STEP", "1", "2", "3"], "steps in order")
    for row, words in zip(rows[1:4], ("one .*done: a repetition", "three .*open: find out", "four .*running: repeat it")):
        t.check(re.search(words, row), "%r in its step" % words, rows)
    t.equal(rows[4], "task %s: 3 actions, 1 done, 1 running, 1 open; what is not listed may be sent" % task, "the sum")
    whole = json.loads(fine(t, "tasks", "show", task, "--json"))
    t.equal([(a["key"], a["resume"]) for a in whole["actions"]], [("one", "no"), ("three", "settle"), ("four", "wait")], "JSON")
    held.set()
    t.status(client.read("POST"), 201)
    t.check("0 actions" in fine(t, "tasks", "show", "none"), "of an unknown task nothing is recorded")


# ---- the process ----


@test("health and wait: exit 0 and 1; health.address first, no token needed; wait until it is there", "asan")
def health(t):
    start(t, health=True)
    t.equal(fine(t, "health"), "healthy\n", "lives")
    t.equal(fine(t, "health", "--ready"), "ready\n", "ready")
    t.equal(json.loads(fine(t, "health", "--ready", "--json"))["ready"], True, "JSON")
    t.equal(fine(t, "wait"), "", "is ready already")
    for address in (t.health, "http://%s" % t.health, t.admin, "http://%s/" % t.admin):
        t.equal(fine(t, "health", "--admin", address, file=""), "healthy\n", address)
    t.equal(fine(t, "health", env={"EINMAL_ADMIN": t.health}, file="/nonexistent-but-not-asked"), "healthy\n", "EINMAL_ADMIN")
    t.equal(fine(t, "drain", "--max", "5s"), "drained: nothing runs any more\n", "drain")
    refused(t, "not ready: draining", "health", "--ready")
    t.equal(fine(t, "health"), "healthy\n", "still lives")
    refused(t, "not ready: draining", "wait", "--max", "200ms")
    t.equal(t.proxy.stop(), 0, "stops")
    refused(t, [t.health, "health.address of", "Connection refused"], "health")
    refused(t, "Connection refused", "wait", "--max=150ms")
    waiter = subprocess.Popen([t.options.binary, "wait", "-c", t.proxy.file, "--max", "20s"], stdout=subprocess.DEVNULL)
    t.cleanups.append(waiter.kill)
    time.sleep(0.2)
    t.equal(waiter.poll(), None, "waits")
    t.proxy.start()
    t.equal(waiter.wait(20 * t.slow), 0, "until it is ready")


@test("drain waits for what runs, and says so when it takes too long")
def drains(t):
    start(t)
    held = threading.Event()
    t.api.on(Raw(held, b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"), key="slow")
    client = t.start(key="slow")
    t.check(t.api.wait_count(1), "it runs")
    began = time.monotonic()
    refused(t, "still draining", "drain", "--max", "1s")
    t.check(time.monotonic() - began > 0.9, "waited")
    t.check(t.proxy.alive, "the process stays")
    process = subprocess.Popen([t.options.binary, "drain", "-c", t.proxy.file, "--json"], stdout=subprocess.PIPE)
    t.cleanups.append(process.kill)
    held.set()
    out, _ = process.communicate(timeout=30 * t.slow)
    t.equal((json.loads(out), process.returncode), ({"draining": True, "idle": True}, 0), "drained")
    t.status(client.read("POST"), 201)
    t.ordinary = False
    t.equal(t.proxy.stop(), 0, "SIGTERM afterwards")


@test("backup: a store that knows the keys, for its owner only, complete when it has its name", "asan")
def backup(t):
    start(t)
    first = t.fresh(t.ask(key="k"))
    file = t.path("copy")
    with open(file + ".part", "w") as out:
        out.write("of an attempt that was cut")
    os.umask(0)
    text = fine(t, "backup", file)
    t.check(re.match(re.escape(file) + r": \d+ KiB\n$", text), "its size", text)
    t.equal(stat.S_IMODE(os.stat(file).st_mode), 0o600, "permissions")
    t.check(not os.path.exists(file + ".part"), "no part is left")
    before = open(file, "rb").read()
    refused(t, "--force", "backup", file)
    t.equal(open(file, "rb").read(), before, "nothing is overwritten")
    fine(t, "backup", "--force", file)
    refused(t, "/nonexistent/x.part", "backup", "/nonexistent/x")
    t.effects(1, key="k")
    t.equal(t.proxy.stop(), 0, "stops")
    os.rename(file, os.path.join(t.proxy.store, "data.mdb"))
    t.proxy.start()
    t.replay(t.ask(key="k"), first, "from the restored backup")
    t.effects(1, key="k")


@test("without a file: health and actions of einmal run --upstream, from the default address to EINMAL_ADMIN", "asan")
def without_a_file(t):
    proxy = t.prepare()
    admin = "unix:%s" % t.path("admin.sock")
    proxy.env = {"EINMAL_UPSTREAM": t.api.url, "EINMAL_LISTEN": "%s:%d" % proxy.address, "EINMAL_DATA": proxy.store, "EINMAL_ADMIN": admin}
    proxy.spawn(["run"])
    proxy.wait_ready()
    t.proxy, t.fd_level = proxy, proxy.fds()
    t.equal(fine(t, "wait", file="", env=proxy.env), "", "wait")
    t.equal(fine(t, "health", "--ready", file="", env=proxy.env), "ready\n", "the same environment, as in a container")
    t.fresh(t.ask(key="k"))
    t.equal(fine(t, "actions", "list", file="", env=proxy.env).splitlines()[1].split()[-1], "k", "actions")
    t.equal(fine(t, "health", "--admin", admin, file=""), "healthy\n", "unix socket")
    if not listens("127.0.0.1", 9180):
        refused(t, ["127.0.0.1:9180", "the default"], "health", file="", env={"EINMAL_UPSTREAM": t.api.url})
    refused(t, t.path("none.sock"), "health", "--admin", "unix:" + t.path("none.sock"), file="")


def listens(host, port):
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


# ---- what goes wrong ----


@test("a token: from the file's admin.token_file, --token-file, EINMAL_ADMIN_TOKEN_FILE; errors say what to do", "asan")
def tokens(t):
    start(t, token=True)
    t.equal(listed(t), [], "from the file")
    other = t.path("other")
    for text in ("wrong\n", TOKEN + "\r\n"):
        with open(other, "w") as out:
            out.write(text)
        for extra, env in ((["--token-file", other], {}), ([], {"EINMAL_ADMIN_TOKEN_FILE": other})):
            arguments = ["actions", "list", "--admin", t.admin] + extra
            if text == "wrong\n":
                refused(t, ["token", "--token-file"], *arguments, file="", env=env)
            else:
                t.equal(run(t, *arguments, file="", env=env).returncode, 0, "%r" % arguments)
    refused(t, "asks for a token", "actions", "list", "--admin", t.admin, file="", env={"EINMAL_UPSTREAM": "http://a"})
    for text, words in ((None, "No such file"), ("", "holds no token"), ("two words\n", "holds no token")):
        if text is None:
            os.unlink(other)
        else:
            with open(other, "w") as out:
                out.write(text)
        refused(t, [other, words], "actions", "list", "--token-file", other)
    t.check(TOKEN not in t.proxy.stderr(), "no token in the log")


@test("answers that are none of einmal's: each is an error that names the address, never a hang or a crash", "asan")
def strange_answers(t):
    t.ordinary = False
    t.prepare()
    where = "%s:%d" % (t.address, t.api.port)
    arguments = ["actions", "list", "--admin", where]
    good = b'{"actions":[{"id":"%s","state":"completed"}],"next":null}' % (b"a" * 64)
    for reply, words in ((Reply(status=404, body=b"no"), "is it the admin interface"), (Reply(status=200, body=b"<html>"), "something else"),
                         (Raw(b"SSH-2.0-x\r\n", end="close"), "no HTTP"), (Raw(end="close"), "closed the connection"),
                         (Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", end="close"), "before its answer was complete"),
                         (Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", end="close"), "no HTTP"),
                         (Reply(status=409, body=b'{"title":"Conflict","detail":"No \\u001b way.","status":409}'), "Conflict: No "),
                         (Raw(end="reset"), where)):
        t.api.reply(reply)
        refused(t, words, *arguments, file="")
    asked = [("actions", "list"), ("actions", "show", "a" * 64), ("actions", "show", "a" * 9),
             ("actions", "forget", "a" * 64), ("actions", "resolve", "a" * 64, "--not-executed"), ("tasks", "show", "t"),
             ("backup", t.path("copy")), ("drain", "--max", "1s")]
    for body in (b"", b"{}", b"null", b"[]", b'{"ok":true}', b"[" * 100000, b"\x00" * 100000):
        t.api.reply(Reply(status=200, body=body))
        for command in asked:
            refused(t, "something else", *command, "--admin", where, file="")
    t.check(not os.path.exists(t.path("copy")) and not os.path.exists(t.path("copy") + ".part"), "what is no store is not kept")
    for body in (b'{"actions":[],"next":"c"}', b'{"actions":{"a":1},"next":{}}'):
        t.api.reply(Reply(status=200, body=body))
        refused(t, "again and again", *arguments, file="")
    t.api.reply(Reply(status=500, body=b'{"detail":"\\u001b[31m\\u0007"}'))
    refused(t, "?[31m?", *arguments, file="")
    for reply in (Reply(status=200, body=good, framing="chunked"), Reply(status=200, body=good, framing="close"),
                  Reply(status=200, body=[good[:5], 0.05, good[5:]]), Raw(b"HTTP/1.1 103 Early\r\nA: b\r\n\r\n", lambda c, r: Reply(
                      status=200, body=good, close=True).perform(c, r), end="close")):
        t.api.reply(reply)
        t.check(fine(t, *arguments, file="").splitlines()[1].startswith("a" * 12 + "  completed"), "framing %r" % reply)
    pages = [b'{"actions":[],"next":"c1"}', b'{"actions":[{"id":"x","state":"unknown"}],"next":"c 2"}', good]

    def page(connection, request):
        body = pages[0 if "after=" not in request.target else 1 if "after=c1" in request.target else 2]
        Reply(status=200, body=body, close=True).perform(connection, request)
    t.api.reply(Raw(page, end="close"))
    t.equal([a["id"] for a in json.loads(fine(t, *arguments, "--json", file=""))["actions"]], ["x", "a" * 64], "an empty page is not the end")
    t.check("after=c%202" in t.api.last().target, "cursors are encoded", t.api.last().target)


@test("addresses: where the address comes from is told; wrong ones are usage errors")
def addresses(t):
    t.ordinary = False
    proxy = t.prepare()
    port = free_port(t.address)
    where = "%s:%d" % (t.address, port)
    refused(t, [where, "(--admin)"], "health", "--admin", where)
    refused(t, [where, "(EINMAL_ADMIN)"], "health", env={"EINMAL_ADMIN": where}, file="")
    proxy.configure(admin={"address": "127.0.0.1:%d" % port})
    refused(t, ["127.0.0.1:%d" % port, "(admin.address of %s)" % proxy.file, "Is einmal running"], "actions", "list")
    refused(t, "localhost:%d" % port, "health", "--admin", "localhost:%d" % port)
    refused(t, "[::1]:%d" % port, "health", "--admin", "[::1]:%d" % port)
    for address in ("x", "127.0.0.1", "http://", "127.0.0.1:99999", "unix:relative", "https://a:1"):
        refused(t, address, "health", "--admin", address, code=2)
    refused(t, "/nonexistent/einmal.yaml", "health", file="/nonexistent/einmal.yaml", code=2)
    with open(t.path("bad.yaml"), "w") as out:
        out.write("upstreams: 5\n")
    done = run(t, "health", file=t.path("bad.yaml"))
    t.equal(done.returncode, 2, "a file that is wrong")
    t.check(b"bad.yaml:1:12: error:" in done.stderr, "its errors are told", done.stderr)


@test("help: every command tells its usage; misspelt ones get a suggestion", "asan")
def helps(t):
    t.ordinary = False
    t.prepare()
    usage = fine(t, "--help", file="")
    names = re.findall(r"^  (\w+(?: \w+)?)  ", usage, re.M)
    t.check(len(names) >= 12 and "actions list" in names and "drain" in names, "all commands", names)
    for name in names:
        text = fine(t, *name.split(), "--help", file="")
        t.check(text.startswith("usage: einmal %s" % name) and "--help" in text, "help of " + name, text)
        t.equal(fine(t, "help", *name.split(), file=""), text, "einmal help " + name)
        t.check(all(len(line) < 170 for line in text.splitlines()), "no endless lines", text)
    t.check("actions resolve" in fine(t, "actions", "--help", file=""), "help of a family")
    for arguments, words in ((["acitons", "list"], "did you mean actions?"), (["actions"], "usage: einmal actions"), (["actions", "lst"], "lst"),
                             (["actions", "list", "--stat", "unknwn"], "did you mean unknown?"), (["tasks", "show"], "TASK"),
                             (["wait", "--max", "5"], "duration"), (["drain", "--max", "2h"], "1h")):
        done = run(t, *arguments, file="")
        t.equal((done.returncode, done.stdout), (2, b""), "%r" % arguments)
        t.check(words in done.stderr.decode(), "%r says %r" % (arguments, words), done.stderr)


# ---- completion ----

COMPLETION = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "conf", "completion")
WORDS = [  # what is typed; the last word is completed; some of what is offered, some of what is not
    (["einmal", ""], ["run", "actions", "drain", "--version"], ["list", "actions list"]),
    (["einmal", "ac"], ["actions"], ["run"]),
    (["einmal", "actions", ""], ["list", "show", "resolve", "forget"], ["actions"]),
    (["einmal", "actions", "re"], ["resolve"], ["list"]),
    (["einmal", "actions", "list", "--"], ["--state", "--limit", "--json", "--admin"], ["--completed", "--crash-at"]),
    (["einmal", "actions", "list", "--state", ""], ["in_progress", "completed", "unknown"], ["--json"]),
    (["einmal", "actions", "list", "--json", "--state", "un"], ["unknown"], ["completed"]),
    (["einmal", "actions", "list", "--route", ""], [], ["list", "--json"]),
    (["einmal", "explain", "-"], ["-H", "--header", "-X", "--cert"], ["--force"]),
    (["einmal", "run", "--"], ["--upstream", "--data"], ["--crash-at", "--json"]),
    (["einmal", "run", "-c", "FILES/al"], ["FILES/alpha.yaml"], []),
    (["einmal", "check", "--config", "FILES/"], ["FILES/alpha.yaml", "FILES/beta b.yaml"], []),
    (["einmal", "backup", "FILES/be"], ["FILES/beta b.yaml"], []),
    (["einmal", "health", "FILES/"], [], ["FILES/alpha.yaml"]),
]


@test("bash completes commands, options, words and files")
def bash_completion(t):
    t.ordinary = False
    for name in ("alpha.yaml", "beta b.yaml"):
        open(t.path(name), "w").close()
    script = """source %s/einmal.bash; complete -p einmal >/dev/null || exit 3
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _einmal; printf '%%s\\n' "${COMPREPLY[@]}" """ % COMPLETION
    for words, offered, others in WORDS:
        words, offered, others = ([w.replace("FILES", t.directory) for w in row] for row in (words, offered, others))
        done = subprocess.run(["bash", "-uc", script, "bash"] + words, capture_output=True, text=True, timeout=20)
        t.equal((done.returncode, done.stderr), (0, ""), "%r" % words)
        got = done.stdout.splitlines()
        t.check(set(offered) <= set(got) and not set(others) & set(got), "%r is completed" % words, got)


@test("zsh completes commands, options, words and files")
def zsh_completion(t):
    t.ordinary = False
    if not shutil.which("zsh"):
        raise Skip("zsh is not installed")
    script = """_describe() { print -rl -- ${(P)4} } ; _arguments() { print -rl -- "$@" }
words=("$@"); CURRENT=$#; source %s/_einmal""" % COMPLETION

    def offers(*words):
        done = subprocess.run(["zsh", "-fuc", script, "zsh"] + list(words), capture_output=True, text=True, timeout=20)
        t.equal((done.returncode, done.stderr), (0, ""), "%r" % (words,))
        return done.stdout
    first = offers("einmal", "")
    for line in ("run:run the proxy in the foreground", "actions:list show resolve forget", "backup:write"):
        t.check("\n" + line in "\n" + first, "%r is offered" % line, first)
    t.check(re.search(r"^resolve:decide how", offers("einmal", "actions", ""), re.M), "of a family")
    options = offers("einmal", "actions", "list", "--")
    t.check("--state[in_progress, completed or unknown]:STATE:(in_progress completed unknown)" in options.splitlines(), "words", options)
    t.check("crash-at" not in offers("einmal", "run", ""), "nothing of debug builds")
    explain = offers("einmal", "explain", "").splitlines()
    for line in ("-c[configuration file; default $EINMAL_CONFIG, else /etc/einmal/einmal.yaml]:FILE:_files", "1: :_message operand",
                 "--method[method; default POST]:METHOD:", "*-H[a header; may be repeated]:'NAME\\: VALUE':"):
        t.check(line in explain, "%r is offered" % line, explain)
    t.check("1: :_files" in offers("einmal", "backup", "").splitlines(), "files")
