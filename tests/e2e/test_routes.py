"""Which route, which upstream, over which sockets (contract §3 "Matching", default_upstream, listen, unix sockets)."""
import os
import socket
import stat
import time

from lib.api import Api
from lib.case import Reply, request_bytes, test
from lib.proxy import free_port


@test("the first route that matches host, path and method applies; path patterns and normal forms", "asan")
def matching(t):
    t.ordinary = False
    names = {"exact": "/v1/orders", "one": "/v1/orders/{order}/items", "rest": "/a/**", "slash": "/s/", "escaped": "/e/x%2Fy"}
    t.einmal(routes=[{"name": name, "match": {"path": path}, "upstream": "api", "scope_name": name} for name, path in names.items()])
    table = {"/v1/orders": "exact", "/v1/orders/": "-", "/v1/orders/7/items": "one", "/v1/orders/7/x/items": "-",
             "/v1/orders//items": "-", "/a": "rest", "/a/": "rest", "/a/b/c": "rest", "/ab": "-", "/s/": "slash", "/s": "-",
             "/e/x%2fy": "escaped", "/e/x/y": "-", "//v1//orders": "exact", "/v1/./x/../orders": "exact",
             "/%761/orders": "exact", "/V1/orders": "-", "/v1/orders?x=/a/b": "exact", "/": "-"}
    for target, name in table.items():
        request_id = "id%d" % list(table).index(target)
        t.status(t.ask(key=request_id, target=target, headers=[("X-Request-Id", request_id)]), 201, target)
        t.equal(t.api.last().target, target, "forwarded as it came")
        t.equal(t.proxy.access(1, request_id=request_id)[0]["route"], name, "route of %s" % target)
    t.equal(t.proxy.stop(), 0, "exit code")


@test("a key on a normal form is one action: /v1//orders and /v1/orders", "asan")
def normal_forms_are_one(t):
    t.einmal()
    first = t.fresh(t.ask(key="k", target="/orders/a"))
    for target in ("//orders/a", "/orders/./a", "/orders/x/../a", "/orders/%61"):
        t.replay(t.ask(key="k", target=target), first, target)
    for target in ("/orders/a/", "/orders/A", "/orders/a%2F"):
        t.problem(t.ask(key="k", target=target), 422, "key-reused", text=target)
    t.effects(1)


@test("hosts: exact, wildcard, case and default port", "asan")
def hosts(t):
    t.ordinary = False
    t.einmal(routes=[{"name": "shop", "match": {"host": "shop.example", "path": "/**"}, "upstream": "api"},
                     {"name": "wild", "match": {"host": "*.example", "path": "/**"}, "upstream": "api"}])
    table = {"shop.example": "shop", "SHOP.Example:80": "shop", "shop.example:8080": None, "a.example": "wild", "a.b.example": None,
             "example": "-", "other.test": "-", "xshop.example": "wild"}
    for host, name in table.items():
        request_id = "id%d" % list(table).index(host)
        t.status(t.ask(key=request_id, host=host, headers=[("X-Request-Id", request_id)]), 201, host)
        if name:
            t.equal(t.proxy.access(1, request_id=request_id)[0]["route"], name, "route of host %s" % host)
    t.equal(t.proxy.stop(), 0, "exit code")


@test("methods; a path that matches without its method gives the upstream only", "asan")
def methods(t):
    t.ordinary = False
    other = t.new_api()
    t.einmal(upstreams={"other": {"url": other.url}}, default_upstream="api",
             routes=[{"name": "put", "match": {"path": "/o/{id}", "methods": ["PUT"]}, "upstream": "other"}])
    first = t.fresh(t.ask("PUT", key="k", target="/o/1"))
    t.replay(t.ask("PUT", key="k", target="/o/1"), first)
    t.equal(other.count(), 1, "effects")
    for method in ("POST", "GET", "OPTIONS", "DELETE"):
        t.ask(method, key="k", target="/o/1")
        t.equal(other.last().method, method, "the route's upstream, unprotected")
    t.effects(0, "default upstream")
    t.status(t.ask(key="k", target="/elsewhere"), 201)
    t.effects(1, "default upstream")
    t.equal(t.proxy.stop(), 0, "exit code")


