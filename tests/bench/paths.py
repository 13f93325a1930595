"""What is measured and what it must reach: one row a path, one row a bar. Source of the bars: contract §10.

A bar compares einmal with the best of some peers, round by round; the median of these ratios counts. `now` is what this version
must reach (the exit status), `goal` what the contract asks for in the end; a bar without both is only shown.
"""
from collections import namedtuple

Path = namedtuple("Path", "name title peers load warm_up unit effects bars")
Bar = namedtuple("Bar", "metric against now goal")

BODY = '{"cart":"c-20713","items":[{"sku":"A-100","quantity":2},{"sku":"B-7","quantity":1}],"currency":"EUR"}'
FIXED_KEYS = 512

# Metrics of one run: `rate` is requests a second or, where the unit is bytes, bytes a second; `per_cpu` the same for each second
# of processor time that all processes of the proxy used, in user and system mode.
PATHS = [
    Path("pass", "unkeyed pass-through: GET, small answer", ("einmal", "nginx", "haproxy"),
         ("get", "/v1/ping"), 1, "requests", "each",
         [Bar("rate", ("nginx", "haproxy"), 0.8, 1.0), Bar("per_cpu", ("nginx", "haproxy"), 0.8, 1.0)]),
    Path("stream", "streaming: GET of 8 MiB", ("einmal", "nginx", "haproxy", "haproxy-splice"),
         ("get", "/files/8MiB"), 1, "bytes", "each",
         [Bar("per_cpu", ("nginx", "haproxy"), None, 1.0), Bar("per_cpu", ("haproxy-splice",), None, None)]),
    Path("replay", "replay: POST with one of %d keys that are completed" % FIXED_KEYS, ("einmal", "nginx-cache"),
         ("post", "/v1/orders", "fixed"), 1, "requests", "none",
         [Bar("rate", ("nginx-cache",), 0.8, 1.0), Bar("per_cpu", ("nginx-cache",), 0.8, 1.0)]),
    Path("new", "new key: POST with a key of its own each", ("einmal", "haproxy", "nginx-cache"),
         ("post", "/v1/orders", "new"), 1, "requests", "each",
         [Bar("rate", ("haproxy",), 0.3, 0.5), Bar("rate", ("nginx-cache",), None, 1.5)]),
]

NAMES = {
    "einmal": "einmal", "nginx": "nginx, plain proxy", "haproxy": "HAProxy, plain proxy",
    "nginx-cache": "nginx, caching POST", "haproxy-splice": "HAProxy with splicing in the kernel",
}

# Memory: RssAnon with idle keep-alive connections, and what a stream of 1 GiB adds.
MEMORY_PEERS = ("einmal", "nginx", "haproxy")
MEMORY_BASE = 16 << 20
MEMORY_PER_CONNECTION = 4 << 10
MEMORY_STREAM = 1 << 20
