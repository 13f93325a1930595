"""The processes that are measured, and the API behind them: started from the templates beside this file, each on a loopback
port of its own, read through /proc, ended by process id.
"""
import os
import re
import signal
import socket
import string
import subprocess
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
TICKS = os.sysconf("SC_CLK_TCK")

CACHE_BYTES = 4 << 30
CACHE_PATH = "proxy_cache_path $cache_dir levels=1:2 keys_zone=keys:256m inactive=24h max_size=$cache_bytes use_temp_path=off;"
CACHE = """proxy_cache keys;
            proxy_cache_methods POST;
            proxy_cache_key "$request_method $host$request_uri $http_authorization $http_idempotency_key";
            proxy_cache_valid any 24h;
            proxy_cache_lock on;"""


class StartFailed(Exception):
    pass


GIVEN = set()  # no port is chosen twice, though nobody listens there yet


def free_port():
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in GIVEN:
            GIVEN.add(port)
            return port


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def read_cpu_ticks(pid):
    text = read("/proc/%d/stat" % pid)
    return sum(int(n) for n in text.rpartition(")")[2].split()[11:15]) if text else 0


def tree(pid):
    """The process and all that descend from it."""
    found = [pid]
    try:
        tasks = os.listdir("/proc/%d/task" % pid)
    except OSError:
        return found
    for task in tasks:
        for child in read("/proc/%d/task/%s/children" % (pid, task)).split():
            found += tree(int(child))
    return found


class Process:
    """One program in the foreground; its output goes to files in `directory`."""

    def __init__(self, name, command, directory, values):
        self.name, self.directory, self.port = name, directory, values["port"]
        self.ports = {"http": values["port"], "https": values.get("tls_port")}
        self.metrics_port, self.store = values.get("metrics_port"), values.get("store")
        self.output = os.path.join(directory, name + ".log")
        self.errors = os.path.join(directory, name + ".stderr")
        with open(self.output, "ab") as out, open(self.errors, "ab") as err:
            # A process group of its own: Ctrl-C reaches the benchmark alone, which ends everything in order.
            self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, process_group=0)
        self.pid = self.popen.pid
        try:
            self.wait_until_listening()
        except BaseException:
            self.stop()
            raise

    def wait_until_listening(self):
        for _ in range(200):
            if self.popen.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise StartFailed("%s did not start: %s" % (self.name, self.complaint()))

    def complaint(self):
        return (read(self.errors) + read(os.path.join(self.directory, self.name + ".err")))[-2000:]

    def alive(self):
        return self.popen.poll() is None

    def cpu_seconds(self):
        """User and system time of all its processes, and of those that it has reaped."""
        return sum(read_cpu_ticks(pid) for pid in tree(self.pid)) / TICKS

    def anonymous_bytes(self):
        """RssAnon of all its processes."""
        total = 0
        for pid in tree(self.pid):
            found = re.search(r"RssAnon:\s+(\d+) kB", read("/proc/%d/status" % pid))
            total += int(found.group(1)) * 1024 if found else 0
        return total

    def stop(self):
        pids = tree(self.pid)
        if self.alive():
            self.popen.terminate()
            try:
                self.popen.wait(30)
            except subprocess.TimeoutExpired:
                for pid in pids:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                self.popen.wait()


