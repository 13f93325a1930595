"""The store seen from outside: durable before sent, full, foreign writers, second owners, bad places
(contract §4 "Failures of the store", §9; cases D02, D03, D07, D08, D10, D12, D13, S30)."""
import ctypes
import ctypes.util
import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess
import threading
import time

from lib.case import Failure, Reply, Skip, test


def fill(t, client, prefix, body=b"x" * 3000, most=4000):
    """New keys until one is refused; returns the keys that were executed with their answers."""
    t.api.reply(Reply(201, [], body))
    done = {}
    for number in range(most):
        key = "%s%d" % (prefix, number)
        answer = client.ask(key=key)
        if answer.status == 503:
            t.problem(answer, 503, "store-unavailable", retry_after=True)
            t.effects(0, "nothing is forwarded for a refused key", key=key)
            t.check(not answer.closes, "the connection goes on", answer)
            return done
        done[key] = t.fresh(answer)
    raise Failure("never full after %d keys" % most)


@test("a full store: 503 for new keys, replays go on, unkeyed passes, expiry brings room without a restart (D02)", "asan",
      seconds=60)
def full_store(t):
    t.einmal(store={"max_size": "1MiB"}, routes=[
        {"name": "long", "match": {"path": "/orders/long"}, "upstream": "api"},
        {"name": "orders", "match": {"path": "/orders/**"}, "upstream": "api", "retention": "6s"}])
    client = t.client()
    kept = t.fresh(client.ask(key="kept", target="/orders/long"))
    began = time.monotonic()
    done = fill(t, client, "f")
    t.check(len(done) > 20, "room for a good number of records", len(done))
    for number in range(5):
        t.problem(client.ask(key="more%d" % number), 503, "store-unavailable", retry_after=True)
    t.replay(client.ask(key="kept", target="/orders/long"), kept)
    if time.monotonic() - began < 4:
        last = list(done)[-1]
        t.replay(client.ask(key=last), done[last])
        t.problem(client.ask(key=last, body=b"other"), 422, "key-reused")
    t.status(client.ask("GET", target="/free"), 201)
    t.status(client.ask(target="/orders"), 201, "without a key")
    t.effects(1, key="kept")
    t.wait_until(lambda: client.ask(key="again-%d" % time.monotonic_ns()).status == 201, 10, "sweeping makes room")
    t.replay(client.ask(key="kept", target="/orders/long"), kept)
    time.sleep(2)
    second = fill(t, client, "s")
    t.check(len(second) >= len(done) // 2, "room again for as many", len(second), len(done))
    t.equal([k for (m, p, k), n in t.api.effects.items() if n > 1 and k], [], "keys executed twice")
    time.sleep(8)  # they expire after 6 s and are swept within another one


@test("a big answer into a nearly full store: given to the client, recorded without body where it does not fit (D03)", "asan",
      seconds=60)
def big_answer_nearly_full(t):
    t.einmal(store={"max_size": "1MiB"}, route={"retention": "30s"})
    client = t.client()
    t.api.on(Reply(200, [], b"y" * 600000), key="big0", times=1)
    first = t.fresh(client.ask(key="big0"), 200)
    again = client.ask(key="big0")
    t.check(again.status in (200, 409), "a replay or response-not-kept", again)
    if again.status == 200:
        t.replay(again, first)
    for number in range(1, 400):
        key = "big%d" % number
        t.api.on(Reply(200, [], b"z" * 60000), key=key, times=1)
        answer = client.ask(key=key)
        if answer.status == 503:
            t.effects(0, key=key)
            break
        t.equal(len(t.fresh(answer, 200).body), 60000, "the client gets it")
        again = client.ask(key=key)
        if again.status == 200:
            t.replay(again, answer)
        else:
            t.problem(again, 409, "response-not-kept")
        t.effects(1, key=key)
    else:
        raise Failure("never full")
    t.ordinary = False
    t.equal(t.proxy.stop(), 0, "exit code")


@test("a full store that is restarted: still full, still replays, still recovers", "asan", seconds=60)
def full_store_restarted(t):
    t.einmal(store={"max_size": "1MiB"}, route={"retention": "5s"})
    client = t.client()
    done = fill(t, client, "f")
    began = time.monotonic()
    t.proxy.restart()
    key = list(done)[-1]
    if time.monotonic() - began < 3:
        t.replay(t.ask(key=key), done[key])
    time.sleep(5)
    t.wait_until(lambda: t.ask(key="again-%d" % time.monotonic_ns()).status == 201, 10, "sweeping makes room")


@test("on_store_error: pass forwards unprotected and says so; known keys are still replayed (S30)", "asan", seconds=60)
def store_error_pass(t):
    t.einmal(store={"max_size": "1MiB"}, routes=[
        {"name": "pass", "match": {"path": "/orders/pass"}, "upstream": "api", "on_store_error": "pass"},
        {"name": "orders", "match": {"path": "/orders/**"}, "upstream": "api"}])
    client = t.client()
    first = t.fresh(client.ask(key="known", target="/orders/pass"))
    t.equal(first.all("Idempotency-Degraded"), [], "not marked while all is well")
    fill(t, client, "f")
    t.api.reply(None)
    for number in (1, 2):
        answer = client.ask(key="new", target="/orders/pass")
        t.status(answer, 201)
        t.equal(answer.all("Idempotency-Degraded"), ["true"], "marked")
        t.equal(answer.all("Idempotent-Replayed"), [], "no replay")
        t.effects(number, key="new")
    t.replay(client.ask(key="known", target="/orders/pass"), first)
    t.problem(client.ask(key="known", target="/orders/pass", body=b"other"), 422, "key-reused")
    t.effects(1, key="known")
    t.check(t.proxy.access(2, outcome="degraded"), "degraded in the log")
    t.ordinary = False
    t.equal(t.proxy.stop(), 0, "exit code")


@test("a full file system: 503, never a crash; room again when there is room (tmpfs)", "asan", seconds=60)
def full_file_system(t):
    if os.geteuid() != 0:
        raise Skip("needs root to mount a tmpfs")
    place = t.path("small")
    os.mkdir(place)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True).returncode != 0:
        raise Skip("tmpfs cannot be mounted here")
    t.cleanups.append(lambda: subprocess.run(["umount", "-l", place], check=False))
    t.einmal(store={"path": place + "/store", "max_size": "64MiB"}, route={"retention": "60s"})
    client = t.client()
    first = t.fresh(client.ask(key="kept"))
    filler = os.open(place + "/filler", os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(filler, b"\0" * 4096)
    except OSError:
        os.close(filler)
    refused = 0
    t.api.reply(Reply(201, [], b"x" * 3000))
    for number in range(300):
        answer = client.ask(key="n%d" % number)
        t.check(answer.status in (201, 503), "executed or refused", answer)
        if answer.status == 503:
            t.problem(answer, 503, "store-unavailable", retry_after=True)
            t.effects(0, key="n%d" % number)
            refused += 1
        else:
            t.effects(1, key="n%d" % number)
            again = client.ask(key="n%d" % number)
            t.check(again.replayed or again.status in (409, 503), "never executed again", again)
            t.effects(1, key="n%d" % number)
    t.check(refused > 0, "the disk was full at last")
    t.replay(client.ask(key="kept"), first)
    os.unlink(place + "/filler")
    t.api.reply(None)
    t.wait_until(lambda: client.ask(key="again-%d" % time.monotonic_ns()).status == 201, 10, "goes on without a restart")
    t.close_clients()
    t.finish()
    t.ordinary = False


@test("a second einmal on the same directory: exit 1, directory and pid named; the first one is not disturbed (D13)", "asan")
def second_on_the_directory(t):
    t.einmal()
    second = t.prepare("-second", store={"path": t.proxy.store})
    second.spawn()
    t.equal(second.wait(), 1, "exit code")
    text = second.stderr()
    t.check(t.proxy.store in text, "the directory is named", text)
    t.check(re.search(r"\b%d\b" % t.proxy.pid, text), "the holder's pid is named", text)
    t.fresh(t.ask(key="k"))
    began = time.monotonic()
    second.configure(store={"path": t.proxy.store, "lock_wait": "1s"})
    second.spawn()
    t.equal(second.wait(), 1, "exit code after lock_wait")
    t.check(time.monotonic() - began > 0.9, "waited")
    second.configure(store={"path": t.proxy.store, "lock_wait": "20s"})
    second.spawn()
    time.sleep(0.3)
    t.check(second.alive, "waits for the directory")
    first = t.ask(key="k")
    t.close_clients()
    t.equal(t.proxy.stop(), 0, "the first one ends")
    second.wait_ready()
    t.proxy = second
    t.fd_level = second.fds()
    again = t.ask(key="k")
    t.equal((again.status, again.body, again.replayed), (201, first.body, True), "the next owner knows the keys")


@test("a second einmal on the same port: exit 1, the address named, whatever its store", "asan")
def second_on_the_port(t):
    t.einmal()
    second = t.prepare("-second")
    second.configure(listen=[{"address": "%s:%d" % t.proxy.address}])
    second.spawn()
    t.equal(second.wait(), 1, "exit code")
    t.check("%s:%d" % t.proxy.address in second.stderr(), "the address is named", second.stderr())
    for number in range(20):
        t.fresh(t.ask(key="k%d" % number))
    t.effects(20)


def start_fails(t, proxy, code, *words):
    began = time.monotonic()
    proxy.spawn()
    t.equal(proxy.wait(), code, "exit code (%s)" % (words,))
    t.within(time.monotonic() - began, 5, "fails at once")
    for word in words:
        t.check(word in proxy.stderr(), "the message names %r" % word, proxy.stderr())


@test("unsuitable places: a clear message that names the path, exit 1, before listening (D13)", "asan")
def unsuitable_places(t):
    t.ordinary = False
    number = [0]

    def prepared(path, **store):
        number[0] += 1
        proxy = t.prepare("-%d" % number[0])
        proxy.configure(store=dict({"path": path}, **store))
        return proxy
    start_fails(t, prepared(t.path("missing"), create=False), 1, t.path("missing"))
    with open(t.path("file"), "w") as file:
        file.write("x")
    start_fails(t, prepared(t.path("file")), 1, t.path("file"))
    # A truncated store, and one that is none.
    proxy = t.proxy = prepared(t.path("good"))
    proxy.start()
    t.fresh(t.ask(key="k"))
    t.equal(proxy.stop(), 0, "exit code")
    shutil.copytree(t.path("good"), t.path("cut"))
    with open(t.path("cut/data.mdb"), "r+b") as data:
        data.truncate(5000)
    start_fails(t, prepared(t.path("cut")), 1, t.path("cut"))
    shutil.copytree(t.path("good"), t.path("junk"))
    with open(t.path("junk/data.mdb"), "r+b") as data:
        data.write(b"junk" * 4096)
    start_fails(t, prepared(t.path("junk")), 1, t.path("junk"))
    # Read-only file system.
    os.mkdir(t.path("readonly"))
    if os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", t.path("readonly")],
                                            capture_output=True).returncode == 0:
        t.cleanups.append(lambda: subprocess.run(["umount", "-l", t.path("readonly")], check=False))
        start_fails(t, prepared(t.path("readonly") + "/store"), 1, t.path("readonly"))
    proxy.start()
    t.check(t.ask(key="k").replayed, "the good one still is")
    t.equal(proxy.stop(), 0, "exit code")


