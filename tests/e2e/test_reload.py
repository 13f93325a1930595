"""The configuration while einmal runs: SIGHUP, watch_config, what cannot change (contract §9)."""
import os
import shutil
import signal
import ssl
import threading
import time

from lib.case import Closed, Reply, Skip, Truncated, test
from lib.certs import Authority, client_context

RELOADED, REFUSED = "configuration reloaded", "the running one stays in force"


def told(t, text, begin, wanted=1, seconds=10):
    """`text` stands so many times behind `begin` in the error log, and no more often."""
    t.wait_until(lambda: t.proxy.stderr()[begin:].count(text) >= wanted, seconds, "no line '%s'" % text)
    t.equal(t.proxy.stderr()[begin:].count(text), wanted, "lines '%s'" % text)


def hang_up(t, **settings):
    """Another configuration, by SIGHUP; back when it is in force."""
    begin = len(t.proxy.stderr())
    t.proxy.configure(**settings)
    t.proxy.signal(signal.SIGHUP)
    told(t, RELOADED, begin)
    time.sleep(0.1 * t.slow)  # a new connection comes after it in a worker's queue; this is for those that are kept


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


@test("what cannot change while running is named with both values, and stays; the rest of the file is taken", "asan")
def fixed_settings(t):
    t.einmal()
    rows = [({"listen": [{"address": "127.0.0.1:1"}]}, "listen", "%s:%d" % t.proxy.address, "127.0.0.1:1"),
            ({"store": {"path": "/elsewhere"}}, "store.path", t.proxy.store[:80], "/elsewhere"),
            ({"store": {"max_size": "128MiB"}}, "store.max_size", "64MiB", "128MiB"),
            ({"workers": 3}, "workers", "2", "3"),
            ({"limits": {"waiters": 5}}, "limits.waiters", "10000", "5")]
    for number, (setting, name, running, wanted) in enumerate(rows):
        begin = len(t.proxy.stderr())
        hang_up(t, route={"replayed_header": "X-Again-%d" % number}, **setting)
        line = [line for line in t.proxy.stderr()[begin:].split("\n") if "cannot change while running" in line]
        t.equal(len(line), 1, "one line for %s" % name)
        for text in (name + " cannot", running + " stays", wanted + " takes"):
            t.check(text in line[0].replace("\\/", "/"), "named: %r" % text, line)
        t.fresh(t.ask(key="k%d" % number))
        t.equal(t.ask(key="k%d" % number).get("X-Again-%d" % number), "true", "the rest is in force")
    t.effects(len(rows), path="/orders")


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


@test("300 SIGHUPs at once are a few reloads; the last file is in force, running requests keep the first", "asan")
def storm(t):
    t.einmal()
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="running")
    running = t.start(key="running")
    t.check(t.api.wait_count(1), "reaches the API")
    for number in range(300):
        if number % 50 == 0:
            t.proxy.configure(route={"replayed_header": "X-Again-%d" % number})
        t.proxy.signal(signal.SIGHUP)
    t.wait_until(lambda: t.ask(key="probe") and t.ask(key="probe").get("X-Again-250") == "true", 10, "the last is in force")
    gate.set()
    t.fresh(running.read())
    t.effects(1, key="running")
    t.effects(1, key="probe")
    t.check(t.proxy.stderr().count(RELOADED) <= 300, "no more reloads than signals")


