"""Figures into words: a line for each measurement, the judgement, the Markdown page, the raw figures."""
import json
import os
import platform
import re
import shlex
import statistics
import sys
import time

import paths

MIB = 1 << 20
QUIET = 0.1  # of the CPUs: writing back what was written is among it


def figure(value, unit):
    if unit == "bytes":
        return "%.0f MiB" % (value / MIB)
    return "{:,.0f}".format(value)


def milliseconds(value):
    return "%.2f" % value if value else "–"  # in a short run no large body may have ended


def line(path, run):
    return "%11s/s %11s/CPU s   p50 %8s ms  p99 %8s ms  others %3.0f %%%s" % (
        figure(run.rate, path.unit), figure(run.per_cpu, path.unit), milliseconds(run.p50), milliseconds(run.p99),
        100 * run.others,
        "   NOT VALID: " + "; ".join(run.problems) if run.problems else "")


def median(runs, metric):
    return statistics.median(getattr(run, metric) for run in runs)


def ratio(runs, metric, against):
    """The median over the rounds of einmal's figure by the best of the others in the same round."""
    ratios = []
    for number, run in enumerate(runs["einmal"]):
        best = max(getattr(runs[name][number], metric) for name in against)
        ratios.append(getattr(run, metric) / best if best else 0.0)
    return statistics.median(ratios)


def verdict(value, now, goal, smoke):
    """(words for the table, was this version's bar missed)"""
    if goal is None:
        return "–", False
    if smoke:
        return "not judged", False
    goal_words = "goal %.1f: %s" % (goal, "reached" if value >= goal else "not reached")
    if now is None:
        return goal_words, False
    return "now %.1f: %s; %s" % (now, "met" if value >= now else "**missed**", goal_words), value < now


def best_of(against):
    names = [paths.NAMES[name].split(",")[0] if len(against) > 1 else paths.NAMES[name] for name in against]
    return "the better of " + " and ".join(names) if len(names) > 1 else names[0]


def path_section(path, runs, smoke):
    each = "bytes" if path.unit == "bytes" else "requests"
    out = ["### %s" % (path.title[0].upper() + path.title[1:]), "",
           "| proxy | %s/s | %s per CPU-second | p50 ms | p99 ms |" % (each, each), "| --- | ---: | ---: | ---: | ---: |"]
    for name in path.peers:
        out.append("| %s | %s | %s | %s | %s |" % (
            paths.NAMES[name], figure(median(runs[name], "rate"), path.unit), figure(median(runs[name], "per_cpu"), path.unit),
            milliseconds(median(runs[name], "p50")), milliseconds(median(runs[name], "p99"))))
    out += ["", "| einmal against | in | ratio | bar |", "| --- | --- | ---: | --- |"]
    missed, judged = [], {(bar.metric, bar.against): bar for bar in path.bars}
    shown = list(judged) + [(metric, against) for _, against in list(judged) for metric in ("rate", "per_cpu")]
    for metric, against in dict.fromkeys(shown):
        value, bar = ratio(runs, metric, against), judged.get((metric, against))
        words, is_missed = verdict(value, bar.now, bar.goal, smoke) if bar else ("–", False)
        measure = "%s%s" % (each, "/s" if metric == "rate" else " per CPU-second")
        out.append("| %s | %s | %.2f | %s |" % (best_of(against), measure, value, words))
        if is_missed:
            missed.append("%s: %.2f of %s in %s, must be %.1f" % (path.name, value, best_of(against), measure, bar.now))
    return out + [""], missed


def commit_section(runs, options):
    """What durability costs. The time of a commit is taken as the mean distance of two while the store is busy: never less
    than the truth by more than its idle time."""
    rate, p50, p99 = (statistics.median(run.floor[i] for run in runs["einmal"]) for i in range(3))
    out = ["The disk by itself: %s durable writes of 4 KiB a second, one after the other (p50 %.2f ms, p99 %.2f ms). A commit of "
           "LMDB is at least two." % (figure(rate, ""), p50, p99), ""]
    counted = [run for run in runs["einmal"] if run.commits]
    if not counted or options.durability != "strict":
        return out
    commits = statistics.median(run.commits for run in counted)
    writes = statistics.median(2 * run.rate / run.commits for run in counted)
    distance = 1e3 / commits
    limit = options.connections / (2 * distance / 1e3)
    added = median(runs["einmal"], "p99") - median(runs["haproxy"], "p99")
    out += ["einmal's store: %s commits a second, %.1f reservations and outcomes in each; so a commit every %.2f ms. The limit of "
            "new keys at %d connections is connections / (2 × commit time) = %s requests/s."
            % (figure(commits, ""), writes, distance, options.connections, figure(limit, "")), "",
            "p99 added to HAProxy's: %.2f ms = %.1f × the mean distance of two commits. (The goal is ≤ 4 × the p99 of a commit, "
            "which this version does not publish yet: not judged.)" % (added, added / distance), ""]
    return out