@test("a new store is announced and 0700; an existing one is not", "asan")
def new_store(t):
    t.einmal()
    t.check(t.proxy.store in t.proxy.stderr(), "a new store is announced with its path", t.proxy.stderr())
    t.equal(os.stat(t.proxy.store).st_mode & 0o777, 0o700, "mode of the directory")
    t.check("new store" in t.proxy.stderr(), "in these words", t.proxy.stderr())
    t.proxy.restart()
    t.equal(t.proxy.stderr().count("new store"), 1, "an existing one is not announced as new")


@test("one open of the store in the process, kept over reloads; lock.mdb stays locked; all descriptors close on exec (D07, D08)",
      "asan")
def descriptors(t):
    t.einmal()
    t.fresh(t.ask(key="k"))

    def opened():
        return sorted(os.path.basename(target) for _, target in t.proxy.fd_targets() if target.startswith(t.proxy.store))
    before = opened()
    t.equal(before.count("lock.mdb"), 1, "lock.mdb is open once")
    for _ in range(5):
        t.proxy.signal(signal.SIGHUP)
        time.sleep(0.1)
    t.fresh(t.ask(key="k2"))
    t.equal(opened(), before, "descriptors on the store after reloads")
    for number, target in t.proxy.fd_targets():
        if number <= 2:
            continue
        try:
            with open("/proc/%d/fdinfo/%d" % (t.proxy.pid, number)) as info:
                flags = int(re.search(r"flags:\s+([0-7]+)", info.read()).group(1), 8)
        except FileNotFoundError:
            continue  # closed meanwhile
        t.check(flags & os.O_CLOEXEC, "close on exec: %s" % target)
    # LMDB's own read lock on lock.mdb would be gone if anything in the process had opened and closed that file.
    with open(t.proxy.store + "/lock.mdb", "r+b") as lock:
        probe = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        kind = struct.unpack("hhqqi4x", fcntl.fcntl(lock, fcntl.F_GETLK, probe))
    t.check(kind[0] == fcntl.F_RDLCK and kind[4] == t.proxy.pid, "lock.mdb is still locked by einmal", kind)