def busy_seconds():
    """Processor time of the whole machine that was not idle, and which its host gave to others counts too."""
    user, nice, system, _, _, irq, softirq, steal = (int(n) for n in read("/proc/stat").split("\n")[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def write_configuration(template, directory, name, values):
    with open(os.path.join(HERE, template)) as file:
        text = string.Template(file.read()).substitute(values)
    path = os.path.join(directory, name + os.path.splitext(template)[1])
    with open(path, "w") as file:
        file.write(text)
    return path


def base_values(directory, name):
    # A master that is root would let its workers be somebody who may not write here.
    return {"dir": directory, "tls_dir": directory, "name": name, "port": free_port(), "tls_port": free_port(),
            "user": "user root;" if os.geteuid() == 0 else ""}


def make_certificate(directory):
    """One for all who speak TLS: the same key and the same chain cost all of them the same."""
    certificate, key = (os.path.join(directory, "tls" + suffix) for suffix in (".crt", ".key"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                    "-subj", "/CN=shop.example", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    with open(os.path.join(directory, "tls.pem"), "w") as file:
        file.write(read(certificate) + read(key))


def start_nginx(template, directory, name, values):
    path = write_configuration(template, directory, name, values)
    # -e: before it has read its configuration it would complain into a file of the system's.
    command = ["nginx", "-e", os.path.join(directory, name + ".err"), "-p", directory, "-c", path]
    return Process(name, command, directory, values)


def start_api(directory):
    files = os.path.join(directory, "files")
    os.makedirs(files, exist_ok=True)
    with open(os.path.join(files, "8MiB"), "wb") as file:
        file.write(os.urandom(1 << 20) * 8)
    with open(os.path.join(files, "1GiB"), "wb") as file:
        file.truncate(1 << 30)  # a hole: no disk is read
    return start_nginx("api.conf", directory, "api", base_values(directory, "api"))


def tool(options, name):
    return os.path.join(options.tools, name)


def einmal_configuration(name, directory, api_port, options, store=None):
    """(path, values): the store lies in `store`, else in a folder of its own."""
    values = base_values(directory, name)
    values.update(api=api_port, workers=options.workers, durability=options.durability, max_size="64GiB",
                  access="true" if options.access_log else "false", store=store or os.path.join(directory, name + "-store"),
                  health="")
    if options.metrics:
        values["metrics_port"] = free_port()
        values["health"] = "health: {address: \"127.0.0.1:%d\"}" % values["metrics_port"]
    return write_configuration("einmal.yaml", directory, name, values), values


def start_einmal(name, directory, api_port, options, store=None):
    path, values = einmal_configuration(name, directory, api_port, options, store)
    return Process(name, [options.einmal, "run", "-c", path], directory, values)


def publishes_metrics(directory, options):
    """Does this einmal have the listener that tells the time of commits?"""
    options.metrics = True
    path, _ = einmal_configuration("probe", directory, 1, options)
    return subprocess.run([options.einmal, "check", "-c", path], capture_output=True).returncode == 0


def commit_buckets(peer):
    """einmal_store_commit_seconds as [(upper edge in seconds, commits up to it)], or none."""
    if not peer.metrics_port:
        return []
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % peer.metrics_port, timeout=5) as answer:
        text = answer.read().decode()
    return [(float(edge.replace("+Inf", "inf")), int(count)) for edge, count in
            re.findall(r'^einmal_store_commit_seconds_bucket\{le="([^"]+)"\} (\d+)', text, re.M)]


def quantile(before, after, share):
    """Seconds, from the difference of two readings; within a bucket values are taken to be spread evenly."""
    counts = [(edge, late - early) for (edge, late), (_, early) in zip(after, before)]
    total = counts[-1][1] if counts else 0
    low_edge, low_count = 0.0, 0
    for edge, count in counts:
        if total and count >= share * total:
            if edge == float("inf"):
                return low_edge
            return low_edge + (edge - low_edge) * (share * total - low_count) / (count - low_count)
        low_edge, low_count = edge, count
    return None


def start_peer(kind, name, directory, api, options):
    """`kind`: einmal, nginx, nginx-cache, haproxy, haproxy-splice, floor or floor-keys. `name` names its files."""
    values = base_values(directory, name)
    values.update(api=api.port, workers=options.workers)
    if kind == "einmal":
        return start_einmal(name, directory, api.port, options)
    if kind == "floor":
        return Process(name, [tool(options, "floor_epoll"), str(values["port"]), str(api.port)], directory, values)
    if kind == "floor-keys":
        folder = os.path.join(directory, name + "-store")
        os.makedirs(folder)
        return Process(name, [tool(options, "floor_keys"), str(values["port"]), str(api.port), folder], directory, values)
    if kind in ("haproxy", "haproxy-splice"):
        values["splice"] = "option splice-response" if kind == "haproxy-splice" else ""
        values["log"] = "log stdout format raw local0 info" if options.access_log else ""
        values["log_global"] = "log global\n    option httplog" if options.access_log else ""
        path = write_configuration("haproxy.cfg", directory, name, values)
        return Process(name, ["haproxy", "-db", "-f", path], directory, values)
    cached = kind == "nginx-cache"
    values.update(cache_dir=options.cache_dir, cache_bytes=CACHE_BYTES)
    for first in "0123456789abcdef" if cached else "":
        for number in range(256):  # a cache that has been in use for a while: it has all its folders
            os.makedirs(os.path.join(options.cache_dir, first, "%02x" % number), exist_ok=True)
    access = "%s/%s.log combined buffer=64k flush=1s" % (directory, name)
    values["access_log"] = access if options.access_log else "off"
    values["cache"] = CACHE if cached else ""
    values["request_buffering"] = "" if cached else "proxy_request_buffering off;"  # a hit would leave the body unread
    values["cache_path"] = string.Template(CACHE_PATH).substitute(values) if cached else ""
    return start_nginx("nginx.conf", directory, name, values)


def versions(einmal):
    def first_line(*command):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        except OSError as error:
            return str(error)
        return ((done.stdout + done.stderr).strip().splitlines() or ["unknown"])[0]

    haproxy = re.search(r"version (\S+)", first_line("haproxy", "-v"))
    nginx = re.search(r"nginx/(\S+)", first_line("nginx", "-v"))
    wrk = re.search(r"wrk \S*?([0-9.]+)", first_line("wrk", "-v"))
    return {
        "openssl": " ".join(first_line("openssl", "version").split()[:2]),
        "einmal": first_line(einmal, "--version").replace("einmal ", ""),
        "nginx": nginx.group(1) if nginx else "unknown",
        "haproxy": haproxy.group(1) if haproxy else "unknown",
        "wrk": wrk.group(1) if wrk else "unknown",
    }