def memory_line(values, idle):
    before, with_idle, stream = values
    return "%.1f MiB alone, %.1f MiB with the connections (%.0f bytes each), a stream adds %.0f KiB" % (
        before / MIB, with_idle / MIB, (with_idle - before) / idle, stream / 1024)


def memory_section(memory, options):
    out = ["### Memory (RssAnon of all processes of the proxy)", "",
           "| proxy | alone | with %d idle connections | each | a stream of 1 GiB adds |" % options.idle,
           "| --- | ---: | ---: | ---: | ---: |"]
    for name, (before, with_idle, stream) in memory.items():
        out.append("| %s | %.1f MiB | %.1f MiB | %.1f KiB | %.0f KiB |" % (
            paths.NAMES[name], before / MIB, with_idle / MIB, (with_idle - before) / options.idle / 1024, stream / 1024))
    if options.smoke:
        return out + [""]
    _, with_idle, stream = memory["einmal"]
    allowed = paths.MEMORY_BASE + options.idle * paths.MEMORY_PER_CONNECTION
    out += ["", "Goal: %.1f MiB for so many connections (16 MiB + 4 KiB each): %s. Goal: a stream adds less than 1 MiB: %s."
            % (allowed / MIB, "reached" if with_idle <= allowed else "**not reached**",
               "reached" if stream < paths.MEMORY_STREAM else "**not reached**"), ""]
    return out


def others_words(results):
    """How quiet the machine was: what neither the proxies nor wrk nor the API used."""
    shares = [run.others for runs in results["runs"].values() for rounds in runs.values() for run in rounds]
    if not shares:
        return []
    middle, highest = statistics.median(shares), max(shares)
    return ["* other programs used %.0f %% of the CPUs meanwhile (median; at most %.0f %%)%s" % (
        100 * middle, 100 * highest,
        ": **not quiet**, read requests per CPU-second, not requests/s and latencies" if middle > QUIET else "")]


def machine():
    try:
        with open("/proc/cpuinfo") as file:
            model = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.M)
    except OSError:
        model = None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return "%s, %d CPUs, %.0f GiB; Linux %s" % (model.group(1) if model else platform.machine(), os.cpu_count(), memory,
                                                 platform.release())


def heading(options, versions, results):
    command = " ".join(shlex.quote(word) for word in drop_binary(sys.argv[1:]))
    return ["# einmal beside nginx and HAProxy", "",
            "* measured %s by `sh tests/bench/run.sh%s`" % (time.strftime("%Y-%m-%d", time.gmtime()), " " + command if command else ""),
            "* machine: %s; store and logs on %s, nginx's cache on %s"
            % (machine(), options.file_system, options.cache_file_system),
            "* einmal %(einmal)s, nginx %(nginx)s, HAProxy %(haproxy)s, wrk %(wrk)s" % versions,
            "* %d worker%s each, %d connections, durability %s, access logs %s for all; median of %d round%s of %d s"
            % (options.workers, "" if options.workers == 1 else "s", options.connections, options.durability,
               "on" if options.access_log else "off", options.rounds, "" if options.rounds == 1 else "s", options.seconds)] + others_words(results) + [
            "", "Ratios are medians over the rounds of einmal's figure by the peer's in the same round. *now*: what this version must "
            "reach; *goal*: what it shall reach in the end. How it is measured, and what is fair about it: `tests/bench/README.md`.",
            ""]


def drop_binary(words):
    """The command as it was typed: run.sh has added --einmal PATH."""
    return words[2:] if words[:1] == ["--einmal"] else words


def write_files(text, results, options):
    os.makedirs(os.path.dirname(options.output) or ".", exist_ok=True)
    with open(options.output, "w") as file:
        file.write(text)
    raw = os.path.join(os.path.dirname(options.output), "raw")
    os.makedirs(raw, exist_ok=True)
    plain = {path: {name: [run._asdict() for run in rounds] for name, rounds in runs.items()}
             for path, runs in results["runs"].items()}
    with open(os.path.join(raw, time.strftime("%Y%m%dT%H%M%SZ.json", time.gmtime())), "w") as file:
        json.dump(dict(results, runs=plain), file, indent=1)


def write(results, options, versions):
    """(the page, bars of this version that were missed, why figures are not valid)"""
    out, missed, invalid = heading(options, versions, results), [], []
    for path in paths.PATHS:
        runs = results["runs"].get(path.name)
        if not runs:
            continue
        section, path_missed = path_section(path, runs, options.smoke)
        out += section
        missed += path_missed
        if path.name == "new":
            out += commit_section(runs, options)
        invalid += ["%s, %s: %s" % (path.name, name, "; ".join(run.problems))
                    for name, rounds in runs.items() for run in rounds if run.problems]
    if results["memory"]:
        out += memory_section(results["memory"], options)
    if invalid:
        out += ["**Not valid:**", ""] + ["* " + problem for problem in invalid] + [""]
    text = "\n".join(out).rstrip() + "\n"
    if options.output:
        write_files(text, results, options)
    return text, missed, invalid
