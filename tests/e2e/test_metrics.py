"""/metrics: each request is counted exactly once, as its access line says; nothing ever falls (contract §8).

What promtool finds of the text, of the alert rules and of the dashboard is tested here too: against a real scrape.
"""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time

from lib import metrics
from lib.case import Closed, Raw, Reply, Skip, Truncated, request_bytes, test
from lib.certs import Authority
from lib.proxy import free_port
from test_fault import failing
from test_tunnels import echo, opened, SWITCH

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
OUTCOMES = {"executed", "released", "unknown", "waited", "replayed", "in_progress", "refused_unknown", "identity", "mismatch",
            "missing", "invalid", "rejected", "passed"}  # and degraded, which needs a failing store


def listening(t, **settings):
    """Settings with a health listener; where it is goes into t.told_at."""
    t.told_at = (t.address, free_port(t.address))
    return {"health": {"address": "%s:%d" % t.told_at}, **settings}


def look(t):
    return metrics.look(t.told_at, 15.0 * t.slow)


def lines_of(t):
    return collections.Counter((line["route"], line["outcome"], line["status"]) for line in t.proxy.access())


class Ledger:
    """What was sent, and how each request must be counted."""

    def __init__(self, t):
        self.t, self.wanted = t, collections.Counter()

    def expect(self, outcome, status, route="orders"):
        self.wanted[route, outcome, status] += 1

    def ask(self, outcome, status, method="POST", route="orders", **what):
        answer = self.t.status(self.t.ask(method, **what), status, outcome)
        self.expect(outcome, status, route)
        return answer

    def raw(self, outcome, status, data, route="-"):
        self.t.status(self.t.client().send(data).read(), status, outcome)
        self.expect(outcome, status, route)

    def settle(self):
        """Access lines and counts are what was sent: no more, no less."""
        total = sum(self.wanted.values())
        self.t.proxy.access(total)
        self.t.equal(dict(lines_of(self.t)), dict(self.wanted), "access lines")
        told = look(self.t)
        self.t.equal(told.requests(), dict(self.wanted), "counts")
        return told


# ---- each request once ----


def recorded_and_refused(t, ledger):
    ledger.ask("executed", 201, key="k")
    ledger.ask("replayed", 201, key="k")
    ledger.ask("mismatch", 422, key="k", body=b"other")
    ledger.ask("identity", 409, key="k", auth="Bearer tok-bob")
    ledger.ask("invalid", 400, key_line=' "bad')
    ledger.ask("missing", 400, route="must", target="/orders/must")
    ledger.ask("rejected", 413, key="large", body=b"x" * 70000)
    ledger.ask("executed", 201, key="old", version="1.0")
    t.api.on(Reply(429, [], b"busy"), key="released", times=1)
    ledger.ask("released", 429, key="released")
    ledger.ask("released", 502, route="gone", key="unsent", target="/gone")
    t.api.on(Reply(500, [], b"oops"), key="unknown", times=1)
    ledger.ask("unknown", 500, key="unknown")
    ledger.ask("replayed", 500, key="unknown")
    t.api.on(Raw(end="close"), key="closed", times=1)
    ledger.ask("unknown", 502, key="closed")
    ledger.ask("refused_unknown", 409, key="closed")


def passed(t, ledger):
    ledger.ask("passed", 201)
    ledger.ask("passed", 200, "GET", route="-", target="/free")
    ledger.ask("passed", 200, "HEAD", route="-", target="/free")
    t.api.on(Reply(204), method="OPTIONS")
    ledger.ask("passed", 204, "OPTIONS", route="-", headers=[("Origin", "https://app.example"),
                                                             ("Access-Control-Request-Method", "POST")])
    t.api.on(Raw(SWITCH, echo), path="/chat")
    tunnel, _ = opened(t)
    tunnel.half_close()
    t.equal(tunnel.expect_end(), b"", "the tunnel ends")
    ledger.expect("passed", 101, "-")


