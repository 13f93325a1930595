"""Start, reload, drain, limits, command line (contract §2, §9)."""
import os
import re
import signal
import subprocess
import threading
import time

from lib.case import Closed, Reply, Truncated, request_bytes, test


@test("SIGTERM: running and waiting requests finish with Connection: close, new ones are refused, exit 0 (O01)", "race asan")
def drain(t):
    t.ordinary = False
    t.einmal()
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    t.api.on(Reply(delay=gate), key="left")
    owner = t.start(key="k")
    left = t.start(key="left")
    t.check(t.api.wait_count(2), "both reach the API")
    waiters = [t.start(key="k") for _ in range(5)]
    idle = [t.client() for _ in range(3)]
    for client in idle[1:]:
        t.status(client.ask("GET", target="/free"), 200)
    started = t.client().send(request_bytes(key="late")[:30])
    left.reset()
    time.sleep(0.2)
    t.proxy.signal(signal.SIGTERM)
    for client in idle:
        t.equal(client.expect_end(5 * t.slow), b"", "idle connections close")
    try:
        late = t.client()
        late.post(key="new")
        answer = late.read()
        t.problem(answer, 503, "draining", retry_after=True)
    except (OSError, Closed):
        pass
    try:
        started.send(request_bytes(key="late")[30:])
        t.problem(started.read(), 503, "draining", retry_after=True)
    except (OSError, Closed, Truncated):
        pass
    t.check(t.proxy.alive, "waits for what runs")
    gate.set()
    first = t.fresh(owner.read())
    t.check(first.closes, "Connection: close", first)
    for waiter in waiters:
        answer = waiter.read()
        t.replay(answer, first)
        t.check(answer.closes, "Connection: close", answer)
    t.equal(t.proxy.wait(), 0, "exit code")
    t.effects(1, key="k")
    t.effects(0, key="late")
    t.effects(0, key="new")
    t.proxy.start()
    t.replay(t.ask(key="k"), first, "recorded")
    t.check(t.ask(key="left").replayed, "the action whose client left was awaited")
    t.effects(1, key="left")
    t.equal(t.proxy.stop(), 0, "exit code")


@test("the drain limit: sent actions are recorded unknown, those who wait get 503 draining, exit 0", "race asan")
def drain_limit(t):
    t.ordinary = False
    t.einmal(timeouts={"drain": "1s"})
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    owner = t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    waiter = t.start(key="k")
    t.check(waiter.waits(0.2), "waits")
    began = time.monotonic()
    t.proxy.signal(signal.SIGTERM)
    t.problem(waiter.read(), 503, "draining", retry_after=True, text="waiter")
    try:
        answer = owner.read()
        t.check(answer.status >= 500, "an error that can be told", answer)
    except (Closed, Truncated):
        pass
    t.equal(t.proxy.wait(), 0, "every record was committed")
    t.check(time.monotonic() - began > 0.9, "not before the limit")
    t.within(time.monotonic() - began, 5.0, "the limit")
    gate.set()
    t.proxy.start()
    body = t.problem(t.ask(key="k"), 409, "outcome-unknown", action=True)
    t.equal(body["state"], "unknown", "state")
    t.effects(1, key="k")
    t.equal(t.proxy.stop(), 0, "exit code")


@test("a second signal quits at once with 1; SIGINT is like SIGTERM", "asan")
def second_signal(t):
    t.ordinary = False
    t.einmal()
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="k")
    t.start(key="k")
    t.check(t.api.wait_count(1), "reaches the API")
    t.proxy.signal(signal.SIGTERM)
    time.sleep(0.3)
    t.check(t.proxy.alive, "drains")
    began = time.monotonic()
    t.proxy.signal(signal.SIGTERM)
    t.equal(t.proxy.wait(), 1, "exit code")
    t.within(time.monotonic() - began, 1.0, "at once")
    gate.set()
    t.proxy.start()
    t.problem(t.ask(key="k"), 409, "outcome-unknown")
    t.proxy.signal(signal.SIGINT)
    t.equal(t.proxy.wait(), 0, "exit code after SIGINT")
    t.effects(1, key="k")


