"""Unkeyed traffic streams both ways; keyed answers stream while their end is held (contract §4.7, §7; case O09)."""
import hashlib
import os
import threading
import time

from lib.case import Closed, Raw, Reply, Truncated, request_bytes, test

BLOCK = hashlib.sha256(b"block").digest() * 8192  # 256 KiB
MEGABYTES = 200


def blocks(count):
    def send(connection, request):
        for _ in range(count):
            connection.send(BLOCK)
    return send


def peak(t):
    """Highest resident size so far, KiB; reset by the kernel on request."""
    return t.proxy.memory("VmHWM")


@test("200 MB down, unkeyed: whole, with bounded memory", "asan", seconds=90)
def large_down(t):
    t.einmal()
    count = MEGABYTES * 4
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (count * len(BLOCK))
    t.api.on(Raw(head, blocks(count)), path="/large")
    before = peak(t)
    client = t.client().post(method="GET", target="/large")
    answer = client.read_head()
    t.status(answer, 200)
    digest, total = hashlib.sha256(client.buffer), len(client.buffer)
    while total < count * len(BLOCK):
        data = client.sock.recv(1 << 18)
        t.check(data, "not cut", total)
        digest.update(data)
        total += len(data)
    client.buffer = b""
    wanted = hashlib.sha256()
    for _ in range(count):
        wanted.update(BLOCK)
    t.equal(digest.hexdigest(), wanted.hexdigest(), "content")
    if not t.options.sanitizer:
        t.check(peak(t) - before < 8 * 1024, "memory for a stream (KiB)", peak(t) - before)
    t.status(client.ask("GET", target="/free"), 200, "the connection goes on")


def numbered(count):
    """So many bytes that tell where they belong."""
    return b"".join(b"%015d\n" % number for number in range(count // 16))


@test("a body that goes from socket to socket is the API's, byte for byte, whatever the pace and however it ends", "asan race",
      seconds=90)
def whole_down(t):
    t.einmal(workers=2)
    whole = numbered(24 << 20)
    length = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(whole)
    t.api.on(Raw(length + whole), path="/length")
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\n\r\n" + whole, end="close"), path="/close")
    t.api.on(Raw(length + whole[:20 << 20], end="close"), path="/cut")
    failures = []

    def read(target, receive_buffer, piece, pause):
        client = t.client(receive_buffer=receive_buffer).post(method="GET", target=target, headers=[("Connection", "close")])
        answer = client.read_head()
        got = bytearray(client.buffer)
        at_pause = 0
        while True:
            try:
                data = client.sock.recv(piece)
            except ConnectionResetError:
                data = b""
            if not data:
                break
            got += data
            if pause and len(got) - at_pause > 4 << 20:
                at_pause = len(got)
                time.sleep(pause)
        if answer.get("Transfer-Encoding") == "chunked":
            got = b"".join(part for part in unchunked(bytes(got)))
        if target == "/cut":
            right = len(got) <= 20 << 20 and whole.startswith(got)
        else:
            right = bytes(got) == whole
        if not right:
            failures.append((target, receive_buffer, piece, len(got)))

    paces = [(None, 1 << 20, 0), (16384, 1 << 16, 0), (None, 1 << 18, 0.2), (65536, 5000, 0.05)]
    threads = [t.thread(read, target, *pace) for target in ("/length", "/close", "/cut") for pace in paces]
    for thread in threads:
        thread.join(80)
    t.equal(failures, [], "bodies that are not the API's")


def unchunked(body):
    at = 0
    while True:
        line_end = body.index(b"\r\n", at)
        size = int(body[at:line_end], 16)
        if size == 0:
            return
        yield body[line_end + 2:line_end + 2 + size]
        at = line_end + 2 + size + 2


@test("the client of a large body leaves in its middle: it is given up at the API, others go on", "asan race", seconds=60)
def left_in_the_middle(t):
    t.einmal()
    given_up = threading.Event()

    def endless(connection, request):
        try:
            while True:
                connection.send(BLOCK)
        except OSError:
            given_up.set()
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 40), endless), path="/large")
    for ending in ("close", "reset"):
        given_up.clear()
        client = t.client().post(method="GET", target="/large")
        client.read_head()
        for _ in range(40):
            client.sock.recv(1 << 18)
        client.close() if ending == "close" else client.reset()
        t.check(given_up.wait(20), "the API is told", ending)
        t.status(t.ask(method="GET", target="/free"), 200, "others")