def no_request_at_all(t, ledger):
    """Nothing that could be routed came."""
    ledger.raw("invalid", 400, b"POST /orders HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
    ledger.raw("rejected", 414, b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    ledger.raw("rejected", 431, b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 40000 + b"\r\n\r\n")
    ledger.raw("rejected", 501, b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n")
    ledger.raw("rejected", 505, b"GET / HTTP/1.2\r\nHost: a\r\n\r\n")
    ledger.raw("rejected", 408, b"GET / HTTP/1.1\r\nHo")
    t.client().send(b"GET / HT").reset()  # never a request: not counted
    t.client().close()


def pipelined(t, ledger):
    client = t.client().send(request_bytes(key="p1") + request_bytes(key="p2") + request_bytes(key="p1") + b"bad\r\n\r\n")
    for outcome, status, route in (("executed", 201, "orders"), ("executed", 201, "orders"), ("replayed", 201, "orders"),
                                   ("invalid", 400, "-")):
        t.status(client.read(), status, "pipelined")
        ledger.expect(outcome, status, route)


def waiting_and_leaving(t, ledger):
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="slow", times=1)
    owner = t.start(key="slow")
    t.check(t.api.wait_count(1, key="slow"), "reaches the API")
    ledger.ask("in_progress", 409, key="slow")
    waiter, leaver = t.start(key="slow"), t.start(key="slow")
    t.wait_until(lambda: look(t).get("einmal_waiters") == 2, 5, "two wait")
    leaver.reset()
    ledger.expect("in_progress", 499)
    t.wait_until(lambda: look(t).get("einmal_waiters") == 1, 5, "one has left")
    gate.set()
    t.fresh(owner.read())
    ledger.expect("executed", 201)
    t.status(waiter.read(), 201, "waiter")
    ledger.expect("waited", 201)
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="left", times=1)
    owner = t.start(key="left")
    t.check(t.api.wait_count(1, key="left"), "reaches the API")
    owner.reset()
    time.sleep(0.05)
    gate.set()
    ledger.expect("executed", 499)


def broken_bodies(t, ledger):
    half = t.client().send(request_bytes(key="half", body=b"x" * 1000)[:-500])
    chunk = b"POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: bad\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    ledger.raw("invalid", 400, chunk, "orders")
    half.reset()
    ledger.expect("rejected", 499)


@test("every outcome: counted exactly once, with route and status, and one access line each", "asan", seconds=60)
def every_outcome(t):
    t.einmal(**listening(t, timeouts={"header": "400ms"}, upstreams={"gone": {"url": "http://%s:9" % t.address}}, routes=[
        {"name": "must", "match": {"path": "/orders/must"}, "upstream": "api", "required": True},
        {"name": "gone", "match": {"path": "/gone"}, "upstream": "gone"},
        {"name": "orders", "match": {"path": "/orders/**"}, "upstream": "api", "wait_timeout": "700ms",
         "max_request_body": "64KiB"}], default_upstream="api"))
    ledger = Ledger(t)
    for part in (recorded_and_refused, passed, no_request_at_all, pipelined, waiting_and_leaving, broken_bodies):
        part(t, ledger)
    told = ledger.settle()
    t.equal({outcome for _, outcome, _ in ledger.wanted}, OUTCOMES, "outcomes provoked")
    by_route = collections.Counter()
    for (route, _, code), count in ledger.wanted.items():
        by_route[route] += count if code != 101 else 0
    by_route["-"] -= 7  # no request could be made of what came: no duration
    for route, count in by_route.items():
        t.equal(told.get("einmal_request_duration_seconds_count", route=route), count, "durations of " + route)
    waits = [line for line in t.proxy.access() if line["wait_ms"] is not None]
    t.equal(told.get("einmal_wait_duration_seconds_count", route="orders"), len(waits), "waits")
    calls = [line for line in t.proxy.access() if line["upstream_ms"] is not None and line["status"] != 101]
    t.equal(told.get("einmal_upstream_duration_seconds_count"), len(calls), "calls")
    t.equal(told.get("einmal_upstream_duration_seconds_count", upstream="gone"), 1, "calls of the other upstream")


@test("an owner told 504 is counted when its action ends, not before", "asan")
def late_owner(t):
    t.einmal(**listening(t, upstream={"response_timeout": "200ms", "outcome_timeout": "20s"}))
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    t.problem(t.ask(key="k"), 504, "upstream-timeout")
    time.sleep(0.1)
    told = look(t)
    t.equal((told.requests(), told.get("einmal_requests_in_flight")), ({}, 1), "still under way")
    t.equal(told.get("einmal_actions", state="in_progress"), 1, "in progress")
    gate.set()
    t.proxy.access(1)
    t.equal(look(t).requests(), {("orders", "executed", 504): 1}, "what was sent, how it ended")


@test("an attempt that has the API asked first is one request all the same", "asan")
def probed(t):
    t.einmal(**listening(t, route={"on_unknown": "probe", "probe": {"path": "/orders/by-ref/{key}", "settle": "0s"}}))
    ledger = Ledger(t)
    for key, reply in (("found", Reply(200, [], b"there")), ("absent", Reply(404)), ("nobody knows", Reply(500))):
        key = key.replace(" ", "-")
        t.api.on(Raw(end="close"), method="POST", key=key, times=1)
        ledger.ask("unknown", 502, key=key)
        t.api.on(reply, path="/orders/by-ref/" + key, method="GET")
    ledger.ask("replayed", 200, key="found")
    ledger.ask("executed", 201, key="absent")
    ledger.ask("refused_unknown", 409, key="nobody-knows")
    ledger.settle()
    t.equal(t.api.count(method="GET"), 3, "asked")


@test("degraded: forwarded unprotected for want of a store, counted as such; the store is told to fail")
def degraded(t):
    disk = failing(t, **listening(t, route={"on_store_error": "pass"}))
    ledger = Ledger(t)
    disk.fails("sync EIO")
    ledger.ask("degraded", 201, key="k")
    told = ledger.settle()
    t.equal(told.get("einmal_store_failing"), 1, "failing")
    disk.works()
    t.wait_until(lambda: look(t).get("einmal_store_failing") == 0, 8, "works again")
    t.ordinary = False
    t.proxy.stop()


# ---- over time ----


@test("counters survive reloads: by name; a renamed route starts anew, a refused configuration is told", "asan")
def reload(t):
    routes = [{"name": "orders", "match": {"path": "/orders/**"}, "upstream": "api"},
              {"name": "bills", "match": {"path": "/bills"}, "upstream": "api"}]
    settings = listening(t, routes=routes)
    t.einmal(**settings)
    t.fresh(t.ask(key="k"))
    t.fresh(t.ask(key="k", target="/bills"))
    t.proxy.access(2)
    first = look(t)
    t.equal(first.get("einmal_config_last_reload_successful"), 1, "the start counts")
    t.proxy.write("listen: [")
    t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: look(t).get("einmal_config_last_reload_successful") == 0, 5, "refused")
    second = look(t)
    stamp = "einmal_config_last_reload_success_timestamp_seconds"
    t.equal(second.get(stamp), first.get(stamp), "the older one is in force")
    routes[1]["name"] = "invoices"
    t.proxy.configure(**settings)
    t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: look(t).get("einmal_config_last_reload_successful") == 1, 5, "taken")
    t.check(look(t).get(stamp) > first.get(stamp), "when it was read")
    for number in range(6):  # both workers have taken it up
        t.fresh(t.ask(key="n%d" % number, target="/bills"))
    t.status(t.ask(key="k"), 201)
    t.proxy.access(9)
    third = look(t)
    t.equal(third.fell_since(first), [], "what fell over the reload")
    t.equal(third.requests(), {("orders", "executed", 201): 1, ("orders", "replayed", 201): 1, ("bills", "executed", 201): 1,
                               ("invoices", "executed", 201): 6}, "counts")