class ForeignWriter:
    """Another process (this one) that holds the write transaction of the store, as mdb_load would."""

    def __init__(self, t, path):
        name = ctypes.util.find_library("lmdb") or "liblmdb.so.0"
        try:
            self.lib = ctypes.CDLL(name)
        except OSError:
            raise Skip("liblmdb cannot be loaded by ctypes")
        self.env, self.txn = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("mdb_env_create", ctypes.byref(self.env))
        self.call("mdb_env_set_maxdbs", self.env, ctypes.c_uint(16))
        self.call("mdb_env_set_mapsize", self.env, ctypes.c_size_t(64 << 20))
        self.call("mdb_env_open", self.env, path.encode(), ctypes.c_uint(0), ctypes.c_uint(0o600))

    def call(self, name, *arguments):
        code = getattr(self.lib, name)(*arguments)
        if code:
            raise Failure("%s: %d" % (name, code))

    def begin(self):
        self.call("mdb_txn_begin", self.env, None, ctypes.c_uint(0), ctypes.byref(self.txn))

    def end(self):
        self.lib.mdb_txn_abort.argtypes = [ctypes.c_void_p]
        self.lib.mdb_txn_abort(self.txn)

    def close(self):
        self.lib.mdb_env_close.argtypes = [ctypes.c_void_p]
        self.lib.mdb_env_close(self.env)


