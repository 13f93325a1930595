"""What is measured and what it must reach: one row a path, one row a bar. Source of the bars: contract §10.

A bar compares einmal with the best of some peers, round by round; the median of these ratios counts. One without `must` is only
shown.
"""
from collections import namedtuple

Bar = namedtuple("Bar", "metric against must")
# load: what load.lua is told. effects: "each" request reaches the API, or "none". body: bytes that an upload sends. counted: how
# many requests the API counts for one.
Path = namedtuple("Path", "name title peers load unit bars effects scheme body counted", defaults=("each", "http", 0, 1))

BODY = '{"cart":"c-20713","items":[{"sku":"A-100","quantity":2},{"sku":"B-7","quantity":1}],"currency":"EUR"}'
FIXED_KEYS = 512
UPLOAD = 1 << 20

PLAIN = ("nginx", "haproxy")
BOTH_BARS = [Bar("rate", PLAIN, 1.0), Bar("per_cpu", PLAIN, 1.0)]

# Metrics of one run: `rate` is requests a second or, where the unit is bytes, bytes a second; `per_cpu` the same for each second
# of processor time that all processes of the proxy used, in user and system mode.
PATHS = [
    Path("pass", "unkeyed pass-through: GET, small answer", ("einmal",) + PLAIN, ("get", "/v1/ping"), "requests", BOTH_BARS),
    Path("tls", "the same with TLS in front", ("einmal",) + PLAIN, ("get", "/v1/ping"), "requests", BOTH_BARS, scheme="https"),
    Path("stream", "streaming: GET of 8 MiB", ("einmal",) + PLAIN + ("haproxy-splice",), ("get", "/files/8MiB"), "bytes",
         [Bar("per_cpu", PLAIN, 1.0), Bar("per_cpu", ("haproxy-splice",), None)]),
    Path("upload", "streaming: POST of 1 MiB, no key", ("einmal",) + PLAIN, ("upload", "/v1/uploads", str(UPLOAD)), "bytes",
         [Bar("per_cpu", PLAIN, 1.0)], body=UPLOAD, counted=2),
    Path("replay", "replay: POST with one of %d keys that are completed" % FIXED_KEYS, ("einmal", "nginx-cache"),
         ("post", "/v1/orders", "fixed"), "requests",
         [Bar("rate", ("nginx-cache",), 1.0), Bar("per_cpu", ("nginx-cache",), 1.0)], effects="none"),
    Path("new", "new key: POST with a key of its own each", ("einmal", "haproxy", "nginx-cache"),
         ("post", "/v1/orders", "new"), "requests",
         [Bar("rate", ("haproxy",), 0.5), Bar("rate", ("nginx-cache",), 1.5)]),
    # Not among those that run unless they are named, or with --full.
    Path("tls-stream", "streaming with TLS in front: GET of 8 MiB", ("einmal",) + PLAIN, ("get", "/files/8MiB"), "bytes",
         [Bar("per_cpu", PLAIN, None)], scheme="https"),
]
USUAL = ("pass", "tls", "stream", "upload", "replay", "new")

NAMES = {
    "einmal": "einmal", "nginx": "nginx, plain proxy", "haproxy": "HAProxy, plain proxy",
    "nginx-cache": "nginx, caching POST", "haproxy-splice": "HAProxy with splicing in the kernel",
    "floor": "a relay that understands nothing (floor)", "floor-keys": "a relay with two bare commits a key (floor)",
}
FLOORS = {"pass": "floor", "new": "floor-keys"}  # of a path, beside its peers

# Sweeps of --full: einmal and its peers with other numbers of connections, and with other numbers of workers.
SWEPT = ("pass", "tls", "replay", "new")
CONNECTIONS = (1, 16, 64, 256, 1024)
WORKERS = (1, 2)

ADDED_P99 = 4  # times the p99 of a commit: what a new key may take longer than HAProxy, which stores nothing

# How large a store is before it is measured, and what new keys and look-ups must keep of what an empty one does.
RECORDS = (0, 10_000, 1_000_000, 10_000_000)
RECORD_BYTES = 1200  # what a record may take on the disk, and then some
SLOWED = 0.5

# Memory: RssAnon with idle keep-alive connections, and what a stream of 1 GiB adds.
MEMORY_PEERS = ("einmal", "nginx", "haproxy")
MEMORY_BASE = 16 << 20
MEMORY_PER_CONNECTION = 4 << 10
MEMORY_PER_TLS_CONNECTION = 20 << 10
MEMORY_STREAM = 1 << 20