@test("scraped all the while by many, with several workers: nothing falls, and in the end every request is there", "race asan",
      seconds=60)
def under_load(t):
    t.einmal(**listening(t, workers=4))
    keys, per_thread = 6, t.rounds(40, 10)
    stop, problems, sent = threading.Event(), [], collections.Counter()
    t.ask("GET", target="/free")

    def work(number):
        client = t.client()
        for i in range(per_thread):
            status = client.ask(key="k-%d-%d" % (number % 2, i % keys), target="/orders/%d" % (i % keys)).status
            if status != 201:
                problems.append(status)

    def scrape():
        before = None
        while not stop.is_set():
            told = look(t)
            if before:
                problems.extend(told.fell_since(before))
            before = told
            sent["scrapes"] += 1

    scrapers = [t.thread(scrape) for _ in range(2)]
    workers = [t.thread(work, number) for number in range(6)]
    for thread in workers:
        thread.join()
    stop.set()
    for thread in scrapers:
        thread.join()
    t.equal(problems, [], "what fell, or was not answered 201")
    t.check(sent["scrapes"] > 5, "scraped meanwhile", sent)
    t.proxy.access(6 * per_thread + 1)
    told = look(t)
    t.equal(sum(told.requests().values()), 6 * per_thread + 1, "requests")
    t.equal(told.get("einmal_requests_total", outcome="executed"), 2 * keys, "executed")
    t.equal(told.get("einmal_request_duration_seconds_bucket", le="+Inf"), 6 * per_thread + 1, "durations")