@test("200 MB up, unkeyed, by length and chunked: whole, with bounded memory", "asan", seconds=90)
def large_up(t):
    t.einmal()
    for framing in ("length", "chunked"):
        count = MEGABYTES * 2
        before = peak(t)
        client = t.client()
        head = request_bytes("PUT", "/large-" + framing, body=b"", framing="none")[:-2]
        if framing == "length":
            client.send(head + b"Content-Length: %d\r\n\r\n" % (count * len(BLOCK)))
            for _ in range(count):
                client.send(BLOCK)
        else:
            client.send(head + b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(count):
                client.send(b"%x\r\n%s\r\n" % (len(BLOCK), BLOCK))
            client.send(b"0\r\n\r\n")
        t.status(client.read("PUT"), 201)
        t.equal(t.api.last().body_length, count * len(BLOCK), "length at the API")
        wanted = hashlib.sha256()
        for _ in range(count):
            wanted.update(BLOCK)
        t.equal(t.api.last().body_sha256, wanted.hexdigest(), "content at the API")
        if not t.options.sanitizer:
            t.check(peak(t) - before < 8 * 1024, "memory for a stream (KiB)", peak(t) - before)


@test("a slow reader holds the API back; nothing spins, memory stays (O09)", "asan")
def back_pressure_down(t):
    t.einmal()
    sent = []

    def produce(connection, request):
        for number in range(160):  # 40 MiB
            connection.send(BLOCK)
            sent.append(number)
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (160 * len(BLOCK)), produce), path="/large")
    before = peak(t)
    client = t.client(receive_buffer=8192).post(method="GET", target="/large")
    client.read_head()
    level, busy = t.settled(lambda: len(sent)), t.proxy.cpu_seconds()
    time.sleep(1.5)
    t.equal(len(sent), level, "the API is held back while the client does not read")
    t.check(level < 150, "not all of it was taken", level)
    if not t.options.sanitizer:
        t.check(t.proxy.cpu_seconds() - busy < 0.2, "nothing spins in the pause", t.proxy.cpu_seconds() - busy)
        t.check(peak(t) - before < 8 * 1024, "memory (KiB)", peak(t) - before)
    total = len(client.buffer)
    while total < 160 * len(BLOCK):
        data = client.sock.recv(1 << 18)
        t.check(data, "goes on and is not cut", total)
        total += len(data)


