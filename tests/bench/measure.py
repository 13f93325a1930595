"""One measurement: wrk against one peer, what it cost, and whether the figure is valid. And a path: all its peers, round by round.
"""
import http.client
import json
import os
import re
import resource
import statistics
import subprocess
import time
from collections import namedtuple

import disk
import paths
import peers
import report

HEADERS = {"Host": "shop.example", "Authorization": "Bearer bench-5f1c0e9a7d", "Content-Type": "application/json"}
Run = namedtuple("Run", "rate per_cpu p50 p99 requests seconds cpu commits commit_p99 floor others problems")


def say(text):
    print(text, flush=True)


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


def wrk(path, peer, run_id, seconds, options, keys=paths.FIXED_KEYS):
    load = list(path.load)
    if load[0] == "post":
        kind = options.keys if load[2] == "new" else load[2]
        load = ["post", load[1], kind, run_id, str(keys), paths.BODY]
    url = "%s://127.0.0.1:%d" % (path.scheme, peer.ports[path.scheme])
    threads = min(2, options.connections)
    command = ["wrk", "-t%d" % threads, "-c%d" % options.connections, "-d%ds" % seconds, "--timeout", "20s",
               "-s", os.path.join(peers.HERE, "load.lua"), url, "--"] + load
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


def effects_problem(path, result, reached, options):
    """Did the API see what it must? What is on its way when wrk stops may reach the API and no longer be counted."""
    if path.effects == "none":
        return "%d replays reached the API" % reached if reached else ""
    slack = 2 * options.connections
    reached //= path.counted
    if not result["requests"] <= reached <= result["requests"] + slack:
        return "%d answers, but %d requests reached the API" % (result["requests"], reached)
    return ""


def ours(peer, api):
    """Processor time of all that takes part: the proxy, the API, and every wrk that has ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return peer.cpu_seconds() + api.cpu_seconds() + children.ru_utime + children.ru_stime


def problems_of(path, peer, result, reached, options):
    problems = ["%d %s errors" % (result[kind], kind) for kind in ("connect", "read", "write", "status", "timeout")
                if result[kind]]
    problems.append(effects_problem(path, result, reached, options))
    if not peer.alive():
        problems.append("it died: " + peer.complaint()[-300:])
    return [problem for problem in problems if problem]


def measure(path, peer, api, run_id, seconds, options, keys=paths.FIXED_KEYS):
    commits_count = path.name == "new" and peer.store
    os.sync()  # what others have written is not this one's to wait for
    floor = disk.floor(peer.directory, 0.3) if commits_count else None
    reached, commits, buckets = api_requests(api), disk.commits(peer.store), peers.commit_buckets(peer)
    began, busy, cpu, others = time.monotonic(), peers.busy_seconds(), peer.cpu_seconds(), ours(peer, api)
    result = wrk(path, peer, run_id, seconds, options, keys)
    cpu, others, busy = peer.cpu_seconds() - cpu, ours(peer, api) - others, peers.busy_seconds() - busy
    others = max(0.0, busy - others) / (time.monotonic() - began) / os.cpu_count()
    elapsed = result["microseconds"] / 1e6
    committed = disk.commits(peer.store)
    commit_p99 = peers.quantile(buckets, peers.commit_buckets(peer), 0.99) if commits_count and buckets else None
    time.sleep(0.2)
    reached = api_requests(api) - reached
    done = result["requests"]
    if path.unit == "bytes":
        done = result["requests"] * path.body or result["bytes"]
    return Run(done / elapsed, done / cpu if cpu > 0 else 0.0, result["p50"] / 1e3, result["p99"] / 1e3, result["requests"],
               elapsed, cpu, (committed - commits) / elapsed if commits and committed else None, commit_p99, floor, others,
               problems_of(path, peer, result, reached, options))


# ---- one path

def complete_keys(peer, run_id):
    """Sends every key of the fixed set once: from now on each is a replay."""
    connection = http.client.HTTPConnection("127.0.0.1", peer.port, timeout=20)
    for number in range(1, paths.FIXED_KEYS + 1):
        connection.request("POST", "/v1/orders", paths.BODY, dict(HEADERS, **{"Idempotency-Key": "%s-%d" % (run_id, number)}))
        response = connection.getresponse()
        response.read()
        if response.status != 201:
            raise peers.StartFailed("%s answers a new key with %d" % (peer.name, response.status))
    connection.close()
    check_replay(peer, run_id + "-1")


def check_replay(peer, key):
    """A key that was completed must be answered at once, and marked where it is einmal's."""
    connection = http.client.HTTPConnection("127.0.0.1", peer.port, timeout=20)
    connection.request("POST", "/v1/orders", paths.BODY, dict(HEADERS, **{"Idempotency-Key": key}))
    response = connection.getresponse()
    response.read()
    connection.close()
    marked = response.getheader("Idempotent-Replayed") == "true"
    if response.status != 201 or marked != bool(peer.store):
        raise peers.StartFailed("%s: a repeated key got %d, marked: %s" % (peer.name, response.status, marked))


def run_path(path, running, api, options):
    """{peer: [Run of each round]}"""
    names = [name for name in path.peers + (paths.FLOORS.get(path.name),) if name in running]
    run_ids = {name: os.urandom(9).hex() for name in names}
    for name in names:
        if path.effects == "none":
            complete_keys(running[name], run_ids[name])
        wrk(path, running[name], run_ids[name], 1, options)  # warms up
    time.sleep(0.3)
    runs = {name: [] for name in names}
    for number in range(options.rounds):
        at = number % len(names)
        for name in names[at:] + names[:at]:
            run_id = run_ids[name] if path.effects == "none" else os.urandom(9).hex()
            run = measure(path, running[name], api, run_id, options.seconds, options)
            runs[name].append(run)
            say("  round %d  %-14s %s" % (number + 1, name, report.line(path, run)))
    return runs


def median(runs, metric):
    return statistics.median(getattr(run, metric) for run in runs)
