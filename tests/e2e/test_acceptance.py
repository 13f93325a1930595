"""What people are promised, spelled out: each test is one sentence that somebody would say about a day with einmal.

The API is an ordinary one: notes, orders, charges, and a look-up by reference. Effects are counted at the API.
"""
import http.client
import json
import threading
import time

from lib.case import Closed, Raw, Reply, Truncated, test
from lib.proxy import free_port

PROBE = {"on_unknown": "probe", "probe": {"path": "/orders/by-ref/{key}", "settle": "0s"}}
STEPS = ("reserve", "charge", "ship")


def step(t, name, task="order-7", ask=None, body=None):
    """One action of a task: its key is made of the task and the step, as a client does that may start over."""
    return (ask or t.ask)(key="%s/%s" % (task, name), target="/orders/" + name, body=body, headers=[("X-Task-Id", task)])


def effects(t, task="order-7"):
    return [t.api.count(method="POST", key="%s/%s" % (task, name)) for name in STEPS]


def lose_answer(t, key, effect=True):
    """The API acts (or not), then the connection drops before a byte of the answer."""
    t.api.on(Raw(end="reset", before_body=not effect), method="POST", key=key, times=1)


def with_admin(t, **settings):
    """An einmal with its admin listener; get(path) asks it."""
    address = (t.address, free_port(t.address))
    t.einmal(admin={"address": "%s:%d" % address}, **settings)

    def get(path):
        connection = http.client.HTTPConnection(*address, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        t.equal(answer.status, 200, path)
        return json.loads(answer.read())
    return get


@test("two simultaneous repetitions of one draft note create one note and both get it", "race asan")
def draft_note(t):
    t.einmal()
    draft = b'{"title":"Milk","text":"two litres"}'
    for number in range(t.rounds(20)):
        key, gate = "note-%d" % number, threading.Event()
        t.api.on(Reply(delay=gate), key=key)
        one, two = (t.start(key=key, target="/orders/notes", body=draft) for _ in range(2))
        t.check(t.api.wait_count(1, key=key), "reaches the API")
        gate.set()
        notes = [t.status(client.read(), 201) for client in (one, two)]
        t.equal(notes[0].body, notes[1].body, "the same note")
        t.equal(notes[0].get("Location"), notes[1].get("Location"), "at the same place")
        t.equal(sorted(note.replayed for note in notes), [False, True], "one of them made it")
        t.effects(1, key=key)
        t.close_clients()


@test("the acknowledgement is lost after the effect: the retry gets the first answer", "race asan")
def lost_acknowledgement(t):
    """Between einmal and its client; late, by the API itself; and between the API and einmal, by asking."""
    t.einmal(route=PROBE, upstream={"response_timeout": "300ms"})

    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="left")
    client = t.start(key="left")
    t.check(t.api.wait_count(1, key="left"), "reaches the API")
    client.reset()
    gate.set()
    answer = t.ask(key="left")
    t.status(answer, 201, "the client had left")
    t.check(answer.replayed, "the first answer", answer)
    t.equal(answer.body, b'{"id":%d}' % t.api.last(key="left").number, "of the one execution")

    late = threading.Event()
    t.api.on(Reply(delay=late), key="late")
    t.problem(t.ask(key="late"), 504, "upstream-timeout", action=True)
    waiting = t.start(key="late")
    t.check(waiting.waits(0.1), "in progress")
    late.set()
    answer = waiting.read()
    t.equal(answer.body, b'{"id":%d}' % t.api.last(key="late").number, "the late answer")
    t.replay(t.ask(key="late"), answer)

    lose_answer(t, "dropped")
    t.problem(t.ask(key="dropped"), 502, "upstream-closed", action=True)
    t.api.on(Reply(200, body=b'{"id":%d}' % t.api.last(key="dropped").number), path="/orders/by-ref/dropped", method="GET")
    answer = t.ask(key="dropped")
    t.status(answer, 200, "the API says that it has acted")
    t.check(answer.replayed, "marked", answer)
    t.equal(answer.body, b'{"id":%d}' % t.api.last(key="dropped", path="/orders").number, "its record of the first")
    t.replay(t.ask(key="dropped"), answer)
    t.effects(1, path="/orders/by-ref/dropped")
    for key in ("left", "late", "dropped"):
        t.effects(1, method="POST", key=key)