@test("no route and no default_upstream: 404 no-route", "asan")
def no_route(t):
    other = t.new_api()
    t.einmal(upstreams={"other": {"url": other.url}})
    client = t.client()
    t.problem(client.ask(key="k", target="/elsewhere"), 404, "no-route", retry_after=False)
    t.problem(client.ask("GET", target="/"), 404, "no-route")
    t.fresh(client.ask(key="k"), text="the connection goes on")
    t.effects(1)
    t.equal(t.proxy.access(1, status=404)[0]["route"], "-", "route in the log")


def accepts(path):
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


@test("http+unix upstreams and unix listeners: mode, stale socket, another process, cleaning up (O07)", "asan")
def unix_sockets(t):
    t.ordinary = False
    path = t.path("api.sock")
    api = t.new_api(unix=path)
    ours = t.path("einmal.sock")
    proxy = t.prepare(upstream={"url": "http+unix:" + path})
    proxy.configure(upstream={"url": "http+unix:" + path},
                    listen=[{"address": "%s:%d" % proxy.address}, {"address": "unix:" + ours, "mode": "0600"}])
    t.proxy = proxy.start()
    t.wait_until(lambda: os.path.exists(ours), 5, "unix listener")
    client = t.client(ours)
    first = t.fresh(client.ask(key="k"))
    t.equal(client.ask(key="k").replayed, True, "replayed over a unix socket")
    t.replay(t.ask(key="k"), first, "over TCP")
    t.equal(api.count(key="k"), 1, "effects")
    t.equal(stat.S_IMODE(os.stat(ours).st_mode), 0o600, "mode of the socket")
    old = t.client(ours).send(b"POST /orders HTTP/1.0\r\nContent-Length: 1\r\n\r\na").read()
    t.status(old, 201)
    t.equal(api.last().get("Host"), "localhost", "authority of a unix upstream")
    # A stale socket is replaced after kill -9.
    proxy.kill()
    t.check(os.path.exists(ours), "left by kill -9")
    proxy.start()
    t.wait_until(lambda: accepts(ours), text="listens there again")
    t.replay(t.client(ours).ask(key="k"), first)
    api.stop()
    api.close_connections()
    os.unlink(path)
    t.problem(t.client(ours).ask(key="k2"), 502, "upstream-unreachable")
    api.start()
    t.fresh(t.client(ours).ask(key="k2"), text="the socket was made anew")
    # A live one is an error.
    second = t.prepare("-second")
    second.configure(listen=[{"address": "unix:" + ours}])
    second.spawn()
    t.equal(second.wait(), 1, "a live socket of another process")
    t.check(ours in second.stderr(), "the message names it", second.stderr())
    t.replay(t.client(ours).ask(key="k"), first, "the first one still serves")
    t.close_clients()
    t.equal(proxy.stop(), 0, "exit code")
    t.check(not os.path.exists(ours), "own socket unlinked")
    # Another type of file is an error, and stays.
    with open(ours, "w") as file:
        file.write("precious")
    second.spawn()
    t.equal(second.wait(), 1, "not a socket")
    with open(ours) as file:
        t.equal(file.read(), "precious", "the file")


@test("several listeners; a name as upstream; both addresses of localhost are tried")
def listeners_and_names(t):
    t.ordinary = False
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    t.api.close()
    t.apis = []
    t.api = Api("127.0.0.1")
    t.apis.append(t.api)
    proxy = t.prepare()
    proxy.configure(upstream={"url": "http://localhost:%d" % t.api.port},
                    listen=[{"address": "%s:%d" % proxy.address}, {"address": "127.0.0.1:%d" % port}])
    t.proxy = proxy.start()
    first = t.fresh(t.ask(key="k"))
    t.replay(t.client(("127.0.0.1", port)).ask(key="k"), first)
    t.effects(1)
    t.close_clients()
    t.equal(proxy.stop(), 0, "exit code")


