"""A test: how it is declared, what it gets, what holds after each.

`@test("why", …)` registers a function that gets a Case. The Case makes the API, the proxy and clients, all on a loopback
address of its own (one per process), so that tests run side by side without choosing ports together. After the test
the same must always hold: an ordinary request works, einmal is alive, its descriptors are back to about the level
before, the API saw no malformed request, and SIGTERM ends it with 0.
"""
import json
import os
import shutil
import tempfile
import threading
import time

from lib.api import Api, Raw, Reply
from lib.client import Client, Closed, ProtocolError, Truncated, request_bytes
from lib.proxy import Einmal

TESTS = []
LOG_FIELDS = sorted(["time", "method", "host", "path", "route", "status", "outcome", "action", "task", "request_id", "bytes_in",
                     "bytes_out", "duration_ms", "upstream_ms", "wait_ms", "client", "trace_id"])
FD_TOLERANCE = 6  # idle upstream connections of the workers


class Skip(Exception):
    pass


class Failure(AssertionError):
    pass


class Test:
    def __init__(self, function, why, sets, seconds):
        self.function, self.why, self.sets, self.seconds = function, why, sets, seconds
        self.name = "%s.%s" % (function.__module__.replace("test_", ""), function.__name__)


def test(why, sets="", seconds=40):
    """`sets`: race, asan, crash-steps beside `all`, in which every test is."""
    def register(function):
        TESTS.append(Test(function, why, {"all"} | set(sets.split()), seconds))
        return function
    return register


class Options:
    """What the runner was told."""

    def __init__(self, binary, slow=1.0, support=None):
        self.binary, self.slow, self.support = binary, slow, support
        with open(binary, "rb") as file:
            content = file.read()
        self.sanitizer = "asan" if b"__asan_init" in content else "tsan" if b"__tsan_init" in content else None
        self.crash_points = b"crash-at" in content


def own_address():
    """A loopback address per process."""
    pid = os.getpid()
    return "127.%d.%d.%d" % (64 + (pid >> 14 & 63), pid >> 7 & 127, 1 + (pid & 127))