@test("while it drains: told so, what runs is in flight, what is refused is counted", "asan")
def draining(t):
    t.ordinary = False
    t.einmal(**listening(t, timeouts={"drain_delay": "0s", "drain": "20s"}))
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    late = t.client().send(request_bytes(key="late")[:30])
    time.sleep(0.1)
    t.equal(look(t).get("einmal_draining"), 0, "not yet")
    t.proxy.signal(signal.SIGTERM)
    t.wait_until(lambda: look(t).get("einmal_draining") == 1, 5, "told")
    late.send(request_bytes(key="late")[30:])
    t.problem(late.read(), 503, "draining", retry_after=True)
    t.proxy.access(1)
    told = look(t)
    t.equal(told.requests(), {("orders", "rejected", 503): 1}, "counts")
    t.equal(told.get("einmal_requests_in_flight"), 1, "in flight")
    gate.set()
    t.fresh(owner.read())
    t.equal(t.proxy.wait(), 0, "exit code")


# ---- what is there now ----


@test("gauges: actions, age, store, connections, process; histograms of the store", "asan")
def gauges(t):
    t.einmal(**listening(t, store={"max_size": "32MiB"}))
    started = time.time()
    client = t.client()
    t.fresh(client.ask(key="a"))
    t.fresh(client.ask(key="b"))
    t.api.on(Reply(500, [], b"oops"), key="u")
    t.status(client.ask(key="u"), 500)
    time.sleep(0.3)
    told = look(t)
    for state, wanted in (("completed", 2), ("unknown", 1), ("in_progress", 0)):
        t.equal(told.get("einmal_actions", state=state), wanted, state)
    t.check(0.2 < told.get("einmal_oldest_unknown_seconds") < 60, "age", told.get("einmal_oldest_unknown_seconds"))
    t.equal(told.get("einmal_store_max_bytes"), 32 << 20, "quota")
    t.check(0 < told.get("einmal_store_used_bytes") < 32 << 20, "used", told.get("einmal_store_used_bytes"))
    t.equal((told.get("einmal_store_failing"), told.get("einmal_store_full")), (0, 0), "the store is fine")
    t.equal(told.get("einmal_store_group_size_sum"), 6, "three reservations, three outcomes")
    commits = told.get("einmal_store_commit_seconds_count")
    t.check(commits >= 6 and 0 < told.get("einmal_store_commit_seconds_sum") < 60, "commits", commits)
    t.equal(told.get("einmal_connections", side="client"), 1, "clients")
    t.check(told.get("einmal_connections", side="upstream") in (0, 1), "upstream connections")
    t.check(told.get("einmal_connections_opened_total", side="client") >= 1, "opened")
    t.check(1 <= told.get("einmal_connections_opened_total", side="upstream") <= 3, "opened to the API")
    t.equal(told.get("einmal_access_log_dropped_total"), 0, "dropped lines")
    t.check(abs(told.get("process_start_time_seconds") - started) < 30 * t.slow, "start", told.get("process_start_time_seconds"))
    t.check(abs(told.get("process_open_fds") - t.proxy.fds()) < 5, "descriptors", told.get("process_open_fds"), t.proxy.fds())
    t.check(told.get("process_resident_memory_bytes") > 1 << 20, "memory")
    t.check(told.get("process_cpu_seconds_total") > 0, "processor time")
    t.check(re.fullmatch(r"\d+\.\d+\.\d+.*", [dict(l)["version"] for n, l in told.samples if n == "einmal_build_info"][0]), "version")
    client.close()
    t.wait_until(lambda: look(t).get("einmal_connections", side="client") == 0, 5, "the client has gone")


@test("TLS handshakes that fail are counted; they are no requests")
def handshakes(t):
    t.ordinary = False
    authority = Authority(t.directory)
    certificate, key = authority.issue("einmal", "/CN=einmal", "IP:" + t.address)
    t.einmal(**listening(t, tls={"certificate": certificate, "key": key}))
    failed = "einmal_tls_handshake_failures_total"
    t.wait_until(lambda: look(t).get("einmal_connections_opened_total", side="client") == 1 and
                 look(t).get("einmal_connections", side="client") == 0, 5, "the look whether it listens is over")
    before = look(t).get(failed)
    for _ in range(3):
        t.client().send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    t.wait_until(lambda: look(t).get(failed) == before + 3, 5, "counted")
    t.equal(look(t).requests(), {}, "no request")
    t.equal(t.proxy.stop(), 0, "exit code")