@test("connections to the API are reused, one at a time, and not when idle too long", "asan")
def upstream_reuse(t):
    t.einmal(workers=1, upstream={"keepalive_idle": "1500ms"})
    client = t.client()
    for number in range(20):
        t.status(client.ask(key="k%d" % number), 201)
        t.status(client.ask("GET", target="/free"), 200)
    t.equal(t.api.connections, 1, "one connection for all")
    time.sleep(1.8)
    t.status(client.ask(key="later"), 201)
    t.equal(t.api.connections, 2, "a new one after keepalive_idle")
    t.api.reply(Reply(201, [("Keep-Alive", "timeout=1")], b"x"))
    t.status(client.ask(key="short"), 201)
    time.sleep(0.1)
    t.status(client.ask(key="short2"), 201)
    t.equal(t.api.connections, 3, "Keep-Alive: timeout=1 leaves no time for reuse")
    t.api.reply(Reply(201, [], b"x", close=True))
    for number in range(3):
        t.status(client.ask(key="c%d" % number), 201)
    t.check(t.api.connections >= 5, "an API that closes", t.api.connections)


@test("keepalive: 0 never reuses", "asan")
def no_keepalive(t):
    t.einmal(workers=1, upstream={"keepalive": 0})
    client = t.client()
    for number in range(5):
        t.status(client.ask(key="k%d" % number), 201)
    t.equal(t.api.connections, 5, "connections")


@test("without a file: --upstream protects POST and PATCH on every path", "asan")
def without_a_file(t):
    t.ordinary = False
    proxy = t.prepare()
    proxy.spawn(["run", "--upstream", t.api.url, "--listen", "%s:%d" % proxy.address, "--data", proxy.store,
                 "--admin", "%s:%d" % (t.address, free_port(t.address))])
    proxy.wait_ready()
    t.proxy = proxy
    first = t.fresh(t.ask(key="k", target="/anything"))
    t.replay(t.ask(key="k", target="/anything"), first)
    t.status(t.ask(target="/anything"), 201, "without a key")
    t.status(t.ask("GET", target="/x"), 200)
    t.effects(2, path="/anything")
    t.equal(proxy.stop(), 0, "exit code")
    environment = t.prepare("-env", env={"EINMAL_UPSTREAM": t.api.url, "EINMAL_LISTEN": "%s:%d" % proxy.address,
                                         "EINMAL_DATA": proxy.store, "EINMAL_ADMIN": "off"})
    environment.port, environment.address = proxy.port, proxy.address
    # The wrapper takes these names out of the environment of the tests, and puts those of this test in.
    environment.spawn(["run"])
    environment.wait_ready()
    t.proxy = environment
    t.replay(t.ask(key="k", target="/anything"), first, "from the environment")
    t.equal(environment.stop(), 0, "exit code")


@test("flags and environment replace listen and store.path of the file")
def overrides(t):
    t.ordinary = False
    proxy = t.prepare()
    port = proxy.port
    proxy.configure(listen=[{"address": "127.0.0.1:1"}], store={"path": "/nonexistent/never"})
    proxy.extra_arguments = ["--listen", "%s:%d" % (t.address, port), "--data", proxy.store]
    t.proxy = proxy.start()
    t.fresh(t.ask(key="k"))
    t.check(os.path.exists(proxy.store + "/data.mdb"), "store of the flag")
    t.equal(proxy.stop(), 0, "exit code")


@test("start needs no working upstream; it is there when the API comes", "asan")
def upstream_later(t):
    t.api.stop()
    t.einmal()
    t.problem(t.ask("GET", target="/x"), 502, "upstream-unreachable", retry_after=False)
    t.api.start()
    t.status(t.ask("GET", target="/x"), 200)


@test("raw bytes at the API of a minimal request: nothing unasked")
def minimal_request(t):
    t.einmal(forwarded="pass")
    t.client().send(b"GET /free HTTP/1.1\r\nHost: a\r\n\r\n").read("GET")
    names = sorted(name.lower() for name, _ in t.api.last().headers)
    t.equal(names, ["host", "x-request-id"], "fields at the API")
    data = request_bytes(key="k", body=b"")
    t.fresh(t.client().send(data).read())
    t.equal(t.api.last().all("Content-Length"), ["0"], "a POST without a body has a length")