@test("a slow API holds an uploading client back (O09)", "asan")
def back_pressure_up(t):
    t.einmal()
    gate = threading.Event()

    def take_late(connection, request):
        gate.wait(20)
        t.api.executed(connection, request)
    t.api.on(Raw(take_late, b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", before_body=True), path="/slow")
    client = t.client()
    sent = []

    def send_all():
        client.send(request_bytes("POST", "/slow", body=b"", framing="none")[:-2]
                    + b"Content-Length: %d\r\n\r\n" % (160 * len(BLOCK)))
        for number in range(160):
            client.send(BLOCK)
            sent.append(number)
    before = peak(t)
    sender = t.thread(send_all)
    level = t.settled(lambda: len(sent))
    t.check(level < 150, "the client is held back", level)
    if not t.options.sanitizer:
        t.check(peak(t) - before < 8 * 1024, "memory (KiB)", peak(t) - before)
    gate.set()
    t.status(client.read(), 201)
    sender.join(5)
    t.equal(t.api.last().body_length, 160 * len(BLOCK), "all of it")


def read_events(client, wanted):
    """Reads until the text of `wanted` has come; the time it took."""
    began = time.monotonic()
    while wanted not in client.buffer:
        if not client.receive():
            raise AssertionError("ended before %r" % wanted)
    return time.monotonic() - began


@test("an event stream passes at once, keyed and not; a keyed one's end is held until it is durable", "asan")
def event_stream(t):
    t.einmal()
    for number, key in enumerate((None, "k")):
        gates = [threading.Event() for _ in range(4)]
        items = []
        for n, gate in enumerate(gates[:3]):
            items += [b"data: event %d\n\n" % n, gate]
        t.api.on(Reply(200, [("Content-Type", "text/event-stream")], items + [b"data: end\n\n"], framing="chunked"),
                 path="/orders/stream%d" % number, times=1)
        client = t.client().post(key=key, target="/orders/stream%d" % number)
        for n, gate in enumerate(gates[:3]):
            t.within(read_events(client, b"data: event %d\n\n" % n), 4.0, "event %d passes at once" % n)
            gate.set()
        answer = client.read()
        t.equal(answer.body, b"".join(b"data: event %d\n\n" % n for n in range(3)) + b"data: end\n\n", "whole stream")
        if key:
            t.replay(t.ask(key=key, target="/orders/stream%d" % number), answer)
            t.effects(1, key=key)


@test("a keyed answer with a length: its last byte waits, the others pass as they come", "asan")
def length_answer_streams(t):
    t.einmal()
    gate = threading.Event()
    t.api.on(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc", gate, b"def"), key="k", times=1)
    client = t.client().post(key="k")
    t.within(read_events(client, b"abc"), 4.0, "what is there passes at once")
    gate.set()
    answer = client.read()
    t.equal(answer.body, b"abcdef", "whole")
    t.replay(t.ask(key="k"), answer)


@test("the client of an event stream leaves: keyed goes on to its end, unkeyed is given up at the API", "asan")
def stream_client_leaves(t):
    t.einmal()
    gate = threading.Event()
    t.api.on(Reply(200, [], [b"first;", gate, b"last"], framing="chunked"), key="k", times=1)
    client = t.client().post(key="k")
    read_events(client, b"first;")
    client.reset()
    time.sleep(0.1)
    gate.set()
    answer = t.status(t.ask(key="k"), 200)
    t.equal(answer.body, b"first;last", "recorded to its end")
    t.effects(1, key="k")
    ended = threading.Event()

    def until_closed(connection, request):
        connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        while connection.receive():
            pass
        ended.set()
    t.api.on(Raw(until_closed, end="close"), path="/watch")
    client = t.client().post(method="GET", target="/watch")
    read_events(client, b"1\r\na\r\n")
    client.reset()
    t.check(ended.wait(5 * t.slow), "an unkeyed exchange ends with its client")


@test("buffer_memory bounds keyed bodies: 503 overloaded beyond, then room again", "asan")
def buffer_memory(t):
    t.einmal(limits={"buffer_memory": "5MiB"})
    gate = threading.Event()
    t.api.reply(Reply(delay=gate))
    owners = [t.start(key="k%d" % n, body=b"x" * (1900 << 10)) for n in range(2)]
    t.check(t.api.wait_count(2), "two fit")
    client = t.client()
    try:
        client.post(key="k3", body=b"x" * (1900 << 10))
    except OSError:
        pass
    t.problem(client.read(), 503, "overloaded", retry_after=True)
    t.effects(0, key="k3")
    gate.set()
    for owner in owners:
        t.fresh(owner.read())
    t.wait_until(lambda: t.ask(key="k3", body=b"x" * (1900 << 10)).status == 201, 5, "room again")
    t.effects(1, key="k3")


@test("a recording that buffer_memory cannot hold: streamed, response-not-kept", "asan")
def recording_beyond_memory(t):
    t.einmal(limits={"buffer_memory": "1MiB"})
    t.api.on(Reply(200, [], b"x" * (3 << 20)), key="k", times=1)
    first = t.fresh(t.ask(key="k"), 200)
    t.equal(len(first.body), 3 << 20, "all of it to the client")
    t.problem(t.ask(key="k"), 409, "response-not-kept")
    t.effects(1, key="k")
    t.fresh(t.ask(key="k2"), text="small ones fit")


@test("replays of a large answer to slow clients hold no reader open: the store does not grow (D04)", "asan", seconds=60)
def slow_replays(t):
    t.einmal(routes=[{"name": "long", "match": {"path": "/orders/long"}, "upstream": "api"},
                     {"name": "orders", "match": {"path": "/orders/**"}, "upstream": "api", "retention": "1s"}],
             store={"max_size": "32MiB"})
    t.api.on(Reply(200, [], BLOCK * 4), key="large", times=1)
    t.fresh(t.ask(key="large", target="/orders/long"), 200)
    slow = []
    for _ in range(20):
        client = t.client(receive_buffer=4096).post(key="large", target="/orders/long")
        client.read_head()
        slow.append(client)
    deadline, number, sizes = time.monotonic() + 4, 0, []
    client = t.client()
    while time.monotonic() < deadline:
        t.fresh(client.ask(key="n%d" % number))
        number += 1
        for one in slow:
            one.sock.recv(256)
        if number % 50 == 0:
            sizes.append(os.stat(t.proxy.store + "/data.mdb").st_size)
    if len(sizes) > 4:
        t.check(sizes[-1] <= sizes[len(sizes) // 2] * 1.5 + (2 << 20), "the store stays flat", sizes)


@test("many streams at once, both ways, mixed with keyed requests", "race", seconds=60)
def mixed_load(t):
    t.einmal(workers=4)
    t.api.on(Reply(200, [], [BLOCK] * 8, framing="chunked"), path="/large")
    failures = []

    def run(number):
        try:
            client = t.client()
            for round_number in range(6):
                answer = client.ask("GET", target="/large")
                if len(answer.body) != 8 * len(BLOCK):
                    failures.append("short stream")
                if client.ask(target="/up", body=BLOCK).status != 201:
                    failures.append("upload")
                if client.ask(key="m%d-%d" % (number // 2, round_number)).status != 201:
                    failures.append("keyed")
        except (Closed, Truncated, OSError) as error:
            failures.append(repr(error))
    threads = [t.thread(run, number) for number in range(10)]
    for thread in threads:
        thread.join(50)
    t.equal(failures, [], "failures")
    for number in range(5):
        for round_number in range(6):
            t.effects(1, key="m%d-%d" % (number, round_number))