# ---- what Prometheus and Grafana make of it ----


def promtool(*arguments, **what):
    """Its exit status and its words. tests/support/promtool.sh brings it."""
    found = shutil.which("promtool") or os.path.join(ROOT, "build", "promtool", "promtool")
    if not os.path.exists(found):
        raise Skip("no promtool: sh tests/support/promtool.sh fetches it")
    done = subprocess.run([found, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, **what)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def accepts(t, text, *arguments, **what):
    code, words = promtool(*arguments, **what)
    t.check(code == 0 and "lint" not in words, text, words)


def in_repository(*parts):
    return os.path.join(ROOT, *parts)


@test("promtool has nothing to say against the text")
def promtool_is_content(t):
    t.einmal(**listening(t))
    t.fresh(t.ask(key="k"))
    t.ask("GET", target="/free")
    t.proxy.access(2)
    accepts(t, "check metrics", "check", "metrics", input=look(t).text.encode())


@test("alert rules: valid, and each fires when it must, and not before")
def alert_rules(t):
    t.ordinary = False
    accepts(t, "check rules", "check", "rules", in_repository("docker", "prometheus", "alerts.yaml"))
    accepts(t, "check config", "check", "config", in_repository("docker", "prometheus", "prometheus.yml"))
    accepts(t, "test rules", "test", "rules", in_repository("tests", "support", "alerts_test.yaml"))


def expressions():
    """{where: PromQL} of the dashboard; its variables made plain."""
    with open(in_repository("docker", "grafana", "einmal.json"), encoding="utf-8") as file:
        board = json.load(file)
    out = {"annotation": board["annotations"]["list"][0]["expr"]}
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            out["%s %s" % (panel["title"], target["refId"])] = target["expr"]
    return board, {where: expr.replace("$__rate_interval", "5m") for where, expr in out.items()}


def metric_names(text):
    return set(re.findall(r"\b(?:einmal|process)_[a-z_]+\b", re.sub(r'"[^"]*"', "", text)))


def told_names(told):
    return {name for name, _ in told.samples}


@test("dashboard and alert rules name only what is told, and a panel or rule stands for whatever an operator needs")
def names_exist(t):
    t.einmal(**listening(t))
    t.fresh(t.ask(key="k"))
    t.proxy.access(1)
    told = look(t)
    board, exprs = expressions()
    for where, expr in exprs.items():
        names = metric_names(expr)
        t.check(names, "names a metric: " + where, expr)
        t.equal(names - told_names(told), set(), "in the dashboard: " + where)
    with open(in_repository("docker", "prometheus", "alerts.yaml"), encoding="utf-8") as file:
        rules = "".join(line for line in file if not line.lstrip().startswith("#"))
    shown = set().union(*map(metric_names, exprs.values())) | metric_names(rules)
    rule_names = {name for name in metric_names(rules) if not name.startswith("einmal_build")}
    t.equal(rule_names - told_names(told), set(), "in the rules")
    unused = {family for family in told.types if not any(name.startswith(family) for name in shown)}
    t.equal(unused, set(), "told, but shown nowhere")
    ids = [panel["id"] for panel in board["panels"]]
    t.equal(len(ids), len(set(ids)), "ids of panels")
    variables = {variable["name"] for variable in board["templating"]["list"]}
    t.equal(variables, {"datasource", "job", "instance", "route"}, "variables")
    for panel in board["panels"]:
        grid = panel["gridPos"]
        t.check(grid["x"] + grid["w"] <= 24, "fits", panel["title"])
        if panel["type"] != "row":
            t.equal(panel["datasource"]["uid"], "${datasource}", "data source of " + panel["title"])
            t.check(panel["fieldConfig"]["defaults"]["unit"], "unit of " + panel["title"])


@test("every expression of the dashboard is PromQL")
def expressions_parse(t):
    t.ordinary = False
    rules = [{"record": "test:%d" % number, "expr": expr} for number, expr in enumerate(expressions()[1].values())]
    with open(t.path("rules.json"), "w") as file:
        json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)  # JSON is YAML
    accepts(t, "check rules", "check", "rules", t.path("rules.json"))