@test("draining while a stream runs: it comes to its end", "asan")
def drain_with_stream(t):
    t.ordinary = False
    t.einmal()
    gate = threading.Event()
    t.api.reply(Reply(200, [], [b"first;", gate, b"last"], framing="chunked"))
    keyed, free = t.client().post(key="k"), t.client().post(method="GET", target="/stream")
    for client in (keyed, free):
        while b"first;" not in client.buffer:
            t.check(client.receive(), "the beginning passes at once")
    t.proxy.signal(signal.SIGTERM)
    time.sleep(0.3)
    gate.set()
    for client in (keyed, free):
        t.equal(client.read().body, b"first;last", "whole")
    t.equal(t.proxy.wait(), 0, "exit code")


@test("SIGHUP: a valid file is swapped in, running requests keep the old one (O02)", "race asan")
def reload(t):
    t.einmal(route={"required": False})
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="running")
    running = t.start(key="running")
    t.check(t.api.wait_count(1), "reaches the API")
    t.status(t.ask(), 201, "not required")
    t.proxy.configure(route={"required": True})
    t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: t.ask().status == 400, 5, "the new rule applies")
    t.problem(t.ask(), 400, "key-missing")
    gate.set()
    t.fresh(running.read())
    t.check(t.ask(key="running").replayed, "records are not touched by a reload")
    t.effects(1, key="running")


@test("SIGHUP with a bad file: the old configuration stays, the error is told with its place (O02)", "asan")
def bad_reload(t):
    t.einmal(route={"required": True})
    good = t.proxy.read(t.proxy.file)
    for bad in (good.replace("required: true", "requird: false"), "routes: [", good.replace("required: true", "required: maybe")):
        t.proxy.write(bad)
        mark = len(t.proxy.stderr())
        t.proxy.signal(signal.SIGHUP)
        t.wait_until(lambda: "error" in t.proxy.stderr()[mark:], 5, "an error is logged")
        t.check("einmal.yaml:" in t.proxy.stderr()[mark:], "with its place", t.proxy.stderr()[mark:])
        t.problem(t.ask(), 400, "key-missing", text="the old rule applies")
    os.unlink(t.proxy.file)
    t.proxy.signal(signal.SIGHUP)
    time.sleep(0.3)
    t.problem(t.ask(), 400, "key-missing")
    t.proxy.write(good.replace("required: true", "required: false"))
    t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: t.ask().status == 201, 5, "a good file is taken again")


@test("SIGHUP that changes what cannot change while running: named", "asan")
def fixed_settings(t):
    t.einmal()
    for setting in ({"listen": [{"address": "127.0.0.1:1"}]}, {"store": {"path": "/elsewhere"}}):
        t.proxy.configure(**setting)
        mark = len(t.proxy.stderr())
        t.proxy.signal(signal.SIGHUP)
        name = list(setting)[0]
        t.wait_until(lambda: name in t.proxy.stderr()[mark:], 5, "%s is named" % name)
        t.fresh(t.ask(key="k-" + name))


@test("20 SIGHUPs a second under load: nothing fails, nothing runs twice (O02)", "race asan", seconds=60)
def reload_under_load(t):
    t.einmal(workers=4)
    failures = []

    def load(number):
        client = t.client()
        try:
            for n in range(40):
                for _ in range(2):
                    answer = client.ask(key="l%d-%d" % (number, n))
                    if answer.status != 201:
                        failures.append(answer)
        except (Closed, Truncated, OSError) as error:
            failures.append(repr(error))
    threads = [t.thread(load, number) for number in range(8)]
    for number in range(20):
        t.proxy.configure(route={"wait_timeout": "%ds" % (10 + number)})
        t.proxy.signal(signal.SIGHUP)
        time.sleep(0.05)
    for thread in threads:
        thread.join(40)
    t.equal(failures, [], "failures")
    t.effects(8 * 40)
    t.equal(sum(1 for n in t.api.effects.values() if n > 1), 0, "twice")


@test("a change of what identifies actions is told at start and at reload", "asan")
def identification_changed(t):
    t.einmal()
    t.fresh(t.ask(key="k"))
    t.close_clients()
    t.equal(t.proxy.stop(), 0, "exit code")
    t.proxy.configure(route={"scope": ["header:X-User"]})
    mark = len(t.proxy.stderr())
    t.proxy.start()
    t.wait_until(lambda: "orders" in t.proxy.stderr()[mark:] and "scope" in t.proxy.stderr()[mark:], 3, "warned at start")
    t.fresh(t.ask(key="k"), text="as told: another action now")
    mark = len(t.proxy.stderr())
    t.proxy.configure(route={"scope": ["header:X-User"], "fingerprint": "none"})
    t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: "orders" in t.proxy.stderr()[mark:] and "fingerprint" in t.proxy.stderr()[mark:], 3, "warned at reload")


