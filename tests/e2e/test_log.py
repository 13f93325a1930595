"""The access log: exactly one line a request, every field, no secrets (contract §8)."""
import json
import re
import threading
import time

from lib.case import LOG_FIELDS, Closed, Raw, Reply, Truncated, is_action_id, test
from test_metrics import listening, look


@test("one line a request with all fields, and the outcome of each kind", "asan", seconds=60)
def lines(t):
    t.einmal(**listening(t, routes=[
        {"name": "must", "match": {"path": "/orders/must"}, "upstream": "api", "required": True},
        {"name": "orders", "match": {"path": "/orders/**"}, "upstream": "api", "wait_timeout": "2s", "max_request_body": "64KiB"}]))
    wanted = []

    def expect(answer, outcome, status=None, route="orders"):
        wanted.append((answer.get("X-Request-Id"), outcome, status or answer.status, route))
    expect(t.ask(key="k"), "executed")
    expect(t.ask(key="k"), "replayed")
    expect(t.ask(key="k", body=b"other"), "mismatch")
    expect(t.ask(key="k", auth="Bearer tok-bob"), "identity")
    expect(t.ask(key_line=' "bad'), "invalid")
    expect(t.ask(target="/orders/must"), "missing", route="must")
    expect(t.ask(target="/orders/a"), "passed")
    expect(t.ask("GET", target="/orders/a?token=secret-query"), "passed", route="-")
    expect(t.ask("GET", target="/free"), "passed", route="-")
    t.api.on(Reply(429, [], b"busy"), key="released", times=1)
    expect(t.ask(key="released"), "released")
    t.api.on(Reply(500, [], b"oops"), key="unknown", times=1)
    expect(t.ask(key="unknown"), "unknown")
    expect(t.ask(key="unknown"), "replayed")
    t.api.on(Raw(end="close"), key="closed", times=1)
    expect(t.ask(key="closed"), "unknown")
    expect(t.ask(key="closed"), "refused_unknown")
    expect(t.ask(key="large", body=b"x" * 70000), "rejected")
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="slow", times=1)
    owner = t.start(key="slow")
    t.check(t.api.wait_count(1, key="slow"), "reaches the API")
    expect(t.ask(key="slow"), "in_progress")
    waiter = t.start(key="slow")
    t.wait_until(lambda: look(t).get("einmal_waiters") == 1, 5, "it waits")
    time.sleep(0.15)
    gate.set()
    expect(owner.read(), "executed")
    expect(waiter.read(), "waited")
    total = len(wanted)
    got = t.proxy.access(total)
    t.equal(len(got), total, "lines")
    by_id = {entry["request_id"]: entry for entry in got}
    t.equal(len(by_id), total, "a request id each")
    for request_id, outcome, status, route in wanted:
        entry = by_id.get(request_id)
        t.check(entry, "a line for %s (%s)" % (request_id, outcome), got)
        t.equal((entry["outcome"], entry["status"], entry["route"]), (outcome, status, route), "line %r" % entry)
    for entry in got:
        t.equal(sorted(entry), LOG_FIELDS, "fields")
        t.check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", entry["time"]), "time", entry["time"])
        t.check(entry["bytes_in"] > 0 and entry["bytes_out"] > 0, "bytes", entry)
        t.check(entry["client"].startswith("127."), "client", entry)
        t.check("?" not in entry["path"], "no query", entry)
        if entry["outcome"] in ("executed", "replayed", "unknown", "mismatch", "waited", "released"):
            t.check(is_action_id(entry["action"]), "action", entry)
    replayed = [entry for entry in got if entry["outcome"] in ("executed", "replayed") and entry["action"] == got[0]["action"]]
    t.equal(len(replayed), 2, "attempts at one action share its id")
    slow = [entry for entry in got if entry["outcome"] == "waited"][0]
    t.check(slow["wait_ms"] is not None and slow["wait_ms"] > 50, "wait_ms of a waiter", slow)
    t.check(got[0]["upstream_ms"] is not None and got[0]["duration_ms"] >= got[0]["upstream_ms"] - 1, "durations", got[0])
    t.check(slow["upstream_ms"] is None, "a waiter has no upstream time", slow)