@test("what can change is in force for the next request, without a restart", "asan")
def live_settings(t):
    t.einmal()
    hang_up(t, limits={"header_bytes": "2KiB"})
    t.status(t.ask(key="k", headers=[("X-Long", "x" * 3000)]), 431, "limits.header_bytes")
    hang_up(t, limits={"headers": 10})
    t.status(t.ask(key="k", headers=[("X-%d" % n, "x") for n in range(12)]), 431, "limits.headers")
    hang_up(t, limits={"request_target": 64})
    t.status(t.ask(target="/orders/" + "x" * 100), 414, "limits.request_target")
    hang_up(t, limits={"connections": 1})
    first = t.client()
    t.status(first.ask("GET", target="/free"), 200)
    second = t.client().post(method="GET", target="/free")
    t.check(second.waits(0.3), "limits.connections")
    first.close()
    t.status(second.read("GET"), 200, "accepted when the first is gone")
    second.close()
    hang_up(t, timeouts={"idle": "200ms"})
    idle = t.client()
    t.status(idle.ask("GET", target="/free"), 200)
    began = time.monotonic()
    idle.expect_end(10 * t.slow)
    t.within(time.monotonic() - began, 5, "timeouts.idle")
    hang_up(t, timeouts={"header": "200ms"})
    t.status(t.client().send(b"GET /free HTTP/1.1\r\n").read("GET"), 408, "timeouts.header")
    hang_up(t, via=True, forwarded="replace")
    t.ask(key="forwarded", headers=[("X-Forwarded-For", "192.0.2.7")])
    t.check(t.api.last().get("Via"), "via", t.api.last().headers)
    t.check("192.0.2.7" not in t.api.last().get("X-Forwarded-For"), "forwarded", t.api.last().headers)
    hang_up(t, upstream={"host": "inner.test", "response_timeout": "300ms"})
    t.ask(key="host")
    t.equal(t.api.last().get("Host"), "inner.test", "upstreams.NAME.host")
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="slow")
    t.problem(t.ask(key="slow"), 504, "upstream-timeout")
    gate.set()
    other = t.new_api()
    hang_up(t, upstream={"url": other.url})
    t.ask(key="elsewhere")
    t.equal((t.api.count(key="elsewhere"), other.count(key="elsewhere")), (0, 1), "upstreams.NAME.url")
    hang_up(t, route={"max_request_body": 10})
    t.status(t.ask(key="k", body=b"x" * 20), 413, "routes[].max_request_body")
    hang_up(t, routes=[{"name": "other", "match": {"path": "/other"}, "required": True}])
    t.problem(t.ask(target="/other"), 400, "key-missing", text="a new route")
    for _ in range(2):
        t.ask(key="unprotected")
    t.effects(2, "a route that is gone protects no more", key="unprotected")


@test("both logs change while running", "asan")
def live_logs(t):
    t.ordinary = False
    t.einmal()
    t.ask(key="k1")
    t.equal(len(t.proxy.access(1, path="/orders")), 1, "logged")
    hang_up(t, log={"access": False, "level": "debug"})
    begin = len(t.proxy.stderr())
    t.ask(key="k2")
    t.wait_until(lambda: "FORWARDING" in t.proxy.stderr()[begin:], 5, "log.level: debug")
    hang_up(t, log={"format": "text"})
    begin = len(t.proxy.stdout())
    t.ask(key="k3")
    t.wait_until(lambda: t.proxy.stdout()[begin:].endswith("\n"), 5, "log.access: back")
    t.check("{" not in t.proxy.stdout()[begin:] and "/orders" in t.proxy.stdout()[begin:], "log.format: text", t.proxy.stdout()[begin:])
    t.equal(len([line for line in t.proxy.stdout()[:begin].split("\n") if "/orders" in line]), 1, "log.access: false")
    hang_up(t)
    t.equal(t.proxy.stop(), 0, "exit code")


# ---- watch_config ----


def watching(t, **settings):
    t.einmal(watch_config=True, **settings)
    return len(t.proxy.stderr())


