"""Runs every path against every peer in turn, round after round, judges, and writes the report. Started by run.sh.

Peers take turns within a round, in an order that rotates, so that what else the machine does falls on all of them. No figure
counts unless the API saw what it must: every request for pass-through and new keys, none for replays.
"""
import argparse
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

import disk
import paths
import peers
import report

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Run = namedtuple("Run", "rate per_cpu p50 p99 requests seconds cpu commits floor others problems")


def arguments():
    parser = argparse.ArgumentParser(prog="tests/bench/run.sh", description="einmal beside nginx and HAProxy, in one run")
    parser.add_argument("--einmal", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement")
    parser.add_argument("--workers", type=int, default=1, choices=(1, 2), help="of each proxy")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--paths", default="pass,stream,replay,new,memory", help="comma-separated, default: all")
    parser.add_argument("--keys", choices=("uuid", "counter"), default="uuid", help="form of new keys")
    parser.add_argument("--durability", choices=("strict", "process"), default="strict")
    parser.add_argument("--idle", type=int, default=1000, help="idle connections of the memory path")
    parser.add_argument("--no-access-log", dest="access_log", action="store_false", help="off for all; default: on for all")
    parser.add_argument("--dir", default="build", help="folder on a real disk for the store, the cache and the logs")
    parser.add_argument("--cache-dir", default="", help="where nginx keeps its cache; default: in memory, if there is room")
    parser.add_argument("--output", default="", help="default tests/bench/results/latest.md; with --smoke none")
    parser.add_argument("--keep", action="store_true", help="keep configurations and logs")
    parser.add_argument("--smoke", action="store_true", help="one short round; nothing is judged")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.seconds, options.idle = 1, 1, min(options.idle, 200)
    elif not options.output:
        options.output = "tests/bench/results/latest.md"
    options.paths = options.paths.split(",")
    unknown = set(options.paths) - {path.name for path in paths.PATHS} - {"memory"}
    if unknown or options.rounds < 1 or options.seconds < 1 or not 1 <= options.idle <= 4000:
        parser.error("unknown path: %s" % ", ".join(unknown) if unknown else "a number is out of range")
    return options


def say(text):
    print(text, flush=True)


# ---- one measurement

def api_requests(api):
    """How many requests reached the API, this question not counted."""
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=5)
    connection.request("GET", "/_status")
    text = connection.getresponse().read().decode()
    connection.close()
    # The third number of the line below "server accepts handled requests".
    seen = int(re.search(r"requests\s+\d+\s+\d+\s+(\d+)", text).group(1))
    api.asked = getattr(api, "asked", 0) + 1
    return seen - api.asked


def wrk(path, peer, run_id, seconds, options):
    if path.load[0] == "post":
        kind = options.keys if path.load[2] == "new" else path.load[2]
        load = ["post", path.load[1], kind, run_id, str(paths.FIXED_KEYS), paths.BODY]
    else:
        load = list(path.load)
    command = ["wrk", "-t2", "-c%d" % options.connections, "-d%ds" % seconds, "--timeout", "20s",
               "-s", os.path.join(peers.HERE, "load.lua"), "http://127.0.0.1:%d" % peer.port, "--"] + load
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0)
    try:
        output, _ = process.communicate(timeout=seconds + 60)
    except BaseException:
        process.kill()
        process.wait()
        raise
    line = re.search(r"^RESULT (.*)$", output, re.M)
    if process.returncode != 0 or not line:
        raise peers.StartFailed("wrk failed: " + output[-1000:])
    return json.loads(line.group(1))


def commits_count(path, peer):
    return path.name == "new" and peer.name == "einmal"


def effects_problem(path, result, reached, options):
    """Did the API see what it must? What is on its way when wrk stops may reach the API and no longer be counted."""
    if path.effects == "none":
        return "%d replays reached the API" % reached if reached else ""
    slack = 2 * options.connections
    if not result["requests"] <= reached <= result["requests"] + slack:
        return "%d answers, but %d requests reached the API" % (result["requests"], reached)
    return ""


