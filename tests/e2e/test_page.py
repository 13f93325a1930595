"""The status page in a real browser (contract §8 `GET /`): what it shows is true, and an unknown action is settled by clicking."""
import json
import os
import shutil
import time

from lib.browser import Browser, ENTER, TAB, missing
from lib.case import Raw, Skip, test
from lib.proxy import free_port

ROW = "#unknown-table tbody tr[data-id='%s']"


def opened(t, token=None, **what):
    """einmal with its admin side, and a browser that shows it."""
    why = missing()
    if why:
        raise Skip(why)
    admin = {"address": "%s:%d" % (t.address, free_port(t.address))}
    route = {"task": "header:X-Task-Id", "scope": []}
    if not t.address.startswith("127."):
        raise Skip("loopback only")
    t.einmal(admin=admin, route=route)
    browser = Browser(t.directory, timeout=40 * t.slow, **what)
    t.cleanups.append(browser.close)
    t.url = "http://%s/" % admin["address"]
    browser.open(t.url)
    browser.wait_text("#state", "ready")
    return browser


def unknown(t, key, task="task-7"):
    """An action that the API did before it dropped the connection. Returns its id."""
    t.api.on(Raw(end="close"), key=key, times=1)
    answer = t.ask(key=key, headers=[("X-Task-Id", task)])
    return json.loads(answer.body)["action"]


@test("an unknown action is recorded as completed by clicking, and the next retry gets that answer", "page", seconds=150)
def settle_completed(t):
    browser = opened(t)
    t.equal(browser.text("#unknown-count"), "0", "nothing is unknown yet")
    action = unknown(t, "order-1")
    t.problem(t.ask(key="order-1"), 409, "outcome-unknown", action=True)
    row = ROW % action
    browser.wait_text(row, "order-1")
    t.check("closed without an answer" in browser.text(row) and "task-7" in browser.text(row), "reason and task", browser.text(row))
    browser.click(row + " button[data-as='completed']")
    browser.wait_text("#dialog-title", "It happened")
    browser.type("#answer-status", "201")
    browser.type("#answer-headers", "Content-Type: application/json\nLocation: /orders/77")
    browser.type("#answer-body", '{"id":77}')
    browser.click("#dialog-do")
    browser.wait("the row is gone", lambda: browser.count(row) == 0)
    browser.wait_text("#unknown-count", "0")
    answer = t.ask(key="order-1")
    t.equal((answer.status, answer.body, answer.get("Location"), answer.replayed), (201, b'{"id":77}', "/orders/77", True), "the retry")
    t.effects(1, key="order-1")


@test("an unknown action is released by clicking; cancelling and Escape change nothing; the next retry executes", "page", seconds=150)
def settle_not_executed(t):
    browser = opened(t)
    action = unknown(t, "order-2")
    row = ROW % action
    for leave in ("click", "escape"):
        browser.click(row + " button[data-as='not-executed']")
        browser.wait_text("#dialog-text", "it happens twice")
        if leave == "click":
            browser.click("#dialog-cancel")
        else:
            browser.press("\ue00c")
        browser.wait("the dialog is closed", lambda: not browser.run("return document.getElementById('dialog').open"))
    t.problem(t.ask(key="order-2"), 409, "outcome-unknown", action=True)
    browser.click(row + " button[data-as='not-executed']")
    browser.click("#dialog-do")
    browser.wait_text("#unknown-count", "0")
    t.fresh(t.ask(key="order-2"))
    t.effects(2, key="order-2")


@test("what a header field must not be is said in the dialog, and nothing is changed", "page", seconds=150)
def settle_refused(t):
    browser = opened(t)
    row = ROW % unknown(t, "order-3")
    browser.click(row + " button[data-as='completed']")
    browser.wait_text("#dialog-title", "It happened")
    for wrong in ("no colon", "Bad Name: x", "Transfer-Encoding: chunked"):
        browser.type("#answer-headers", wrong)
        browser.click("#dialog-do")
        browser.wait("an error about " + wrong, lambda: browser.text("#dialog-error"))
        t.problem(t.ask(key="order-3"), 409, "outcome-unknown", action=True)
    browser.type("#answer-headers", "")
    browser.click("#dialog-do")
    browser.wait_text("#unknown-count", "0")
    t.equal(t.ask(key="order-3").status, 200, "the default status")