@test("watch_config: written in place, renamed over, gone and come back; an invalid file is told once and changes nothing", "asan")
def watched_file(t):
    begin = watching(t)
    t.proxy.configure(watch_config=True, route={"required": True})
    told(t, RELOADED, begin)
    t.problem(t.ask(), 400, "key-missing", text="written in place")
    good = t.proxy.read(t.proxy.file)
    with open(t.proxy.file + ".new", "w", encoding="ascii") as out:
        out.write(good.replace("required: true", "required: false"))
    os.rename(t.proxy.file + ".new", t.proxy.file)
    told(t, RELOADED, begin, 2)
    t.status(t.ask(), 201, "renamed over")
    t.proxy.write(good.replace("required: true", "requird: true"))
    told(t, REFUSED, begin)
    os.utime(t.proxy.file)
    t.status(t.ask(), 201, "the running one stays")
    os.unlink(t.proxy.file)
    told(t, REFUSED, begin, 2)
    t.status(t.ask(), 201, "the running one stays when the file is gone")
    t.proxy.write(good)
    told(t, RELOADED, begin, 3)
    t.problem(t.ask(), 400, "key-missing", text="come back")
    t.equal(t.proxy.stderr()[begin:].count(REFUSED), 2, "each told once")
    t.proxy.configure(watch_config=True, workers=3)
    told(t, "workers cannot change while running: 2 stays in force, 3 takes effect at the next start", begin)


@test("watch_config is switched on and off by the file itself")
def watch_switched(t):
    t.einmal()
    begin = len(t.proxy.stderr())
    t.proxy.configure(route={"required": True})
    time.sleep(0.6)
    t.status(t.ask(), 201, "not watched")
    hang_up(t, watch_config=True, route={"required": True})
    begin = len(t.proxy.stderr())
    t.proxy.configure(watch_config=True)
    told(t, RELOADED, begin)
    t.status(t.ask(), 201, "watched")
    t.proxy.configure()
    told(t, RELOADED, begin, 2)
    t.proxy.configure(route={"required": True})
    time.sleep(0.6)
    t.status(t.ask(), 201, "not watched any more")


class Volume:
    """A ConfigMap or Secret as kubelet's AtomicWriter keeps it."""

    def __init__(self, folder):
        self.folder, self.version = folder, 0
        os.makedirs(folder)

    def write(self, files):
        self.version += 1
        name = "..2026_01_02_03_04_%02d.%d" % (self.version, 1000 + self.version)
        os.mkdir(os.path.join(self.folder, name))
        for file, content in files.items():
            with open(os.path.join(self.folder, name, file), "wb") as out:
                out.write(content)
        data = os.path.join(self.folder, "..data")
        before = os.readlink(data) if os.path.islink(data) else None
        os.symlink(name, data + "_tmp")
        os.rename(data + "_tmp", data)
        for file in files:
            if not os.path.lexists(os.path.join(self.folder, file)):
                os.symlink("..data/" + file, os.path.join(self.folder, file))
        if before:
            shutil.rmtree(os.path.join(self.folder, before))


@test("watch_config: ConfigMap and Secret volumes; a renewed certificate is served, one that does not match its key is not", "asan")
def volumes(t):
    authority = Authority(t.directory)
    pairs = []
    for number in range(3):
        pair = authority.issue("server%d" % number, names="DNS:shop.test")
        pairs.append({"tls.crt": open(pair[0], "rb").read(), "tls.key": open(pair[1], "rb").read()})
    secret, config = Volume(t.path("secret")), Volume(t.path("config"))
    secret.write(pairs[0])
    tls = {"certificate": t.path("secret/tls.crt"), "key": t.path("secret/tls.key")}
    t.tls, t.tls_name = client_context(authority.file), "shop.test"
    proxy = t.prepare(watch_config=True, tls=tls)

    def publish(**settings):
        proxy.configure(watch_config=True, tls=tls, **settings)
        config.write({"einmal.yaml": open(proxy.file, "rb").read()})
    publish()
    proxy.spawn(["run", "-c", t.path("config/einmal.yaml")])
    proxy.wait_ready()
    t.proxy, t.fd_level = proxy, proxy.fds()

    def serves(pair):
        shown = t.client().sock.getpeercert(binary_form=True)
        return shown == ssl.PEM_cert_to_DER_cert(pair["tls.crt"].decode())
    begin = len(proxy.stderr())
    t.check(serves(pairs[0]), "the first certificate")
    kept = t.client()
    t.fresh(kept.ask(key="before"))
    for number in (1, 2):
        secret.write(pairs[number])
        told(t, RELOADED, begin, number)
        t.check(serves(pairs[number]), "certificate %d" % number)
    secret.write({"tls.crt": pairs[0]["tls.crt"], "tls.key": pairs[1]["tls.key"]})
    told(t, REFUSED, begin)
    t.check(serves(pairs[2]), "the one before stays")
    secret.write(pairs[1])
    told(t, RELOADED, begin, 3)
    t.check(serves(pairs[1]), "mended")
    publish(route={"required": True})
    told(t, RELOADED, begin, 4)
    t.problem(t.ask(), 400, "key-missing", text="the ConfigMap")
    publish()
    told(t, RELOADED, begin, 5)
    t.check(kept.ask(key="before").replayed, "connections stay")
    t.effects(1, key="before")