def ours(peer, api):
    """Processor time of all that takes part: the proxy, the API, and every wrk that has ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return peer.cpu_seconds() + api.cpu_seconds() + children.ru_utime + children.ru_stime


def measure(path, peer, api, run_id, seconds, options):
    store = os.path.join(peer.directory, peer.name, "store")
    os.sync()  # what others have written is not this one's to wait for
    floor = disk.floor(peer.directory, 0.3) if commits_count(path, peer) else None
    reached, commits = api_requests(api), disk.commits(store)
    began, busy, cpu, others = time.monotonic(), peers.busy_seconds(), peer.cpu_seconds(), ours(peer, api)
    result = wrk(path, peer, run_id, seconds, options)
    cpu, others, busy = peer.cpu_seconds() - cpu, ours(peer, api) - others, peers.busy_seconds() - busy
    others = max(0.0, busy - others) / (time.monotonic() - began) / os.cpu_count()
    elapsed = result["microseconds"] / 1e6
    committed = disk.commits(store)
    time.sleep(0.2)
    reached = api_requests(api) - reached
    problems = ["%d %s errors" % (result[kind], kind) for kind in ("connect", "read", "write", "status", "timeout")
                if result[kind]]
    problems.append(effects_problem(path, result, reached, options))
    if not peer.alive():
        problems.append("it died: " + peer.complaint()[-300:])
    done = result["bytes"] if path.unit == "bytes" else result["requests"]
    return Run(done / elapsed, done / cpu if cpu > 0 else 0.0, result["p50"] / 1e3, result["p99"] / 1e3, result["requests"],
               elapsed, cpu, (committed - commits) / elapsed if commits and committed else None, floor, others,
               [problem for problem in problems if problem])


# ---- one path

def complete_keys(peer, run_id):
    """Sends every key of the fixed set once: from now on each is a replay."""
    connection = http.client.HTTPConnection("127.0.0.1", peer.port, timeout=20)
    headers = {"Host": "shop.example", "Authorization": "Bearer bench-5f1c0e9a7d", "Content-Type": "application/json"}
    for number in range(1, paths.FIXED_KEYS + 1):
        connection.request("POST", "/v1/orders", paths.BODY, dict(headers, **{"Idempotency-Key": "%s-%d" % (run_id, number)}))
        response = connection.getresponse()
        response.read()
        if response.status != 201:
            raise peers.StartFailed("%s answers a new key with %d" % (peer.name, response.status))
    connection.request("POST", "/v1/orders", paths.BODY, dict(headers, **{"Idempotency-Key": run_id + "-1"}))
    response = connection.getresponse()
    response.read()
    connection.close()
    marked = response.getheader("Idempotent-Replayed") == "true"
    if response.status != 201 or marked != (peer.name == "einmal"):
        raise peers.StartFailed("%s: a repeated key got %d, marked: %s" % (peer.name, response.status, marked))


def run_path(path, running, api, options):
    """{peer: [Run of each round]}"""
    say("%s" % path.title)
    run_ids = {name: os.urandom(9).hex() for name in path.peers}
    for name in path.peers:
        if path.effects == "none":
            complete_keys(running[name], run_ids[name])
        wrk(path, running[name], run_ids[name], path.warm_up, options)
    time.sleep(0.3)
    runs = {name: [] for name in path.peers}
    for number in range(options.rounds):
        at = number % len(path.peers)
        for name in path.peers[at:] + path.peers[:at]:
            run_id = run_ids[name] if path.effects == "none" else os.urandom(9).hex()
            run = measure(path, running[name], api, run_id, options.seconds, options)
            runs[name].append(run)
            say("  round %d  %-12s %s" % (number + 1, name, report.line(path, run)))
    return runs


# ---- memory

def request(port, target):
    client = socket.create_connection(("127.0.0.1", port), 10)
    client.sendall(("GET %s HTTP/1.1\r\nHost: shop.example\r\n\r\n" % target).encode())
    return client


def idle_bytes(peer, count):
    """RssAnon before and with `count` connections that have had one answer each and are kept alive."""
    request(peer.port, "/v1/ping").recv(4096)  # what is made at the first request is no connection's
    time.sleep(0.3)
    before, clients = peer.anonymous_bytes(), []
    try:
        for _ in range(count):
            clients.append(request(peer.port, "/v1/ping"))
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


def run_memory(directory, api, options):
    """{peer: (bytes before, bytes with idle connections, bytes that a stream adds)}, each measured on a process of its own."""
    say("memory: %d idle connections, a stream of 1 GiB" % options.idle)
    out = {}
    for kind in paths.MEMORY_PEERS:
        peer = peers.start_peer(kind, "memory-" + kind, directory, api, options)
        try:
            out[kind] = idle_bytes(peer, options.idle) + (stream_bytes(peer, 1 << 30),)
        finally:
            peer.stop()
        say("  %-12s %s" % (kind, report.memory_line(out[kind], options.idle)))
    return out


# ---- all

def run_all(directory, options):
    results = {"runs": {}, "memory": None}
    running, api = {}, None
    chosen = [path for path in paths.PATHS if path.name in options.paths]
    try:
        api = peers.start_api(directory)
        for kind in sorted({name for path in chosen for name in path.peers}):
            running[kind] = peers.start_peer(kind, kind, directory, api, options)
        for path in chosen:
            results["runs"][path.name] = run_path(path, running, api, options)
        if "memory" in options.paths:
            results["memory"] = run_memory(directory, api, options)
        return results
    finally:
        for process in list(running.values()) + ([api] if api else []):
            process.stop()


def stopped(number, _frame):
    for other in STOPPING:  # what follows is ending what was started: once
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt(number)


def memory_folder():
    """A file system in memory with room for the cache, or none. A cache on ext4 cannot be measured twice: for minutes after
    the files of one run were removed, creating those of the next costs many times the usual."""
    folder = "/dev/shm"
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK) or disk.file_system(folder) != "tmpfs":
        return ""
    room = os.statvfs(folder)
    return folder if room.f_bavail * room.f_frsize >= peers.CACHE_BYTES else ""


def main():
    options = arguments()
    for number in STOPPING:
        signal.signal(number, stopped)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard > 0 else 65536, hard))
    os.makedirs(options.dir, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="bench-", dir=os.path.abspath(options.dir))
    options.file_system = disk.file_system(directory)
    cache_base = os.path.abspath(options.cache_dir or memory_folder() or directory)
    options.cache_file_system = disk.file_system(cache_base)
    try:
        if options.file_system in ("tmpfs", "ramfs"):
            raise peers.StartFailed("%s lies in memory: choose a folder on a disk with --dir" % options.dir)
        os.makedirs(cache_base, exist_ok=True)
        options.cache_dir = tempfile.mkdtemp(prefix="bench-cache-", dir=cache_base)
        results = run_all(directory, options)
    except peers.StartFailed as failure:
        say("bench: %s" % failure)
        return 1
    except KeyboardInterrupt:
        say("bench: stopped")
        return 130
    finally:
        if options.keep:
            say("kept: " + directory)
        else:
            shutil.rmtree(directory, ignore_errors=True)
            if options.cache_dir.startswith(cache_base + os.sep):
                shutil.rmtree(options.cache_dir, ignore_errors=True)
    text, missed, invalid = report.write(results, options, peers.versions(options.einmal))
    say("\n" + text)
    for problem in invalid:
        say("not valid: " + problem)
    if options.smoke:
        return 1 if invalid else 0
    for bar in missed:
        say("missed: " + bar)
    return 1 if invalid or missed else 0


if __name__ == "__main__":
    sys.exit(main())
