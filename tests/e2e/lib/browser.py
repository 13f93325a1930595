"""A real Chromium, driven over WebDriver (W3C) by its own driver; nothing but the standard library.

    with Browser(directory) as browser:
        browser.open("http://127.0.0.1:9180/")
        browser.click("#pause")

Elements are named by CSS selectors. A call waits until what it names is there, at most `timeout` seconds. Packages: chromium,
chromium-driver. All of the browser's own traffic is switched off.
"""
import base64
import http.client
import json
import os
import shutil
import subprocess
import time

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the WebDriver standard's name of an element's reference
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
             "--hide-scrollbars"]
ENTER, TAB = "\ue007", "\ue004"


def missing():
    """Why there is no browser, or None."""
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            return "%s is not installed" % program
    return None


class BrowserError(Exception):
    pass


class Browser:
    def __init__(self, directory, timeout=40.0, size=(1280, 1000), dark=False):
        self.timeout, self.session = timeout, None
        self.port = self.start_driver(directory)
        arguments = ARGUMENTS + ["--user-data-dir=" + os.path.join(directory, "chromium"), "--window-size=%d,%d" % size]
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        options = {"binary": shutil.which("chromium"), "args": arguments}
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        self.session = "/session/" + self.call("POST", "/session", wanted)["sessionId"]

    def start_driver(self, directory):
        """Its port. It takes any that is free on ::1 and ends if the same one is not free on 127.0.0.1, from where all the connections
        of other tests come; then it is started again."""
        command = [shutil.which("chromedriver"), "--port=0", "--log-path=" + os.path.join(directory, "chromedriver.log")]
        environment, said = {**os.environ, "HOME": directory, "TMPDIR": directory}, []
        for _ in range(20):
            self.driver = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for line in self.driver.stdout:
                said.append(line)
                if "successfully on port" in line:
                    return int(line.rsplit("on port", 1)[1].strip(" .\n"))
            self.driver.wait(20)
            self.driver.stdout.close()
        raise BrowserError("chromedriver did not start:\n" + "".join(said))

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise BrowserError("%s: %s" % (value["error"], value["message"].split("\n")[0]))
        return value

    def ask(self, method, path, body=None):
        return self.call(method, self.session + path, body)

    # ---- what tests use ----

    def open(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, what, condition):
        until, seen = time.monotonic() + self.timeout, None
        while time.monotonic() < until:
            try:
                seen = condition()
                if seen:
                    return seen
            except BrowserError as error:
                seen = error
            time.sleep(0.05)
        raise BrowserError("%s: not within %g s; last seen: %r" % (what, self.timeout, seen))

    def find(self, selector):
        value = {"using": "css selector", "value": selector}
        return self.wait(selector, lambda: self.ask("POST", "/element", value)[ELEMENT])

    def count(self, selector):
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def text(self, selector):
        return self.ask("GET", "/element/%s/text" % self.find(selector))

    def wait_text(self, selector, part):
        return self.wait("%r in %s" % (part, selector), lambda: part in self.text(selector))

    def click(self, selector):
        self.wait("a click on " + selector, lambda: self.ask("POST", "/element/%s/click" % self.find(selector), {}) is None)

    def type(self, selector, text):
        element = self.find(selector)
        self.wait("a place to write: " + selector, lambda: self.ask("POST", "/element/%s/clear" % element, {}) is None)
        self.ask("POST", "/element/%s/value" % element, {"text": text})

    def press(self, key):
        """A key where the focus is."""
        keys = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": keys}]})

    def focused(self):
        """What has the focus, as text to compare."""
        return self.run("const e = document.activeElement; return e.id || e.dataset.as || e.textContent")

    def resize(self, width, height):
        self.ask("POST", "/window/rect", {"width": width, "height": height})

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("GET", "/screenshot")))

    # ---- the end ----

    def close(self):
        if self.session:
            try:
                self.ask("DELETE", "")
            except (BrowserError, OSError):
                pass  # it is ended below
        self.driver.terminate()
        self.driver.wait(20)
        self.driver.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
