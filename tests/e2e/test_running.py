"""Start, limits, command line (contract §2, §9)."""
import os
import re
import signal
import subprocess
import time

from lib.case import test


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
        t.within(answer.took, 4.0, "a request beside idle connections")
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
