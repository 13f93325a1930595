#!/usr/bin/env python3
"""What the image promises, tried with podman: sizes, users, volumes, signals, health, pods.

    test_image.py --work FOLDER [--built N]      run by run.sh, which has built the images

Every test gets a fresh volume and containers of its own; all are removed afterwards. Effects are counted at the demo API.
"""
import argparse
import glob
import http.client
import json
import os
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SAFE = ["--no-healthcheck", "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"]
API_PORT, PORT = 18300, 18380
TESTS = []


class Failure(AssertionError):
    pass


class Skip(Exception):
    pass


def test(why):
    def register(function):
        TESTS.append((function, why))
        return function
    return register


def check(condition, text, *details):
    if not condition:
        raise Failure(text + "".join("\n    %r" % (detail,) for detail in details))


def podman(*arguments, fails=False, seconds=60):
    done = subprocess.run(["podman", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds)
    if done.returncode != 0 and not fails:
        raise Failure("podman %s: exit %d\n%s" % (" ".join(arguments), done.returncode, done.stderr))
    return done


class Pen:
    """The containers and volumes of one test."""

    def __init__(self, work):
        self.work, self.names, self.volumes = work, [], []

    @staticmethod
    def name():
        return "einmal-test-%d-%d" % (os.getpid(), time.monotonic_ns())

    def volume(self):
        name = self.name()
        podman("volume", "create", name)
        self.volumes.append(name)
        return name

    def run(self, image, *arguments, options=()):
        name = self.name()
        self.names.append(name)
        podman("run", "-d", "--name", name, *SAFE, *options, "localhost/" + image, *arguments)
        return name

    def api(self, *arguments, options=("--network", "host")):
        name = self.run("demo:test", "127.0.0.1", str(API_PORT), *arguments, options=[*options, "--entrypoint", "/usr/bin/legacy-api"])
        wait(API_PORT, "/effects")
        return name

    def einmal(self, volume=None, options=(), environment=None):
        environment = {"EINMAL_UPSTREAM": "http://127.0.0.1:%d" % API_PORT, "EINMAL_LISTEN": "127.0.0.1:%d" % PORT,
                       "EINMAL_ADMIN": "127.0.0.1:%d" % (PORT + 1), **(environment or {})}
        more = [part for item in environment.items() for part in ("-e", "%s=%s" % item)]
        volume = volume or self.volume()
        name = self.run("einmal:test", options=["--network", "host", "-v", volume + ":/var/lib/einmal", *more, *options])
        wait(PORT, "/effects")
        return name

    def clean(self):
        for name in reversed(self.names):  # who lives in another's network namespace goes first
            podman("rm", "-f", "-t", "0", name, fails=True)
        for name in self.volumes:
            podman("volume", "rm", "-f", name, fails=True)


def request(port, method, path, key=None, body=None, seconds=10):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request(method, path, body, {"Idempotency-Key": key} if key else {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def wait(port, path, seconds=10):
    until = time.monotonic() + seconds
    while True:
        try:
            return request(port, "GET", path)
        except OSError:
            if time.monotonic() > until:
                raise Failure("nothing listens on port %d" % port) from None
            time.sleep(0.05)


def order(key, port=PORT):
    status, headers, body = request(port, "POST", "/orders", key, b"{}")
    return status, headers.get("Idempotent-Replayed"), body


def charges():
    return json.loads(request(API_PORT, "GET", "/effects")[2])["charges"]


def exit_code(name):
    return int(podman("inspect", name, "--format", "{{.State.ExitCode}}").stdout)


def once_and_replayed(key="k"):
    first = order(key)
    check(first[:2] == (201, None), "the first answer", first)
    again = order(key)
    check(again == (201, "true", first[2]), "the replay", again)
    check(charges() == 1, "one charge", charges())


# ---- what is in it ----


@test("under 10 MB; no shell, no package manager, nothing that is written to but the volume")
def contents(pen):
    size = int(podman("image", "inspect", "localhost/einmal:test", "--format", "{{.Size}}").stdout)
    print("    image size: %.2f MB" % (size / 1e6))
    check(size < 10e6, "size", size)
    root = podman("image", "mount", "localhost/einmal:test").stdout.strip()
    try:
        programs = sorted(os.listdir(root + "/usr/bin"))
        check(programs == ["einmal"], "programs", programs)
        check(not os.path.exists(root + "/bin/sh"), "no shell")
        setuid = [path for path in glob.glob(root + "/**", recursive=True) if os.path.isfile(path) and os.stat(path).st_mode & 0o6000]
        check(not setuid, "no setuid", setuid)
        folder = os.stat(root + "/var/lib/einmal")
        check((folder.st_uid, folder.st_gid, folder.st_mode & 0o777) == (65532, 0, 0o770), "the store's folder", folder)
    finally:
        podman("image", "unmount", "localhost/einmal:test")


@test("configuration of the image: numeric user, volume, ports, signal, health check, labels")
def configuration(pen):
    image = json.loads(podman("image", "inspect", "localhost/einmal:test").stdout)[0]
    config = image["Config"]
    check(config["User"] == "65532:65532", "user", config)
    check(list(config["Volumes"]) == ["/var/lib/einmal"], "volume", config)
    check(sorted(config["ExposedPorts"]) == ["8080/tcp", "9181/tcp"], "ports", config)
    check(config["StopSignal"] in ("SIGTERM", "15"), "signal", config)
    check((config["Entrypoint"], config["Cmd"]) == (["/usr/bin/einmal"], ["run"]), "command", config)
    check(image["HealthCheck" if "HealthCheck" in image else "Healthcheck"]["Test"] == ["CMD", "/usr/bin/einmal", "health"], "health", image)
    labels = {"title", "description", "version", "revision", "licenses", "created", "base.name"}
    check(labels <= {name.rpartition("image.")[2] for name in image["Labels"]}, "labels", image["Labels"])


@test("the SBOM is SPDX and names every library that is in the image")
def sbom(pen):
    root = podman("image", "mount", "localhost/einmal:test").stdout.strip()
    try:
        with open(root + "/usr/share/doc/einmal/sbom.spdx.json", encoding="utf-8") as file:
            document = json.load(file)
        libraries = [os.path.basename(path) for path in glob.glob(root + "/usr/lib/*/*.so*")]
    finally:
        podman("image", "unmount", "localhost/einmal:test")
    check(document["spdxVersion"] == "SPDX-2.3", "version")
    names = {package["name"]: package["versionInfo"] for package in document["packages"]}
    check({"einmal", "libc6", "libssl3", "liblmdb0", "libevent-core-2.1-7", "libyaml-0-2", "ca-certificates"} <= set(names), "packages", names)
    check(all(names.values()), "versions", names)
    check(len(libraries) >= 6, "libraries", libraries)
    ids = {package["SPDXID"] for package in document["packages"]} | {"SPDXRef-DOCUMENT"}
    for relation in document["relationships"]:
        check(relation["spdxElementId"] in ids and relation["relatedSpdxElement"] in ids, "a relation to nothing", relation)


# ---- running ----


@test("read-only, no capabilities, as 65532: configured by the environment alone")
def environment(pen):
    pen.api()
    began = time.monotonic()
    name = pen.einmal()
    print("    from `podman run` to the first answer: %.2f s" % (time.monotonic() - began))
    once_and_replayed()
    process = podman("inspect", name, "--format", "{{.State.Pid}}").stdout.strip()
    with open("/proc/%s/status" % process, encoding="ascii") as file:
        status = dict(line.rstrip().split(":\t", 1) for line in file if ":\t" in line)
    check(status["CapEff"] == "0000000000000000", "capabilities", status["CapEff"])
    check(status["Uid"].split()[0] == "65532", "user", status["Uid"])
    check(status["NoNewPrivs"] == "1", "no new privileges")
    print("    memory at rest: RssAnon %s, VmRSS %s" % (status["RssAnon"].strip(), status["VmRSS"].strip()))


@test("configured by a mounted file")
def mounted_file(pen):
    path = os.path.join(pen.work, "einmal.yaml")
    with open(path, "w", encoding="ascii") as file:
        file.write("listen: [{address: '127.0.0.1:%d'}]\nupstreams: {api: {url: 'http://127.0.0.1:%d'}}\n"
                   "routes: [{name: orders, match: {path: /orders}, required: true}]\n" % (PORT, API_PORT))
    pen.api()
    volume = pen.volume()
    pen.run("einmal:test", options=["--network", "host", "-v", volume + ":/var/lib/einmal", "-v", path + ":/etc/einmal/einmal.yaml:ro"])
    wait(PORT, "/effects")
    once_and_replayed()
    check(order(None)[0] == 400, "the file's rule: a key is required")


@test("any uid with group 0 (OpenShift)")
def arbitrary_uid(pen):
    pen.api()
    name = pen.einmal(options=["--user", "1000660000:0"])
    once_and_replayed()
    check(podman("inspect", name, "--format", "{{.Config.User}}").stdout.strip() == "1000660000:0", "user")


@test("a uid without access to the folder: a message that says what to do, exit 1")
def no_access(pen):
    volume = pen.volume()
    podman("run", "--rm", *SAFE, "-v", volume + ":/var/lib/einmal", "localhost/einmal:test", "--version")
    done = podman("run", "--rm", *SAFE, "--user", "4242:4242", "-e", "EINMAL_UPSTREAM=http://127.0.0.1:1", "-v", volume + ":/var/lib/einmal",
                  "localhost/einmal:test", fails=True)
    check(done.returncode == 1, "exit", done)
    check("/var/lib/einmal" in done.stderr and "ermission" in done.stderr, "message", done.stderr)


@test("the volume keeps the keys over kill -9 and over a new container")
def kill(pen):
    pen.api()
    volume = pen.volume()
    name = pen.einmal(volume)
    once_and_replayed()
    podman("kill", "-s", "KILL", name)
    podman("wait", name, fails=True)
    podman("rm", "-f", name)
    pen.einmal(volume)
    check(order("k")[1] == "true" and charges() == 1, "replayed after the kill", charges())


@test("SIGTERM to process 1: what runs is finished, exit 0")
def terminate(pen):
    pen.api()
    name = pen.einmal()
    slow = subprocess.Popen(["curl", "-s", "-w", "%{http_code}", "-d", "{}", "-H", "Idempotency-Key: slow",
                             "http://127.0.0.1:%d/orders?delay=1500" % PORT], stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    podman("stop", "-t", "20", name)
    output = slow.communicate()[0]
    check(output.endswith("201"), "the running request got its answer", output)
    check(exit_code(name) == 0, "exit code", exit_code(name))


@test("`einmal health` inside: 0 while it lives, 1 where nothing answers")
def health(pen):
    pen.api()
    name = pen.einmal()
    for arguments in (["health"], ["health", "--ready"], ["wait", "--max", "5s"]):
        done = podman("exec", name, "/usr/bin/einmal", *arguments, fails=True)
        check(done.returncode == 0, "einmal %s" % " ".join(arguments), done)
    done = podman("exec", "-e", "EINMAL_ADMIN=127.0.0.1:1", name, "/usr/bin/einmal", "health", fails=True)
    check(done.returncode == 1 and "einmal: " in done.stderr, "nothing there", done)
    check(podman("healthcheck", "run", name, fails=True, seconds=20).returncode in (0, 125), "podman's own health check")


@test("a second container on the same volume is refused: exit 1, naming folder and holder")
def second(pen):
    pen.api()
    volume = pen.volume()
    pen.einmal(volume)
    done = podman("run", "--rm", *SAFE, "--network", "host", "-e", "EINMAL_UPSTREAM=http://127.0.0.1:%d" % API_PORT,
                  "-e", "EINMAL_LISTEN=127.0.0.1:%d" % (PORT + 5), "-e", "EINMAL_ADMIN=127.0.0.1:%d" % (PORT + 6),
                  "-v", volume + ":/var/lib/einmal", "localhost/einmal:test", fails=True)
    check(done.returncode == 1, "exit", done)
    check("/var/lib/einmal" in done.stderr and "pid" in done.stderr, "message", done.stderr)
    once_and_replayed()


# ---- pods ----


@test("two containers in one network namespace: the app on loopback, the sidecar outside")
def sidecar(pen):
    app = pen.run("demo:test", "127.0.0.1", "3000", options=["--entrypoint", "/usr/bin/legacy-api", "-p", "127.0.0.1:%d:8080" % PORT])
    pen.run("einmal:test", options=["--network", "container:" + app, "-v", pen.volume() + ":/var/lib/einmal",
                                    "-e", "EINMAL_UPSTREAM=http://127.0.0.1:3000"])
    wait(PORT, "/effects")
    first, again = order("k"), order("k")
    check((first[0], again) == (201, (201, "true", first[2])), "once and replayed", first, again)
    check(json.loads(request(PORT, "GET", "/effects")[2])["charges"] == 1, "one charge")


@test("`podman kube play` of a pod: configuration from a ConfigMap, store in an emptyDir")
def kube_play(pen):
    path = os.path.join(pen.work, "pod.yaml")
    with open(os.path.join(HERE, "pod.yaml"), encoding="utf-8") as file, open(path, "w", encoding="utf-8") as out:
        out.write(file.read().replace("18380", str(PORT)))
    podman("kube", "play", "--no-hosts", path)
    try:
        wait(PORT, "/effects")
        first, again = order("k"), order("k")
        check((first[0], again) == (201, (201, "true", first[2])), "once and replayed", first, again)
    finally:
        podman("kube", "down", path, fails=True)
        podman("pod", "rm", "-f", "-t", "0", "einmal-test", fails=True)  # also what began only half


# ---- the other targets ----


@test("a careless client, a moody API, einmal in between: the count is right; without it it is not")
def demo(pen):
    pen.api("moody")
    pen.einmal()
    for url, right in (("http://127.0.0.1:%d" % PORT, True), ("http://127.0.0.1:%d" % API_PORT, False)):
        done = podman("run", "--rm", "--network", "host", "--entrypoint", "/usr/bin/careless-client", "-e",
                      "EFFECTS_URL=http://127.0.0.1:%d/effects" % API_PORT, "localhost/demo:test", url, "6", fails=True, seconds=120)
        check((done.returncode == 0) == right, "careless through %s" % url, done.stdout, done.stderr)
        print("    %s" % done.stdout.strip().split("\n")[-1])


@test("the debug target has a shell and runs the same binary")
def debug(pen):
    done = podman("run", "--rm", "--entrypoint", "/bin/sh", "localhost/debug:test", "-c", "einmal --version && command -v curl mdb_stat strace && id -u")
    check(done.stdout.startswith("einmal ") and done.stdout.strip().endswith("65532"), "output", done)


@test("arm64: the binary and every library are of that machine, and it runs")
def arm64(pen):
    root = podman("image", "mount", "localhost/einmal:arm64").stdout.strip()
    try:
        files = [root + "/usr/bin/einmal"] + glob.glob(root + "/usr/lib/aarch64-linux-gnu/*")
        check(len(files) > 6, "files", files)
        for path in files:
            with open(path, "rb") as file:
                head = file.read(20)
            check(head[:4] == b"\x7fELF" and head[18] == 183, "not for arm64: %s" % path)
        emulator = "/usr/bin/qemu-aarch64-static"
        if not os.path.exists(emulator):
            raise Skip("qemu-user-static is not installed, so the arm64 image was built but not run")
        done = subprocess.run([emulator, "-L", root, root + "/usr/bin/einmal", "--version"], stdout=subprocess.PIPE, text=True, timeout=30)
        check(done.stdout.startswith("einmal "), "output", done)
    finally:
        podman("image", "unmount", "localhost/einmal:arm64")


def main():
    parser = argparse.ArgumentParser(description="the image, for real")
    parser.add_argument("--work", required=True)
    parser.add_argument("--built", type=int, default=0)
    parser.add_argument("--filter", default="")
    arguments = parser.parse_args()
    passed, failed = arguments.built, 0
    for function, why in TESTS:
        if arguments.filter not in function.__name__:
            continue
        pen = Pen(arguments.work)
        try:
            function(pen)
            passed += 1
            print("ok      %s (%s)" % (function.__name__, why))
        except Skip as skip:
            print("skipped: image.%s: %s" % (function.__name__, skip))
        except Exception:  # noqa: BLE001: a failed test must not end the others
            failed += 1
            print("FAILED  %s (%s)" % (function.__name__, why))
            traceback.print_exc(file=sys.stdout)
            for name in pen.names:
                print("---- logs of %s\n%s" % (name, podman("logs", name, fails=True).stderr[-3000:]))
        finally:
            pen.clean()
        sys.stdout.flush()
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