class Case:
    def __init__(self, options, keep=None):
        self.options, self.slow = options, options.slow
        self.directory = tempfile.mkdtemp(prefix="einmal-e2e-")
        self.address = own_address()
        self.apis, self.proxies, self.clients, self.cleanups = [], [], [], []
        self.api = self.new_api()
        self.proxy = None
        self.fd_level = 0
        self.tls, self.tls_name = None, None  # what clients use, where einmal serves TLS
        self.ordinary = True  # the last request and the exit code are checked

    # ---- making things ----

    def new_api(self, **what):
        api = Api(self.address, **what)
        self.apis.append(api)
        return api

    def path(self, name):
        return os.path.join(self.directory, name)

    def prepare(self, name="", env=None, **settings):
        """An einmal with its configuration written, not started."""
        directory = self.path("einmal" + name)
        os.makedirs(directory, exist_ok=True)
        proxy = Einmal(self.options.binary, directory, self.address, self.api.url, self.slow, env, **settings)
        self.proxies.append(proxy)
        return proxy

    def einmal(self, **settings):
        """The einmal of this test, started."""
        self.proxy = self.prepare(**settings).start()
        self.fd_level = self.proxy.fds()
        return self.proxy

    def client(self, address=None, timeout=15.0, **what):
        if self.tls and address is None:
            what = {"tls": self.tls, "name": self.tls_name, **what}
        client = Client(address or self.proxy.address, timeout * self.slow, **what)
        self.clients.append(client)
        return client

    def ask(self, method="POST", **what):
        """One request on a connection of its own."""
        client = self.client()
        try:
            return client.ask(method, **what)
        finally:
            client.close()

    def start(self, **what):
        """Sends one request on a connection of its own; the answer is read later."""
        return self.client().post(**what)

    def thread(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        thread.start()
        return thread

    # ---- checking ----

    def check(self, holds, text, *details):
        if not holds:
            raise Failure(text + "".join("\n    %r" % (detail,) for detail in details))

    def equal(self, got, wanted, text):
        if got != wanted:
            raise Failure("%s: got %s, wanted %s" % (text, short(got), short(wanted)))

    def status(self, response, wanted, text="status"):
        if response.status != wanted:
            raise Failure("%s: got %r, wanted %d" % (text, response, wanted))
        return response

    def effects(self, wanted, text="effects at the API", **which):
        got = self.api.count(**which)
        if got != wanted:
            raise Failure("%s: got %d, wanted %d (%r)" % (text, got, wanted, which))

    def problem(self, response, status, code, retry_after=None, action=None, text=""):
        """One of einmal's own answers, in every detail that holds for all."""
        text = text or code
        self.status(response, status, text)
        self.equal(response.get("Content-Type"), "application/problem+json", text + ": Content-Type")
        self.equal(response.get("Cache-Control"), "no-store", text + ": Cache-Control")
        body = json.loads(response.body)
        self.equal(body.get("code"), code, text + ": code")
        self.equal(body.get("type"), "urn:einmal:problem:" + code, text + ": type")
        self.equal(body.get("status"), status, text + ": status member")
        for member in ("title", "detail"):
            self.check(isinstance(body.get(member), str) and body[member], "%s: %s is a text" % (text, member), body)
        if retry_after:
            self.check((response.get("Retry-After") or "").isdigit(), text + ": Retry-After", response)
        if retry_after is False:
            self.equal(response.get("Retry-After"), None, text + ": no Retry-After")
        if action:
            self.check(is_action_id(body.get("action")), text + ": action id", body)
            self.check(body.get("state"), text + ": state", body)
        self.equal(response.replayed, False, text + ": not marked as a replay")
        return body

    def replay(self, response, first, text="replay"):
        """The first answer again, marked."""
        self.equal(response.status, first.status, text + ": status")
        self.check(response.replayed, text + ": marker", response)
        self.equal(response.body, first.body, text + ": body")
        self.equal(response.get("Location"), first.get("Location"), text + ": Location")

    def fresh(self, response, status=201, text="first answer"):
        self.status(response, status, text)
        self.equal(response.all("Idempotent-Replayed"), [], text + ": no marker on a first answer")
        return response

    def within(self, seconds, wanted, text):
        """Upper bounds are generous: machines are busy."""
        limit = wanted * max(1.0, self.slow)
        if seconds > limit:
            raise Failure("%s: took %.3f s, wanted at most %.3f s" % (text, seconds, limit))

    def wait_until(self, holds, seconds=5.0, text="waited in vain"):
        deadline = time.monotonic() + seconds * self.slow
        while not holds():
            if time.monotonic() > deadline:
                raise Failure(text)
            time.sleep(0.01)

    def settled(self, read, seconds=1.0, patience=15.0):
        """What read() says once it has said the same for so long."""
        end, since, last = time.monotonic() + patience * self.slow, time.monotonic(), read()
        while time.monotonic() - since < seconds:
            if time.monotonic() > end:
                raise Failure("it does not come to rest: %r" % (last,))
            time.sleep(0.05)
            if read() != last:
                since, last = time.monotonic(), read()
        return last

    def rounds(self, number, least=5):
        """Fewer where a sanitizer slows everything down."""
        return max(least, int(number / self.slow))

    # ---- afterwards ----

    def close_clients(self):
        for client in self.clients:
            client.close()
        self.clients = []

    def finish(self):
        """What must hold after every test."""
        self.close_clients()
        for api in self.apis:
            self.equal(api.errors, [], "malformed requests at the API")
        self.check_output()
        if not (self.ordinary and self.proxy):
            return
        self.check(self.proxy.alive, "einmal is alive after the test")
        self.api.rules, self.api.default = [], None
        if not self.api.listener:
            self.api.start()
        target = "/orders/ordinary"
        response = self.ask(target=target, key="ordinary-%d" % time.monotonic_ns())
        self.check(response.status in (201, 200), "an ordinary request works afterwards", response)
        self.close_clients()
        self.wait_until(lambda: self.proxy.fds() <= self.fd_level + FD_TOLERANCE, 8.0, "open descriptors")
        self.equal(self.proxy.stop(), 0, "exit code after SIGTERM")

    def check_output(self):
        """Standard output holds the access log only, every line complete; neither log holds a credential."""
        for proxy in self.proxies:
            for line in proxy.stdout().split("\n")[:-1]:
                if line.startswith("{"):
                    self.equal(sorted(json.loads(line)), LOG_FIELDS, "members of an access line")
            for text in (proxy.stdout(), proxy.stderr()):
                self.check("tok-alice" not in text, "no credential in the logs")

    def clean_up(self):
        for function in reversed(self.cleanups):
            try:
                function()
            except Exception as error:  # the next clean-up must run all the same
                print("clean-up: %s" % error)
        for api in self.apis:
            api.close()
        self.close_clients()
        for proxy in self.proxies:
            if proxy.process is not None:
                proxy.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def show(self):
        """What a failing test shows of the proxy."""
        for proxy in self.proxies:
            print("---- configuration of %s" % os.path.basename(proxy.directory))
            print(tail(proxy.read(proxy.file), 60))
            print("---- its standard error (end)")
            print(tail(proxy.stderr(), 40))
            print("---- its access log (end)")
            print(tail(proxy.stdout(), 12))
            if proxy.process is not None:
                print("---- exit code: %s" % proxy.process.poll())


def is_action_id(text):
    return isinstance(text, str) and len(text) == 64 and all(c in "0123456789abcdef" for c in text)


def short(value):
    text = repr(value)
    return text if len(text) < 600 else text[:600] + "…"


def tail(text, lines):
    return "\n".join(text.rstrip("\n").split("\n")[-lines:])


__all__ = ["test", "Skip", "Failure", "Case", "Options", "TESTS", "Raw", "Reply", "Client", "Closed", "Truncated",
           "ProtocolError", "request_bytes", "is_action_id"]