@test("another process holds the write lock: other traffic goes on at once, keyed ones wait or get 503 in time (D10)", "asan")
def foreign_writer(t):
    t.einmal(store={"timeout": "3s"})
    first = t.fresh(t.ask(key="known"))
    writer = ForeignWriter(t, t.proxy.store)
    writer.begin()
    blocked = t.start(key="blocked")
    for _ in range(10):
        answer = t.ask("GET", target="/free")
        t.status(answer, 200)
        t.check(blocked.waits(0.001), "unkeyed traffic while the store is held")
    answer = t.ask(key="known")
    t.replay(answer, first)
    t.check(blocked.waits(0.001), "replays while the store is held")
    answer = blocked.read()
    t.problem(answer, 503, "store-unavailable", retry_after=True)
    t.check(2.8 < answer.took, "after store.timeout", answer.took)
    t.within(answer.took, 7.0, "after store.timeout")
    t.effects(0, key="blocked")
    short = t.start(key="short")
    time.sleep(0.3)
    writer.end()
    t.fresh(short.read(), text="goes on when the lock is free")
    t.fresh(t.ask(key="blocked"), text="a withdrawn reservation leaves the key free")
    t.effects(1, key="blocked")
    # The answer of the API comes while the store is held: the client gets it, late, and it is kept.
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="answered", times=1)
    owner = t.start(key="answered")
    t.check(t.api.wait_count(1, key="answered"), "reaches the API")
    writer.begin()
    gate.set()
    answer = t.fresh(owner.read(), text="the true answer, after store.timeout at the latest")
    t.within(answer.took, 8.0, "the end is not held for ever")
    again = t.ask(key="answered")
    t.check(again.status in (201, 409, 503), "never executed again", again)
    writer.end()
    t.wait_until(lambda: t.ask(key="answered").replayed, 8, "kept and written later")
    t.replay(t.ask(key="answered"), answer)
    t.effects(1, key="answered")
    writer.close()


