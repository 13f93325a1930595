"""einmal as a process: its configuration, its logs, its descriptors, its end.

The configuration is written from Python values as block YAML. Standard output holds the access log and nothing else,
standard error the error log; both go to files that a failing test shows.
"""
import json
import os
import re
import signal
import socket
import subprocess
import time

PLAIN = re.compile(r"[A-Za-z0-9_/.][A-Za-z0-9_/.{}*+-]*\Z")
WORDS = {"true", "false", "null", "yes", "no", "on", "off", "~"}


def scalar(value):
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if PLAIN.match(value) and value.lower() not in WORDS and not re.fullmatch(r"[0-9.]+", value):
        return value
    return '"%s"' % value.replace("\\", "\\\\").replace('"', '\\"')


def flow(value):
    """Lists of scalars stay on one line."""
    return "[%s]" % ", ".join('"%s"' % item if isinstance(item, str) and not PLAIN.match(item) else scalar(item)
                              for item in value)


def yaml(value, indent=0):
    pad, lines = "  " * indent, []
    if isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, dict) and item:
                lines += ["%s%s:" % (pad, name)] + yaml(item, indent + 1)
            elif isinstance(item, dict):
                lines.append("%s%s: {}" % (pad, name))
            elif isinstance(item, list) and any(isinstance(i, (dict, list)) for i in item):
                lines += ["%s%s:" % (pad, name)] + yaml(item, indent + 1)
            elif isinstance(item, list):
                lines.append("%s%s: %s" % (pad, name, flow(item)))
            else:
                lines.append("%s%s: %s" % (pad, name, scalar(item)))
    else:
        for item in value:
            if isinstance(item, dict):
                inner = yaml(item, indent + 1)
                lines.append("%s- %s" % (pad, inner[0].lstrip()))
                lines += inner[1:]
            else:
                lines.append("%s- %s" % (pad, scalar(item)))
    return lines


def merge(base, extra):
    """`extra` over `base`, dictionaries merged; a value None removes."""
    out = dict(base)
    for name, value in extra.items():
        if value is None:
            out.pop(name, None)
        elif isinstance(value, dict) and isinstance(out.get(name), dict):
            out[name] = merge(out[name], value)
        else:
            out[name] = value
    return out


GIVEN = set()  # ports that this process chose before: none is chosen twice, though nobody listens there yet


def free_port(address):
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, 0))
            port = probe.getsockname()[1]
        if port not in GIVEN:
            GIVEN.add(port)
            return port


class StartFailed(Exception):
    pass


class Einmal:
    def __init__(self, binary, directory, address, upstream_url, slow=1.0, env=None, **settings):
        """`settings`: `route` (merged into the one default route), `routes` (instead of it), `upstream`, and any
        top-level name of the configuration, merged."""
        self.binary, self.directory, self.slow = binary, directory, slow
        self.env = dict(env or {})
        self.port = free_port(address)
        self.address = (address, self.port)
        self.store = os.path.join(directory, "store")
        self.file = os.path.join(directory, "einmal.yaml")
        self.stdout_path = os.path.join(directory, "stdout")
        self.stderr_path = os.path.join(directory, "stderr")
        self.process = None
        self.extra_arguments = []
        self.upstream_url = upstream_url
        self.configure(**settings)

    # ---- configuration ----

    def configure(self, route=None, routes=None, upstream=None, tls=None, **top):
        listen = {"address": "%s:%d" % self.address}
        if tls:
            listen["tls"] = tls
        api = merge({"url": self.upstream_url}, upstream or {})
        base = {
            "listen": [listen],
            "workers": 2,
            "log": {"level": "info"},
            "store": {"path": self.store, "max_size": "64MiB"},
            "upstreams": {"api": api},
            "routes": routes or [merge({"name": "orders", "match": {"path": "/orders/**"}, "upstream": "api"},
                                       route or {})],
        }
        self.settings = merge(base, top)
        self.write("\n".join(yaml(self.settings)) + "\n")

    def write(self, text):
        with open(self.file, "w", encoding="utf-8") as out:
            out.write(text)

    # ---- the process ----

    def spawn(self, arguments=None):
        environment = dict(os.environ)
        for name in list(environment):
            if name.startswith("EINMAL_"):
                del environment[name]
        environment.update(self.env)
        with open(self.stdout_path, "ab") as out, open(self.stderr_path, "ab") as err:
            self.process = subprocess.Popen([self.binary] + (arguments or ["run", "-c", self.file] + self.extra_arguments),
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment)
        return self.process

    def start(self, wait=True):
        self.spawn()
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, seconds=15.0):
        """Ready means: the port accepts."""
        deadline = time.monotonic() + seconds * self.slow
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise StartFailed("einmal ended with %d at start:\n%s" % (self.process.returncode, self.stderr()))
            try:
                with socket.create_connection(self.address, 1):
                    return
            except OSError:
                time.sleep(0.01)
        raise StartFailed("einmal does not listen")

    @property
    def pid(self):
        return self.process.pid

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def stop_all_threads(self):
        """SIGSTOP, and not back before every thread stands still."""
        self.signal(signal.SIGSTOP)
        for task in os.listdir("/proc/%d/task" % self.pid):
            while self.read("/proc/%d/task/%s/stat" % (self.pid, task)).rsplit(")", 1)[-1].split()[0] not in "Tt":
                time.sleep(0.001)

    def wait(self, seconds=15.0):
        """Exit code."""
        return self.process.wait(seconds * self.slow)

    def stop(self, seconds=30.0):
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self):
        if self.alive:
            self.process.kill()
        return self.process.wait(30)

    def restart(self):
        """kill -9, then the same again on the same store."""
        self.kill()
        return self.start()

    # ---- looking at it ----

    def read(self, path):
        try:
            with open(path, "rb") as file:
                return file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def stdout(self):
        return self.read(self.stdout_path)

    def stderr(self):
        return self.read(self.stderr_path)

    def access(self, count=None, seconds=5.0, **which):
        """Lines of the access log whose members equal `which`; waits until there are `count`."""
        deadline = time.monotonic() + seconds * self.slow
        while True:
            lines = []
            for line in self.stdout().split("\n")[:-1]:
                entry = json.loads(line)
                if all(entry.get(name) == value for name, value in which.items()):
                    lines.append(entry)
            if count is None or len(lines) >= count or time.monotonic() > deadline:
                return lines
            time.sleep(0.02)

    def fds(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))

    def fd_targets(self):
        out = []
        for name in os.listdir("/proc/%d/fd" % self.pid):
            try:
                out.append((int(name), os.readlink("/proc/%d/fd/%s" % (self.pid, name))))
            except OSError:
                pass
        return sorted(out)

    def memory(self, field="RssAnon"):
        """KiB. VmHWM is the highest so far."""
        with open("/proc/%d/status" % self.pid) as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
        return 0

    def cpu_seconds(self):
        with open("/proc/%d/stat" % self.pid) as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
