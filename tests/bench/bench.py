"""Runs every path against every peer in turn, round after round, judges, and writes the report. Started by run.sh.

Peers take turns within a round, in an order that rotates, so that what else the machine does falls on all of them. No figure
counts unless the API saw what it must: every request for pass-through, streams and new keys, none for replays.
"""
import argparse
import copy
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import disk
import growth
import memory
import paths
import peers
import report
from measure import run_path, say

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PARTS = ("memory", "floors", "connections", "workers", "growth")  # what can be asked for beside the paths
USUAL_PARTS = ("memory", "floors")


def arguments():
    parser = argparse.ArgumentParser(prog="tests/bench/run.sh", description="einmal beside nginx and HAProxy, in one run")
    parser.add_argument("--einmal", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--tools", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2, help="of each measurement")
    parser.add_argument("--workers", type=int, default=1, choices=(1, 2), help="of each proxy")
    parser.add_argument("--connections", type=int, default=64)
    names = [path.name for path in paths.PATHS] + list(PARTS)
    parser.add_argument("--paths", default="", help="comma-separated, of: %s" % " ".join(names))
    parser.add_argument("--full", action="store_true",
                        help="everything: other numbers of connections and workers, stores of up to 10 million records")
    parser.add_argument("--keys", choices=("uuid", "counter"), default="uuid", help="form of new keys")
    parser.add_argument("--durability", choices=("strict", "process"), default="strict")
    parser.add_argument("--idle", type=int, default=1000, help="idle connections of the memory path")
    parser.add_argument("--no-access-log", dest="access_log", action="store_false", help="off for all; default: on for all")
    parser.add_argument("--dir", default="build", help="folder on a real disk for the store, the cache and the logs")
    parser.add_argument("--cache-dir", default="", help="where nginx keeps its cache; default: in memory, if there is room")
    parser.add_argument("--output", default="", help="default tests/bench/results/latest.md, with --full full.md, with --smoke none")
    parser.add_argument("--keep", action="store_true", help="keep configurations and logs")
    parser.add_argument("--smoke", action="store_true", help="one short round; nothing is judged")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.seconds, options.idle = 1, 1, min(options.idle, 200)
    elif not options.output:
        options.output = "tests/bench/results/%s.md" % ("full" if options.full else "latest")
    options.parts = options.paths.split(",") if options.paths else list(names if options.full else paths.USUAL + USUAL_PARTS)
    unknown = set(options.parts) - set(names)
    if unknown or options.rounds < 1 or options.seconds < 1 or not 1 <= options.idle <= 4000:
        parser.error("unknown path: %s" % ", ".join(unknown) if unknown else "a number is out of range")
    return options


# ---- parts

def floor_lmdb(directory, options):
    """Bare LMDB with the bytes of a key: (keys a second, commits a second, p50 and p99 of a commit in ms)."""
    folder = os.path.join(directory, "floor-lmdb")
    os.makedirs(folder)
    done = subprocess.run([peers.tool(options, "floor_lmdb"), folder, str(options.seconds * 2), str(options.connections)],
                          capture_output=True, text=True)
    shutil.rmtree(folder)
    if done.returncode != 0:
        raise peers.StartFailed("floor_lmdb: " + done.stderr[-500:])
    return [float(word) for word in done.stdout.split()]


def run_floors(directory, options):
    lmdb, writes = floor_lmdb(directory, options), disk.floor(directory, options.seconds)
    say("floors: bare LMDB %.0f keys/s in %.0f commits/s; %.0f durable writes/s" % (lmdb[0], lmdb[1], writes[0]))
    return {"lmdb": lmdb, "disk": writes}


def start_peers(chosen, directory, api, options, suffix=""):
    kinds = sorted({name for path in chosen for name in path.peers})
    if "floors" in options.parts:
        kinds += [paths.FLOORS[path.name] for path in chosen if path.name in paths.FLOORS]
    running = {}
    try:
        for kind in kinds:
            running[kind] = peers.start_peer(kind, kind + suffix, directory, api, options)
    except BaseException:
        stop_all(running)
        raise
    return running


def stop_all(running):
    for process in running.values():
        process.stop()


def with_options(options, **changes):
    changed = copy.copy(options)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def run_sweep(kind, values, directory, api, options):
    """{value: {path: {peer: [Run]}}}, in shorter rounds than the table's."""
    out = {}
    chosen = [path for path in paths.PATHS if path.name in paths.SWEPT]
    for value in values:
        changed = with_options(options, rounds=max(1, options.rounds // 2), parts=[], **{kind: value})
        running = start_peers(chosen, directory, api, changed, "-%s-%d" % (kind, value))
        try:
            for path in chosen:
                say("%s, %d %s" % (path.title, value, kind))
                out.setdefault(value, {})[path.name] = run_path(path, running, api, changed)
        finally:
            stop_all(running)
    return out


def run_all(directory, options):
    results = {"runs": {}}
    chosen = [path for path in paths.PATHS if path.name in options.parts]
    running, api = {}, peers.start_api(directory)
    try:
        if "floors" in options.parts:
            results["floors"] = run_floors(directory, options)
        running = start_peers(chosen, directory, api, options)
        for path in chosen:
            say(path.title)
            results["runs"][path.name] = run_path(path, running, api, options)
        stop_all(running)
        running = {}
        if "memory" in options.parts:
            results["memory"] = memory.run_memory(directory, api, options)
        if "connections" in options.parts:
            results["connections"] = run_sweep("connections", paths.CONNECTIONS, directory, api, options)
        if "workers" in options.parts:
            results["workers"] = run_sweep("workers", paths.WORKERS, directory, api, options)
        if "growth" in options.parts:
            results["growth"] = growth.run_growth(directory, api, with_options(options, rounds=max(1, options.rounds // 2)))
        return results
    finally:
        stop_all(running)
        api.stop()


# ---- the run

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


def prepare(directory, cache_base, options):
    if options.file_system in ("tmpfs", "ramfs"):
        raise peers.StartFailed("%s lies in memory: choose a folder on a disk with --dir" % options.dir)
    os.makedirs(cache_base, exist_ok=True)
    options.cache_dir = tempfile.mkdtemp(prefix="bench-cache-", dir=cache_base)
    peers.make_certificate(directory)
    options.metrics = peers.publishes_metrics(directory, options)
    if not options.metrics:
        say("skipped: p99 of a commit: this einmal has no listener for metrics")


def run_in(directory, options):
    """The results, or the exit status."""
    cache_base = os.path.abspath(options.cache_dir or memory_folder() or directory)
    options.cache_file_system = disk.file_system(cache_base)
    try:
        prepare(directory, cache_base, options)
        return run_all(directory, options)
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


def main():
    options = arguments()
    for number in STOPPING:
        signal.signal(number, stopped)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard > 0 else 65536, hard))
    os.makedirs(options.dir, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="bench-", dir=os.path.abspath(options.dir))
    options.file_system = disk.file_system(directory)
    results = run_in(directory, options)
    if isinstance(results, int):
        return results
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
