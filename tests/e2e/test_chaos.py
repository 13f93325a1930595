"""Everything at once: clients that behave in every way, an API that ends in every way, and what must hold all the same.

What the API does with a key is fixed by the key, so that each key has one right ending; what clients do is random. The
seed is printed by a failing test.
"""
import random
import signal
import threading
import time

from lib.case import Client, Closed, ProtocolError, Raw, Reply, Truncated, request_bytes, test

HEAD = b"HTTP/1.1 201 Created\r\nContent-Length: 50\r\n\r\n"
KINDS = ["plain"] * 6 + ["stream", "stream", "large", "slow", "late", "status-500", "close", "reset", "cut", "cut-chunk",
                         "release"]
BROKEN = ("close", "reset", "cut", "cut-chunk")


class Chaos:
    def __init__(self, t, seed):
        self.t, self.random, self.lock = t, random.Random(seed), threading.Lock()
        self.next_key, self.live, self.seen, self.failures = 0, [], {}, []
        self.stop = False
        t.api.reply(self)

    # ---- the API: one ending a key ----

    before_body = False

    def perform(self, connection, request):
        kind = (request.key or "plain-").rsplit("-", 1)[0]
        replies = {
            "stream": Reply(200, [], [b"%d;" % request.number, 0.01, b"x" * 3000, 0.02, b"end"], framing="chunked"),
            "large": Reply(200, [], b"%d;" % request.number + b"y" * 300000),
            "slow": Reply(delay=0.1), "late": Reply(delay=1.2),
            "status-500": Reply(500, [], b"%d" % request.number),
            "close": Raw(end="close"), "reset": Raw(0.01, end="reset"),
            "cut": Raw(HEAD + b"abc", 0.01, end="close"),
            "cut-chunk": Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", 0.01, end="reset"),
        }
        if kind == "release" and self.t.api.count(key=request.key) < 4:
            return Reply(429, [], b"busy").perform(connection, request)
        return replies.get(kind, Reply()).perform(connection, request)

    # ---- the clients ----

    def pick(self):
        with self.lock:
            if len(self.live) < 25 or self.random.random() < 0.05:
                self.next_key += 1
                key = "%s-%d" % (self.random.choice(KINDS), self.next_key)
                self.live.append(key)
                self.seen.setdefault(key, [])
                if len(self.live) > 40:
                    self.live.pop(0)
                return key
            return self.random.choice(self.live)

    def note(self, key, answer):
        with self.lock:
            self.seen[key].append((answer.status, answer.body))
        kind = key.rsplit("-", 1)[0]
        allowed = {"status-500": (500,), "release": (201, 429), "stream": (200,), "large": (200,)}
        if kind in BROKEN:
            fine = answer.status in (502, 504) or b"outcome-unknown" in answer.body
        else:
            fine = answer.status == 504 or answer.status in allowed.get(kind, (201,))  # 504: a busy machine
        if not fine:
            self.failures.append("%s: %r" % (key, answer))

    def act(self, client, how, key):
        """False: the connection is used up."""
        data = request_bytes(key=key)
        if how == "reset":
            client.send(data[:self.random.randrange(1, len(data) + 1)])
            time.sleep(self.random.random() * 0.004)
            client.reset()
            return False
        if how == "half-close":
            self.note(key, client.send(data).half_close().read())
            return False
        if how == "pieces":
            cut = self.random.randrange(1, len(data))
            self.note(key, client.send_cut(data, [cut], 0.002).read())
        elif how == "twice":
            client.send(data + data)
            self.note(key, client.read())
            self.note(key, client.read())
        elif how == "unkeyed":
            self.t.check(client.ask("GET", target="/free").status in (201, 504), "unkeyed")
        else:
            self.note(key, client.send(data).read())
        return True

    def run(self, number):
        source = random.Random(number)
        client = None
        while not self.stop:
            how = source.choice(["ask"] * 6 + ["reset", "reset", "half-close", "pieces", "twice", "unkeyed"])
            key = self.pick()
            try:
                client = client or Client(self.t.proxy.address, 20 * self.t.slow)
                if not self.act(client, how, key):
                    client = None
            except (Closed, Truncated) as error:
                # A cut answer, or the end of a connection after one, belongs to keys that end so.
                if how == "ask" and key.rsplit("-", 1)[0] not in BROKEN:
                    self.failures.append("%s: %r" % (key, error))
                client.close()
                client = None
            except (OSError, ProtocolError, AssertionError) as error:
                self.failures.append("%s of %s: %r" % (how, key, error))
                client = None
        if client:
            client.close()

    # ---- the end ----

    def judge(self):
        t = self.t
        for key, seen in self.seen.items():
            kind = key.rsplit("-", 1)[0]
            try:
                answer = t.ask(key=key)
            except Truncated:
                t.check(kind in BROKEN, "only these are cut: " + key)
                answer = t.ask(key=key)
            count = t.api.count(key=key)
            if kind in BROKEN:
                if answer.status != 502:  # 502: this very attempt was the first whole one
                    t.problem(answer, 409, "outcome-unknown", text=key)
                    t.problem(t.ask(key=key), 409, "outcome-unknown", text=key)
                t.equal(count, 1, "effects of " + key)
                continue
            if kind == "release":
                t.check(answer.status in (201, 429), key, answer)
                continue
            t.equal(count, 1, "effects of " + key)
            bodies = {body for status, body in seen if status == answer.status}
            if answer.status == 504:  # this very attempt was the first whole one
                answer = t.ask(key=key)
            t.check(bodies <= {answer.body}, "one answer for ever: " + key, bodies, answer.body)


def chaos(t, seconds, clients, **settings):
    seed = random.SystemRandom().randrange(1 << 30)
    print("seed %d" % seed)
    t.einmal(upstream={"response_timeout": "800ms", "outcome_timeout": "20s"}, **settings)
    world = Chaos(t, seed)
    threads = [t.thread(world.run, seed + number) for number in range(clients)]
    time.sleep(seconds)
    world.stop = True
    for thread in threads:
        thread.join(20 * t.slow)
    t.equal(world.failures[:5], [], "failures (%d)" % len(world.failures))
    t.check(len(world.seen) > 30, "keys were used", len(world.seen))
    world.judge()


@test("random clients against an API with every ending: one effect, one answer each", "race asan", seconds=90)
def everything_at_once(t):
    chaos(t, 5, 16, workers=4)


@test("the same with one worker and few connections to spare", "asan", seconds=90)
def everything_at_once_one_worker(t):
    chaos(t, 4, 12, workers=1)


@test("the same while SIGHUPs come", "race", seconds=90)
def everything_at_once_with_reloads(t):
    done = threading.Event()

    def reload():
        while not done.wait(0.05):
            if t.proxy and t.proxy.alive:
                t.proxy.signal(signal.SIGHUP)
    thread = t.thread(reload)
    try:
        chaos(t, 3, 12, workers=2)
    finally:
        done.set()
        thread.join(5)