@test("rates, outcomes by route and a task are shown as they are", "page", seconds=150)
def shown(t):
    browser = opened(t)
    for number in range(20):
        t.ask(key="k%d" % (number % 10))
    browser.wait_text("#rate-more", "20 since start")
    browser.wait_text("#routes", "orders")
    cells = browser.run("return [...document.querySelectorAll('#routes tbody tr td')].map(td => td.textContent)")
    t.equal([cells[0], cells[2], cells[3]], ["orders", "10", "10"], "route, executed, replayed")
    t.check("strict" in browser.text("#store"), "the store", browser.text("#store"))
    unknown(t, "step-2", task="a task/with ä")
    t.ask(key="step-1", headers=[("X-Task-Id", "other")])
    browser.type("#look-text", "other")
    browser.press(ENTER)
    browser.wait_text("#look-result", "step-1")
    t.check("done" in browser.text("#look-result"), "what may be resumed", browser.text("#look-result"))


@test("texts of strangers stay text: no markup of a key or task is taken for ours", "page", seconds=150)
def escaped(t):
    browser = opened(t)
    evil = "<img/src=x/onerror=document.title='owned'>"
    row = ROW % unknown(t, evil, task="<script>document.title='owned'</script>")
    browser.wait_text(row, evil)
    t.check(browser.run("return document.title") == "(1) einmal", "title", browser.run("return document.title"))
    t.equal(browser.count("#unknown-table img, #unknown-table script"), 0, "elements of strangers")


@test("the keyboard reaches everything, and focus stays where it is while rows come and go", "page", seconds=150)
def keyboard(t):
    browser = opened(t)
    first = unknown(t, "order-a")
    browser.find(ROW % first + " button")
    browser.run("document.querySelector(arguments[0]).focus()", ROW % first + " button[data-as='not-executed']")
    second = unknown(t, "order-b")
    browser.find(ROW % second + " button")
    t.equal(browser.focused(), "not-executed", "the focus after a refresh")
    t.equal(browser.run("return document.activeElement.closest('tr').dataset.id"), first, "its row")
    browser.press(TAB)
    t.equal(browser.run("return document.activeElement.closest('tr').dataset.id"), second, "the next row")
    browser.press(ENTER)
    browser.wait_text("#dialog-title", "It happened")


@test("narrow and dark: nothing is cut off, nothing overlaps; no request leaves for elsewhere", "page", seconds=150)
def narrow(t):
    browser = opened(t, size=(390, 900), dark=True)
    for number in range(3):
        unknown(t, "order-%d" % number)
    browser.wait_text("#unknown-count", "3")
    wide = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    t.check(wide <= 0, "no sideways scrolling", wide)
    t.check(browser.run("return matchMedia('(prefers-color-scheme: dark)').matches"), "dark")
    background = browser.run("return getComputedStyle(document.documentElement).backgroundColor")
    t.equal(background, "rgb(16, 22, 21)", "the dark page")
    names = browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
    t.check(names and all(name.startswith(t.url) or name.startswith("data:") for name in names), "everything from einmal itself", names)


@test("einmal goes away and comes back: the page says so and goes on", "page", seconds=150)
def gone(t):
    browser = opened(t)
    unknown(t, "order-9")
    browser.wait_text("#unknown-count", "1")
    t.equal(t.proxy.stop(), 0, "exit")
    browser.wait_text("#state", "no answer")
    t.proxy.start()
    browser.wait_text("#state", "ready")
    browser.wait_text("#unknown-count", "1")


@test("a picture for people (EINMAL_SCREENSHOT=FILE keeps it)", "page", seconds=120)
def picture(t):
    browser = opened(t, size=(1280, 1120))
    for number in range(4):
        unknown(t, "order-2026-%04d" % (1187 + number), task="checkout-%d" % (52 + number))
    until = time.monotonic() + (30 if os.environ.get("EINMAL_SCREENSHOT") else 5)
    number = 0
    while time.monotonic() < until:
        for _ in range(12):
            number += 1
            t.ask(key="k%d" % (number * 2 // 3))
        t.ask("GET", target="/free")
    browser.wait("the graph", lambda: browser.count("#rate-graph path") >= 2)
    path = t.path("page.png")
    browser.screenshot(path)
    t.check(os.path.getsize(path) > 20000, "a picture", os.path.getsize(path))
    if os.environ.get("EINMAL_SCREENSHOT"):
        shutil.copy(path, os.environ["EINMAL_SCREENSHOT"])
