"""Real client libraries with their own retries (clients/README.md): whatever the API does in between, one effect each."""
import json
import os
import shutil
import subprocess
import sys
import threading
import time

from lib.case import Raw, Reply, Skip, test

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients")
PYTHON = "/usr/bin/python3"  # Debian's, which sees Debian's packages
CUT = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"id\":"

# What the API does when it gets the key for the first time; afterwards (and otherwise) it answers 201. True: the client must end
# with success, since the outcome is known.
FIRST = {
    "fine": (None, True),
    "slow": (Reply(delay=1.6), True),  # the clients give up after one second
    "500": (Reply(500), False),
    "409": (Reply(409, [("Retry-After", "0")]), True),  # a status of `release`: the API says that it did not act
    "dropped": (Raw(end="close"), False),
    "reset": (Raw(0.05, end="reset"), False),
    "cut": (Raw(CUT, 0.05, end="close"), False),
}


def need(program, *modules):
    """The way to run it; skips where it is not there."""
    path = program if os.path.isabs(program) else shutil.which(program)
    if not path or not os.path.exists(path):
        raise Skip("%s is not installed" % program)
    for module in modules:
        if subprocess.run([path, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode != 0:
            raise Skip("Debian's Python has no %s" % module)
    return path


def node(script, package=None):
    program, folder = need("node"), os.environ.get("EINMAL_CLIENTS", "")
    if package and not os.path.isdir(os.path.join(folder, "node_modules", package)):
        raise Skip("the npm package %s is not installed (EINMAL_CLIENTS, clients/install.sh)" % package)
    return [program, os.path.join(HERE, script)]


def url_of(t):
    return "http://%s:%d" % t.proxy.address


def run(command, *arguments, seconds=60):
    done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds)
    if done.returncode != 0 or not done.stdout.strip():
        raise AssertionError("%s: exit %d\n%s\n%s" % (command[-1], done.returncode, done.stdout, done.stderr))
    return json.loads(done.stdout.strip().split("\n")[-1])


def orders(t, command, kinds=tuple(FIRST)):
    """Each kind of failure on a key of its own: one effect each (409: the API said that it did not act, so it is asked again)."""
    t.einmal(route={"match": {"path": "/**"}, "scope": []})
    for kind in kinds:
        if FIRST[kind][0]:
            t.api.on(FIRST[kind][0], key=kind, times=1)
    result = run(command, url_of(t), *kinds)
    t.equal(sorted(result), sorted(kinds), "each order was tried")
    for kind in kinds:
        t.effects(2 if kind == "409" else 1, "effects of '%s'" % kind, key=kind)
        if FIRST[kind][1]:
            t.equal(result[kind], 201, "the end of '%s'" % kind)


@test("curl --retry --retry-all-errors: one effect each", "clients", seconds=90)
def curl(t):
    program = need("curl")
    t.einmal(route={"match": {"path": "/**"}, "scope": []})
    for kind, (reply, known) in FIRST.items():
        if reply:
            t.api.on(reply, key=kind, times=1)
        for flags in (["--retry", "3"], ["--retry", "3", "--retry-all-errors"]):
            done = subprocess.run([program, "-s", "-m", "1", "--retry-delay", "1", "--retry-max-time", "6", *flags, "-o", os.devnull, "-w",
                                   "%{http_code}\n", "-d", "{}", "-H", "Idempotency-Key: " + kind, url_of(t) + "/orders"],
                                  stdout=subprocess.PIPE, text=True)
        t.effects(2 if kind == "409" else 1, "effects of '%s'" % kind, key=kind)
        if known:
            t.equal(done.stdout.strip().split("\n")[-1], "201", "the end of '%s'" % kind)


@test("Node's fetch: one effect each", "clients")
def fetch(t):
    orders(t, node("fetch.mjs"))


@test("undici's RetryAgent: one effect each", "clients")
def undici(t):
    orders(t, node("undici.mjs", "undici"))


@test("Python requests with urllib3 Retry: one effect each", "clients")
def requests(t):
    orders(t, [need(PYTHON, "requests"), os.path.join(HERE, "requests_client.py")], [kind for kind in FIRST if kind not in ("slow", "409")])


@test("aiohttp: one effect each", "clients")
def aiohttp(t):
    orders(t, [need(PYTHON, "aiohttp"), os.path.join(HERE, "aiohttp_client.py")])


@test("Java's HttpClient: one effect each", "clients", seconds=90)
def java(t):
    orders(t, [need("java"), os.path.join(HERE, "Orders.java")])


@test("the Stripe SDK with its automatic keys and retries: one charge each", "clients", seconds=90)
def stripe(t):
    command = node("stripe.mjs", "stripe")
    t.einmal(route={"match": {"path": "/v1/**"}, "required": True})
    left = {kind: reply for kind, (reply, _) in FIRST.items() if reply}
    charges, lock = {kind: 0 for kind in FIRST}, threading.Lock()

    class Charges:
        """A fake of /v1/charges: the order's description says how it fails the first time."""
        before_body = False

        def perform(self, connection, request):
            kind = [part.partition("=")[2] for part in request.body.decode().split("&") if part.startswith("description=")][0]
            with lock:
                charges[kind] += 1
                reply = left.pop(kind, None)
            return (reply or Reply(200, [("Content-Type", "application/json")], b'{"id":"ch_%d","object":"charge"}' % request.number)).perform(
                connection, request)

    t.api.on(Charges(), path="/v1/charges")
    result = run(command, url_of(t), *FIRST)
    t.equal(charges, {kind: 2 if kind == "409" else 1 for kind in FIRST}, "charges")
    t.check(all(request.key and request.key.startswith("stripe-node-retry-") for request in t.api.requests), "the SDK's own keys")
    for kind in ("fine", "409"):
        t.equal(result[kind], 200, "the end of '%s'" % kind)
    t.equal(result["slow"], 201, "the end of 'slow'")


@test("a WebSocket library on both sides", "clients")
def websocket(t):
    server = subprocess.Popen([*node("websocket_server.mjs", "ws"), t.address], stdout=subprocess.PIPE, text=True)
    t.cleanups.append(server.kill)
    t.einmal(upstream={"url": "http://%s:%d" % (t.address, int(server.stdout.readline()))})
    result = run(node("websocket.mjs", "ws"), url_of(t))
    t.equal(result, {"got": ["one", "two", "three", "four", "five"], "code": 1000}, "what came back")
    t.ordinary = False


@test("an event source: each event arrives when it is sent, not at the end", "clients")
def events(t):
    command = node("events.mjs", "eventsource")
    t.einmal()
    gate = threading.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    t.api.on(Raw(head, b"data: 1\n\n", 0.1, b"data: 2\n\n", 0.1, b"data: 3\n\n", gate, end="close"), path="/events")
    began = time.monotonic()
    t.equal(run(command, url_of(t)), {"got": ["1", "2", "3"]}, "events, while the answer is still open")
    t.within(time.monotonic() - began, 20, "the events")
    gate.set()


@test("a queue that delivers again after its consumer died before the acknowledgement: one mail each", "clients")
def queue(t):
    t.einmal(route={"match": {"path": "/mails"}, "scope": [], "key": [{"derive": ["header:X-Message-Id"]}], "required": True})
    command, waiting, deliveries = [sys.executable, os.path.join(HERE, "consumer.py"), url_of(t)], [], 0
    for number in range(6):
        waiting.append(("message-%d" % number, number % 3))  # dies so often
    while waiting:
        message, deaths = waiting.pop(0)
        deliveries += 1
        done = subprocess.run([*command, message, *(["die"] if deaths else [])], timeout=30)
        if done.returncode != 0:
            waiting.append((message, deaths - 1))  # not acknowledged: delivered again
    t.equal(deliveries, 12, "deliveries")
    t.effects(6, "mails", path="/mails")
    for number in range(6):
        sent = [request for request in t.api.requests if request.get("X-Message-Id") == "message-%d" % number]
        t.equal(len(sent), 1, "mails of message %d" % number)