@test("restart in the middle: nothing twice, the open step is named", "asan crash-steps")
def restart_in_the_middle(t):
    get = with_admin(t, route=dict(PROBE, task="header:X-Task-Id"))
    t.equal(get("/v1/tasks/order-7"), {"task": "order-7", "actions": []}, "nothing yet")
    first = t.fresh(step(t, "reserve"))
    t.api.on(Raw(end="hang"), key="order-7/charge", times=1)
    running = t.client()
    step(t, "charge", ask=running.post)
    t.check(t.api.wait_count(1, key="order-7/charge"), "reaches the API")
    t.equal([(action["state"], action["resume"]) for action in get("/v1/tasks/order-7")["actions"]],
            [("completed", "no"), ("in_progress", "wait")], "before the crash")
    t.proxy.restart()
    try:
        t.check(False, "no whole answer before the crash", running.read())
    except (Closed, Truncated):
        pass
    actions = get("/v1/tasks/order-7")["actions"]
    t.equal([(action["key"], action["state"], action["resume"]) for action in actions],
            [("order-7/reserve", "completed", "no"), ("order-7/charge", "unknown", "settle")],
            "what is done, what is open; what is not listed may be sent")
    t.api.on(Reply(503), method="GET", times=1)
    t.problem(step(t, "charge"), 409, "outcome-unknown", action=True, text="the API does not tell")
    t.replay(step(t, "reserve"), first)
    t.equal(effects(t), [1, 1, 0], "nothing twice")
    t.status(step(t, "charge"), 200, "the API tells")
    t.fresh(step(t, "ship"))
    t.equal(effects(t), [1, 1, 1], "each once")
    t.equal([action["resume"] for action in get("/v1/tasks/order-7")["actions"]], ["no"] * 3, "all is done")


@test("a task of three actions breaks in the second: the first is not repeated, the third can go on", "asan")
def breaks_in_the_second(t):
    """Whether or not the API acted before the line broke: the whole task is sent again, and each step happens once."""
    t.einmal(route=dict(PROBE, task="header:X-Task-Id"))
    for task, acted in (("acted", True), ("not-acted", False)):
        ref = "/orders/by-ref/%s%%2Fcharge" % task
        first = t.fresh(step(t, "reserve", task))
        lose_answer(t, task + "/charge", effect=acted)
        t.status(step(t, "charge", task), 502, "breaks")
        t.equal(effects(t, task), [1, int(acted), 0], "so far")

        t.api.on(Reply(200, body=b'{"charged":true}') if acted else Reply(404), path=ref, method="GET")
        t.replay(step(t, "reserve", task), first)
        second = step(t, "charge", task)
        t.equal((second.status, second.replayed), (200, True) if acted else (201, False), "the second, settled")
        t.fresh(step(t, "ship", task))
        t.equal(effects(t, task), [1, 1, 1], "each once")
        t.check(all(step(t, name, task).replayed for name in STEPS), "and for good")
        t.equal(effects(t, task), [1, 1, 1], "each once")
        t.effects(1, path=ref)
        t.equal(len(t.proxy.access(8, task=task)), 8, "every attempt is in the log, by its task")


@test("pressing a second time changes nothing", "asan")
def second_press(t):
    """At once, while it runs, later, and after a restart: the order is there once, and the answer is the first one."""
    t.einmal(route=PROBE)
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="press")
    press = t.start(key="press")
    t.check(t.api.wait_count(1), "reaches the API")
    again = t.start(key="press")
    t.check(again.waits(0.1), "waits for the first")
    gate.set()
    first = t.fresh(press.read())
    t.replay(again.read(), first)
    t.replay(press.post(key="press").read(), first, "on the same connection")
    t.proxy.restart()
    t.replay(t.ask(key="press"), first, "after a restart")
    t.effects(1)
    t.equal(len(t.api.requests), 1, "the API has seen one request, and no question")


@test("a deliberately changed order is not refused as a duplicate", "race asan")
def changed_order(t):
    """on_mismatch: new: the content is part of what an action is. One order with two pieces is not one with three."""
    t.einmal(route={"on_mismatch": "new", "fingerprint": "json", "ignore": ["json:/sent_at"]})
    two, three = b'{"pieces":2,"sent_at":1}', b'{"pieces":3,"sent_at":2}'
    gate = threading.Event()
    t.api.on(Reply(delay=gate), key="order", times=1)
    running = t.start(key="order", body=two)
    t.check(t.api.wait_count(1), "reaches the API")
    second = t.fresh(t.ask(key="order", body=three), text="at once, while the first still runs")
    gate.set()
    first = t.fresh(running.read())
    t.check(first.body != second.body, "two orders", first, second)
    t.replay(t.ask(key="order", body=b'{ "sent_at": 9, "pieces": 2 }'), first, "the first again")
    t.replay(t.ask(key="order", body=three), second, "the changed one again")
    t.effects(2, key="order")