@test("never a key, a credential, a body or a query; nothing but JSON lines on standard output", "asan")
def secrets(t):
    t.einmal(log={"level": "debug"})
    words = ["key-s3cr3t", "tok-alice", "body-s3cr3t", "query-s3cr3t", "cookie-s3cr3t", "answer-s3cr3t"]
    t.api.reply(Reply(201, [("X-A", "1")], b"answer-s3cr3t"))
    for _ in range(2):
        t.ask(key="key-s3cr3t", body=b"body-s3cr3t", target="/orders?q=query-s3cr3t", headers=[("Cookie", "sid=cookie-s3cr3t")])
    t.ask(key="key-s3cr3t", body=b"body-s3cr3t-2", headers=[("Cookie", "sid=cookie-s3cr3t")])
    t.ask(key_line=' "key-s3cr3t', body=b"body-s3cr3t")
    t.api.on(Raw(end="close"), key="key-s3cr3t-2")
    t.ask(key="key-s3cr3t-2", body=b"body-s3cr3t")
    t.client().send(b"POST /orders?q=query-s3cr3t HTTP/1.1\r\nAuthorization: tok-alice\r\n bad\r\n\r\n").read()
    t.proxy.access(6)
    for name, text in (("standard output", t.proxy.stdout()), ("standard error", t.proxy.stderr())):
        for word in words:
            t.check(word not in text, "%r in %s" % (word, name), [l for l in text.split("\n") if word in l][:3])
    for line in t.proxy.stdout().split("\n")[:-1]:
        t.check(isinstance(json.loads(line), dict), "a JSON object a line", line)
    for line in t.proxy.stderr().split("\n"):
        if line:
            t.check(isinstance(json.loads(line), dict), "errors are JSON too", line)


@test("lines of requests whose clients left, and of refused ones: one each", "asan")
def lines_of_leavers(t):
    t.einmal()
    t.api.on(Reply(delay=0.4), key="left")
    client = t.start(key="left")
    t.check(t.api.wait_count(1), "reaches the API")
    client.reset()
    refused = t.client().send(b"POST /orders HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").read()
    t.status(refused, 400)
    time.sleep(0.6)
    got = t.proxy.access(2)
    t.equal(len(got), 2, "lines")
    left = [entry for entry in got if entry["route"] == "orders" and entry["outcome"] == "executed"]
    t.equal([entry["status"] for entry in left], [499], "499 where nothing could be sent")


@test("log.access: false writes none; format: text is readable", "asan")
def log_settings(t):
    t.ordinary = False
    proxy = t.proxy = t.prepare("-none", log={"access": False}).start()
    t.fresh(t.ask(key="k"))
    t.close_clients()
    t.equal(proxy.stop(), 0, "exit code")
    t.equal(proxy.stdout(), "", "no access log")
    proxy = t.proxy = t.prepare("-text", log={"format": "text"}).start()
    t.fresh(t.ask(key="k2"))
    t.wait_until(lambda: "/orders" in proxy.stdout(), 3, "a line of text")
    t.check(not proxy.stdout().startswith("{") and "201" in proxy.stdout(), "text", proxy.stdout())
    t.equal(proxy.stop(), 0, "exit code")


@test("the task of an action is logged; trace ids too", "asan")
def task_and_trace(t):
    t.einmal(route={"task": "header:X-Task-Id"})
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    t.fresh(t.ask(key="k", headers=[("X-Task-Id", "order-7"), ("traceparent", "00-%s-00f067aa0ba902b7-01" % trace)]))
    entry = t.proxy.access(1)[0]
    t.equal((entry["task"], entry["trace_id"]), ("order-7", trace), "task and trace")


@test("an answer that was cut is logged once", "asan")
def cut_is_logged(t):
    t.einmal()
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", 0.1, end="close"), key="k")
    try:
        t.ask(key="k")
    except (Closed, Truncated):
        pass
    time.sleep(0.3)
    got = t.proxy.access(1)
    t.equal([entry["outcome"] for entry in got], ["unknown"], "one line")


@test("an owner told 504: one line, when the action ended", "asan")
def line_of_a_late_owner(t):
    t.einmal(upstream={"response_timeout": "200ms", "outcome_timeout": "10s"})
    t.api.on(Reply(delay=1.0), key="k")
    answer = t.ask(key="k")
    t.problem(answer, 504, "upstream-timeout")
    t.equal(len(t.proxy.access()), 0, "no line yet")
    t.wait_until(lambda: len(t.proxy.access()) == 1, 5, "a line when the action ended")
    entry = t.proxy.access(1)[0]
    t.equal((entry["status"], entry["outcome"]), (504, "executed"), "what was sent, how it ended")