@test("200 idle clients cost little and disturb nobody", "asan")
def idle_clients(t):
    t.einmal()
    t.ask(key="warm")
    before = t.proxy.memory()
    clients = [t.client() for _ in range(200)]
    for client in clients[::2]:
        t.status(client.ask("GET", target="/free"), 200)
    if not t.options.sanitizer:
        t.check(t.proxy.memory() - before < 200 * 8 + 1024, "memory of idle connections (KiB)", t.proxy.memory() - before)
    for number in range(20):
        answer = t.ask(key="k%d" % number)
        t.fresh(answer)
        t.within(answer.took, 1.0, "a request beside idle connections")
    for client in clients:
        t.status(client.ask("GET", target="/free"), 200, "an idle one is served")


@test("limits.connections: beyond it nobody is accepted until one closes", "asan")
def connection_limit(t):
    t.einmal(limits={"connections": 10})
    clients = [t.client() for _ in range(10)]
    for client in clients:
        t.status(client.ask("GET", target="/free"), 200)
    beyond = t.client().post(method="GET", target="/free")
    t.check(beyond.waits(0.5), "the eleventh waits")
    clients[3].close()
    t.status(beyond.read("GET"), 200, "served when one closed")
    t.status(clients[0].ask("GET", target="/free"), 200, "the others go on")
    beyond.close()
    time.sleep(0.2)


@test("keyed connections that are over count no more against the limit", "asan")
def connection_limit_churn(t):
    t.einmal(limits={"connections": 8})
    for number in range(100):
        client = t.client()
        t.status(client.ask(key="k%d" % number), 201)
        (client.reset if number % 2 else client.close)()


@test("SIGPIPE and a closed log pipe do not end it (O08)", "asan")
def broken_pipe(t):
    t.ordinary = False
    proxy = t.prepare()
    reading, writing = os.pipe()
    proxy.process = subprocess.Popen([proxy.binary, "run", "-c", proxy.file], stdin=subprocess.DEVNULL, stdout=writing,
                                     stderr=open(proxy.stderr_path, "ab"))
    os.close(writing)
    t.proxy = proxy
    proxy.wait_ready()
    t.fresh(t.ask(key="k1"))
    os.close(reading)
    for number in range(10):
        t.check(t.ask(key="p%d" % number).status == 201, "goes on without a log reader")
        time.sleep(0.02)
    proxy.signal(signal.SIGPIPE)
    time.sleep(0.1)
    t.fresh(t.ask(key="k2"))
    t.equal(proxy.stop(), 0, "exit code")


@test("a reader of the access log that does not read never blocks requests")
def blocked_log(t):
    t.ordinary = False
    proxy = t.prepare()
    reading, writing = os.pipe()
    proxy.process = subprocess.Popen([proxy.binary, "run", "-c", proxy.file], stdin=subprocess.DEVNULL, stdout=writing,
                                     stderr=open(proxy.stderr_path, "ab"))
    os.close(writing)
    t.proxy = proxy
    proxy.wait_ready()
    client = t.client()
    for number in range(2000):  # far more than a pipe holds
        t.status(client.ask("GET", target="/free"), 200)
    t.close_clients()
    proxy.signal(signal.SIGTERM)
    t.equal(proxy.wait(), 0, "exit code")
    os.close(reading)


