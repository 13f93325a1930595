"""Memory of a proxy: RssAnon of all its processes, alone, with idle connections, with those who wait, and while a large body
streams through. Each figure on a process of its own.
"""
import socket
import ssl
import threading
import time

import measure
import paths
import peers
import report

KEYS = 10  # so many actions are waited for, by the same number each


def unverified():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


TLS = unverified()


def request(port, target, tls=False):
    client = socket.create_connection(("127.0.0.1", port), 10)
    if tls:
        client = TLS.wrap_socket(client)
    client.sendall(("GET %s HTTP/1.1\r\nHost: shop.example\r\n\r\n" % target).encode())
    return client


def idle_bytes(peer, count, tls):
    """RssAnon before and with `count` connections that have had one answer each and are kept alive."""
    port = peer.ports["https" if tls else "http"]
    request(port, "/v1/ping", tls).recv(4096)  # what is made at the first request is no connection's
    time.sleep(0.3)
    before, clients = peer.anonymous_bytes(), []
    try:
        for _ in range(count):
            clients.append(request(port, "/v1/ping", tls))
            if not clients[-1].recv(4096).startswith(b"HTTP/1.1 200"):
                raise peers.StartFailed("%s refuses connection %d" % (peer.name, len(clients)))
        time.sleep(0.5)
        return before, peer.anonymous_bytes()
    finally:
        for client in clients:
            client.close()


def stream_bytes(peer, size):
    """What a stream adds at most: RssAnon while it runs, less RssAnon before."""
    before, highest, seen, buffer = peer.anonymous_bytes(), 0, 0, bytearray(1 << 18)
    client = request(peer.port, "/files/1GiB")
    client.settimeout(20)
    looked = 0
    while seen < size:
        count = client.recv_into(buffer)
        if not count:
            raise peers.StartFailed("%s cut a stream after %d bytes" % (peer.name, seen))
        seen += count
        if seen - looked > 1 << 24:
            looked, highest = seen, max(highest, peer.anonymous_bytes())
    client.close()
    return max(0, highest - before)


class Silent:
    """An API that takes requests and never answers."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port, self.clients = self.listener.getsockname()[1], []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                self.clients.append(self.listener.accept()[0])
            except OSError:
                return

    def close(self):
        self.listener.close()
        for client in self.clients:
            client.close()


def post(port, key):
    client = socket.create_connection(("127.0.0.1", port), 10)
    lines = ["POST /v1/orders HTTP/1.1"] + ["%s: %s" % field for field in measure.HEADERS.items()]
    lines += ["Content-Length: %d" % len(paths.BODY), "Idempotency-Key: %s" % key, "", paths.BODY]
    client.sendall("\r\n".join(lines).encode())
    return client


def waiter_bytes(directory, options):
    """What each adds that waits for an action under way, its connection included."""
    api = Silent()
    peer = peers.start_einmal("memory-waiters", directory, api.port, options)
    clients = []
    try:
        clients += [post(peer.port, "w-%d" % key) for key in range(KEYS)]
        time.sleep(0.5)
        before = peer.anonymous_bytes()
        clients += [post(peer.port, "w-%d" % (number % KEYS)) for number in range(options.idle)]
        time.sleep(1)
        return (peer.anonymous_bytes() - before) / options.idle
    finally:
        for client in clients:
            client.close()
        peer.stop()
        api.close()


def run_memory(directory, api, options):
    """{peer: {alone, plain, tls, stream}} in bytes, and of einmal what a waiter adds."""
    measure.say("memory: %d idle connections, plain and TLS; a stream of 1 GiB" % options.idle)
    out = {}
    for kind in paths.MEMORY_PEERS:
        peer = peers.start_peer(kind, "memory-" + kind, directory, api, options)
        try:
            alone, plain = idle_bytes(peer, options.idle, tls=False)
            stream = stream_bytes(peer, 1 << 30)
        finally:
            peer.stop()
        peer = peers.start_peer(kind, "memory-tls-" + kind, directory, api, options)
        try:
            alone_tls, tls = idle_bytes(peer, options.idle, tls=True)
        finally:
            peer.stop()
        out[kind] = {"alone": alone, "plain": plain, "each": (plain - alone) / options.idle, "tls": tls,
                     "each_tls": (tls - alone_tls) / options.idle, "stream": stream}
        measure.say("  %-14s %s" % (kind, report.memory_line(out[kind])))
    out["einmal"]["waiter"] = waiter_bytes(directory, options)
    measure.say("  %-14s %.1f KiB for each who waits" % ("einmal", out["einmal"]["waiter"] / 1024))
    return out