@test("the end of a streamed answer is held until its outcome is durable, the rest passes at once", "asan")
def end_is_held(t):
    t.einmal(store={"timeout": "8s"})
    t.fresh(t.ask(key="first"))
    writer = ForeignWriter(t, t.proxy.store)
    rows = {"length": b"0123456789", "chunked": b"0123456789", "close": b"0123456789"}
    for framing, body in rows.items():
        gate = threading.Event()
        t.api.on(Reply(200, [], [body[:5], gate, body[5:]], framing=framing), key=framing, times=1)
        client = t.client().post(key=framing)
        while body[:5] not in client.buffer:
            t.check(client.receive(), "the beginning passes")
        writer.begin()
        gate.set()
        wanted = body[5:-1] if framing == "length" else body[5:] + b"\r\n"  # the others reach us as chunks
        began = time.monotonic()
        while wanted not in client.buffer:
            t.check(client.receive(), framing + ": all but the end passes while the store is held")
        t.within(time.monotonic() - began, 2.0, framing + ": all but the end passes at once while the store is held")
        seen = len(client.buffer)
        client.sock.settimeout(0.4)
        try:
            client.receive()
        except TimeoutError:
            pass
        t.check(len(client.buffer) == seen and not client.ended, framing + ": the end waits for the commit", client.buffer)
        writer.end()
        client.sock.settimeout(10 * t.slow)
        answer = client.read()
        t.equal(answer.body, body, framing + ": whole")
        t.replay(t.ask(key=framing), answer)
    # A short answer, whole in its first read, is not begun before it is durable.
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="short", times=1)
    client = t.client().post(key="short")
    t.check(t.api.wait_count(1, key="short"), "reaches the API")
    writer.begin()
    gate.set()
    t.check(client.waits(0.4), "nothing before the commit")
    writer.end()
    t.fresh(client.read())
    writer.close()