@test("the command line: version, help, usage errors", "asan")
def command_line(t):
    t.ordinary = False

    def run(*arguments, **environment):
        clean = {n: v for n, v in os.environ.items() if not n.startswith("EINMAL_")}
        return subprocess.run([t.options.binary] + list(arguments), capture_output=True, text=True, timeout=20,
                              env=dict(clean, **environment))
    version = run("--version")
    t.equal((version.returncode, version.stdout.startswith("einmal ")), (0, True), "--version")
    for arguments in (["--help"], ["run", "--help"], ["check", "--help"]):
        done = run(*arguments)
        t.equal((done.returncode, done.stderr), (0, ""), "%r" % arguments)
        t.check("usage" in done.stdout, "help of %r" % arguments, done.stdout)
    for arguments in ([], ["frobnicate"], ["run", "--no-such"], ["run", "-c"], ["run", "extra"], ["--bogus"],
                      ["run", "--upstream", "http://a", "-c", "/x"]):
        done = run(*arguments)
        t.equal(done.returncode, 2, "exit code of %r" % arguments)
        t.check(done.stderr and not done.stdout, "told on standard error: %r" % arguments, done.stdout)
    missing = run("run", "-c", "/nonexistent/einmal.yaml")
    t.equal(missing.returncode, 2, "a missing file")
    t.check("/nonexistent/einmal.yaml" in missing.stderr, "named", missing.stderr)
    proxy = t.prepare()
    done = run("check", "-c", proxy.file)
    t.equal(done.returncode, 0, "check: %s" % done.stderr)
    for word in ("orders", "429", "retention"):
        t.check(word in done.stdout, "check prints %r" % word, done.stdout)
    by_environment = run("check", EINMAL_CONFIG=proxy.file)
    t.equal(by_environment.stdout, done.stdout, "EINMAL_CONFIG")


CONFIG = """listen:
  - address: 127.0.0.1:1
store:
  path: /tmp/never
  max_size: 1XiB
upstreams:
  api:
    url: http://127.0.0.1:1/path
routes:
  - name: orders
    match: {path: /orders}
    upstream: apo
    retenton: 24h
    required: yes please
    wait_timeout: -1s
"""


@test("configuration errors: all in one run, FILE:LINE:COLUMN, a suggestion, exit 2", "asan")
def configuration_errors(t):
    t.ordinary = False
    path = t.path("bad.yaml")
    with open(path, "w") as file:
        file.write(CONFIG)
    for command in ("check", "run"):
        done = subprocess.run([t.options.binary, command, "-c", path], capture_output=True, text=True, timeout=20)
        t.equal((done.returncode, done.stdout), (2, ""), "exit code of " + command)
        places = set(re.findall(r"^%s:(\d+):\d+: error: " % re.escape(path), done.stderr, re.M))
        t.check({"5", "8", "12", "13", "14", "15"} <= places, "lines of the errors", done.stderr)
        t.check("retention" in done.stderr, "the nearest name is suggested", done.stderr)
    rows = {"": "", "a: [": ":", "routes: 5\n": ":1:", "listen: x\nlisten: y\n": ":2:1", "upstreams: {a: {url: ftp://x}}\n": ":1:"}
    for text, place in rows.items():
        with open(path, "w") as file:
            file.write(text)
        done = subprocess.run([t.options.binary, "check", "-c", path], capture_output=True, text=True, timeout=20)
        t.equal(done.returncode, 2, "exit code for %r: %s" % (text, done.stderr))
        t.check(path + place in done.stderr, "place for %r" % text, done.stderr)


@test("variables of the environment in the file", "asan")
def environment_in_the_file(t):
    proxy = t.prepare(env={"API_URL": t.api.url, "EMPTY_ENOUGH": "x"})
    proxy.configure(upstream={"url": "${API_URL}"}, route={"scope_name": "${NO_SUCH_NAME:-fallback}"})
    t.proxy = proxy.start()
    t.fd_level = proxy.fds()
    t.fresh(t.ask(key="k"))
    bad = t.prepare("-bad")
    bad.configure(upstream={"url": "${NO_SUCH_NAME}"})
    bad.spawn()
    t.equal(bad.wait(), 2, "an unset variable")
    t.check("NO_SUCH_NAME" in bad.stderr() and "error" in bad.stderr(), "named", bad.stderr())


@test("what belongs to later versions is refused by name, not ignored", "asan")
def not_supported_yet(t):
    t.ordinary = False
    later = [{"watch_config": True}, {"timeouts": {"drain_delay": "5s"}},
             {"route": {"preset": "stripe"}}]
    for number, settings in enumerate(later):
        proxy = t.prepare("-%d" % number, **settings)
        proxy.spawn()
        t.equal(proxy.wait(), 2, "exit code for %r" % settings)
        t.check("not supported" in proxy.stderr() and "einmal.yaml:" in proxy.stderr(), "%r" % settings, proxy.stderr())