@test("a rule built on a time stamp is warned about", "asan")
def time_stamp(t):
    """It works, but never as meant: each delivery has a key of its own. `check`, start and reload say so."""
    rule = {"name": "hooks", "match": {"path": "/orders/**"}, "key": [{"derive": ["json:/id", "json:/sent_at"]}]}
    t.einmal(routes=[rule])
    words = ("warning", "json:/sent_at", "looks like a time, which changes with every attempt")
    t.check(all(word in t.proxy.stderr() for word in words), "at the start", t.proxy.stderr())
    for sent_at in (1, 2):
        t.fresh(t.ask(body=b'{"id":7,"sent_at":%d}' % sent_at), text="which is why")
    t.effects(2)
    check = t.prepare("-check", routes=[rule])
    check.spawn(["check", "-c", check.file])
    t.equal(check.wait(), 0, "a warning is no error")
    t.check(all(word in check.stderr() for word in words), "by check", check.stderr())
    t.check("einmal.yaml:" in check.stderr(), "with its place", check.stderr())
    t.proxies.remove(check)  # what it printed is no access log


@test("every execution is counted with the action, every attempt is in the access log with an id of its own", "asan")
def attempts(t):
    get = with_admin(t, route=dict(PROBE, on_unknown="retry", probe=None, task="header:X-Task-Id"))
    for executions in (1, 2, 3):
        lose_answer(t, "order-7/charge")
        t.status(step(t, "charge"), 502, "execution %d" % executions)
        action = get("/v1/tasks/order-7")["actions"][0]
        t.equal((action["executions"], action["state"]), (executions, "unknown"), "counted")
    first = t.fresh(step(t, "charge"))
    t.replay(step(t, "charge"), first)
    action = get("/v1/tasks/order-7")["actions"][0]
    t.equal((action["executions"], action["state"]), (4, "completed"), "a replay is no execution")
    lines = t.proxy.access(5, task="order-7")
    t.equal(len({line["request_id"] for line in lines}), 5, "ids")
    t.equal({line["action"] for line in lines}, {action["id"]}, "one action")
    t.equal(sorted(line["outcome"] for line in lines), ["executed", "replayed"] + ["unknown"] * 3, "outcomes")
    t.api.on(Reply(429), key="order-7/ship", times=2)
    for _ in range(2):
        t.status(step(t, "ship"), 429, "released")
    t.fresh(step(t, "ship"))
    ship = [one for one in get("/v1/tasks/order-7")["actions"] if one["key"] == "order-7/ship"]
    t.equal([one["executions"] for one in ship], [1], "a released action starts anew")


TASKS = {
    "header:X-Task-Id": "from-header", "cookie:task": "from-cookie", "query:task": "from query", "path:task": "from-path",
    "json:/task/id": "from-json", "json:/number": "7.0", "literal:always": "always", "method": "POST", "host": "shop.test",
    "path": "/orders/from-path", "query": "task=from%20query", "header:X-Absent": None, "json:/absent": None,
    "json:/task": None, "cookie:absent": None, "form:task": None,
}


@test("a task is named by any kind of component, or by none where the value is absent", "asan")
def task_components(t):
    body = b'{"task":{"id":"from-json"},"number":7.0}'
    for component, wanted in TASKS.items():
        route = {"match": {"path": "/orders/{task}"}, "task": component}
        if t.proxy:
            t.proxy.configure(route=route)
            t.proxy.restart()
        else:
            t.einmal(route=route)
        t.fresh(t.ask(key=component, target="/orders/from-path?task=from%20query", body=body,
                      headers=[("X-Task-Id", "from-header"), ("Cookie", "a=b; task=from-cookie")]))
        t.wait_until(lambda: len(t.proxy.access()) == list(TASKS).index(component) + 1, text="a line")
        t.equal(t.proxy.access()[-1]["task"], wanted, component)
    t.proxy.configure(route={"match": {"path": "/orders/{task}"}, "task": "header:X-Task-Id"})
    t.proxy.restart()
    t.fresh(t.ask(key="long", target="/orders/x", headers=[("X-Task-Id", "x" * 600)]))
    t.wait_until(lambda: len(t.proxy.access()) == len(TASKS) + 1, text="a line")
    t.equal(t.proxy.access()[-1]["task"], "x" * 511, "a long name is cut")
    t.fd_level = t.proxy.fds()