@test("watch_config: a certificate that a new file names and that comes later", "asan")
def late_certificate(t):
    authority = Authority(t.directory)
    ca = t.path("api-ca.crt")
    api = {"url": "https://localhost:1", "tls": {"ca": ca}}
    begin = watching(t)
    t.proxy.configure(watch_config=True, upstreams={"late": api}, default_upstream="api")
    told(t, REFUSED, begin)
    shutil.copy(authority.file, ca)
    told(t, RELOADED, begin)


@test("watch_config under load: nothing fails, nothing runs twice; a change in a drain is ignored", "asan", seconds=60)
def watch_under_load(t):
    t.ordinary = False
    begin = watching(t, timeouts={"drain_delay": "1s"})
    failures = []

    def load(number):
        client = t.client()
        try:
            for n in range(60):
                answers = [client.ask(key="l%d-%d" % (number, n)) for _ in range(2)]
                if [answer.status for answer in answers] != [201, 201] or not answers[1].replayed:
                    failures.append(answers)
                time.sleep(0.01)
        except (Closed, Truncated, OSError) as error:
            failures.append(repr(error))
    threads = [t.thread(load, number) for number in range(4)]
    for number in range(10):
        t.proxy.configure(watch_config=True, timeouts={"drain_delay": "1s"}, route={"wait_timeout": "%ds" % (10 + number)})
        time.sleep(0.1)
    for thread in threads:
        thread.join(40)
    t.equal(failures, [], "failures")
    t.effects(4 * 60)
    t.equal(sum(1 for n in t.api.effects.values() if n > 1), 0, "twice")
    t.wait_until(lambda: RELOADED in t.proxy.stderr()[begin:], 5, "reloaded")
    time.sleep(0.5 * t.slow)
    begin = len(t.proxy.stderr())
    t.proxy.signal(signal.SIGTERM)
    t.wait_until(lambda: "draining" in t.proxy.stderr()[begin:], 5, "drains")
    t.proxy.configure(watch_config=True, route={"required": True})
    t.wait_until(lambda: "not read again" in t.proxy.stderr()[begin:], 5, "ignored")
    t.status(t.ask(), 201, "the old rule")
    t.equal(t.proxy.wait(), 0, "exit code")
    t.check(RELOADED not in t.proxy.stderr()[begin:], "no reload in a drain")


@test("watch_config: a single file that is mounted, as docker run -v FILE:FILE does")
def bind_mount(t):
    if os.geteuid() != 0 or os.system("unshare --mount true 2>/dev/null"):
        raise Skip("no right to mount")
    proxy = t.prepare(watch_config=True)
    inside = t.path("mounted.yaml")
    open(inside, "w", encoding="ascii").close()
    command = 'mount --bind "$1" "$2" && exec "$0" run -c "$2"'
    proxy.binary, real = "unshare", proxy.binary
    proxy.spawn(["--mount", "sh", "-c", command, real, proxy.file, inside])
    proxy.wait_ready()
    t.proxy, t.fd_level = proxy, proxy.fds()
    begin = len(proxy.stderr())
    proxy.configure(watch_config=True, route={"required": True})
    told(t, RELOADED, begin)
    t.problem(t.ask(), 400, "key-missing")
    proxy.configure(watch_config=True)
    told(t, RELOADED, begin, 2)