def trace(t):
    """strace on the running einmal; the lines it saw when it is stopped."""
    if not shutil.which("strace"):
        raise Skip("strace is not installed")
    out = t.path("trace")
    process = subprocess.Popen(["strace", "-f", "-yy", "-s", "300", "-o", out, "-e",
                                "trace=read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg,pwrite64,pwritev,fdatasync,fsync,msync",
                                "-p", str(t.proxy.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    line = process.stderr.readline().decode()
    if "attached" not in line:
        process.kill()
        raise Skip("strace cannot attach: %s" % line.strip())
    time.sleep(0.3)

    def stop():
        process.send_signal(signal.SIGINT)
        process.wait(10)
        with open(out, encoding="latin-1") as file:
            return file.read().split("\n")
    t.cleanups.append(process.kill)
    return stop


def position(lines, pattern, start=0):
    for number in range(start, len(lines)):
        if re.search(pattern, lines[number]):
            return number
    return None


@test("strict: the reservation is synced before the first byte to the API, the outcome before the answer's end (D12)", seconds=60)
def synced_before_sent(t):
    t.einmal(workers=1)
    t.fresh(t.ask(key="warm"))
    stop = trace(t)
    t.fresh(t.ask(key="traced"))
    lines = stop()
    upstream = r"(write|writev|sendto|sendmsg)\(\d+<TCP:\[[^]]*->[^]]*:%d\]>" % t.api.port
    arrived = position(lines, r'(read|readv|recvfrom|recvmsg).*Idempotency-Key: \\"traced\\"')
    t.check(arrived is not None, "the request was seen arriving", lines)
    sent = position(lines, upstream, arrived)
    t.check(sent is not None, "the request was seen leaving", lines)
    answered = position(lines, r"(write|writev|sendto|sendmsg)\(\d+<TCP:.*HTTP/1.1 201", sent)
    t.check(answered is not None, "the answer was seen leaving", lines)
    synced = r"(fdatasync|fsync|msync)\(.*= 0|<\.\.\. (fdatasync|fsync|msync) resumed.*= 0"
    first = position(lines, synced, arrived)
    t.check(first is not None and first < sent, "synced between arrival and sending", lines[arrived:sent + 1])
    meta = position(lines, r"(pwrite64|pwritev|write)\(\d+<[^>]*data\.mdb|<\.\.\. pwrite64 resumed", first + 1)
    t.check(meta is not None and meta < sent, "and the commit's last page written", lines[arrived:sent + 1])
    second = position(lines, synced, sent)
    t.check(second is not None and second < answered, "the outcome is synced before the answer", lines[sent:answered + 1])


@test("durability: process syncs nothing in the way of a request; records survive kill -9 all the same (D12)", "asan")
def durability_process(t):
    t.einmal(store={"durability": "process"}, workers=1)
    firsts = [t.fresh(t.ask(key="k%d" % n)) for n in range(20)]
    t.proxy.restart()
    for number, first in enumerate(firsts):
        t.replay(t.ask(key="k%d" % number), first)
    t.effects(20)


@test("group commit: far fewer syncs than keyed requests under load (D12)", seconds=60)
def group_commit(t):
    t.einmal(workers=2)
    clients = [t.client() for _ in range(64)]
    for client in clients:
        t.status(client.ask(target="/free"), 201)
    stop = trace(t)
    for round_number in range(5):
        for number, client in enumerate(clients):
            client.post(key="g%d-%d" % (round_number, number))
        for client in clients:
            t.fresh(client.read())
    syncs = sum(1 for line in stop() if re.search(r"(fdatasync|msync)\(", line))
    t.check(10 <= syncs < 2 * 320 * 0.8, "syncs for 320 keyed requests", syncs)
    t.effects(320 + 64)


@test("the store survives repeated kill -9 under load without growing or losing readers (D09)", seconds=90)
def repeated_kills(t):
    t.einmal()
    answered = {}
    for round_number in range(t.rounds(20, 5)):
        stop = time.monotonic() + 0.15
        client = t.client()
        number = 0
        while time.monotonic() < stop:
            key = "r%d-%d" % (round_number, number)
            answered[key] = client.ask(key=key)
            t.ask(key=key)
            number += 1
        client.post(key="last-%d" % round_number)
        t.proxy.restart()
    for key, first in list(answered.items())[::7]:
        t.replay(t.ask(key=key), first)
        t.effects(1, key=key)
