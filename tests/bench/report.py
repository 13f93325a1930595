"""Figures into words: a line for each measurement, the judgement, the Markdown page with its plot, the raw figures."""
import json
import os
import platform
import re
import shlex
import statistics
import sys
import time

import paths
import plot

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


def name_of(peer):
    return paths.NAMES[peer]


def best_of(against):
    names = [name_of(name).split(",")[0] if len(against) > 1 else name_of(name) for name in against]
    return "the better of " + " and ".join(names) if len(names) > 1 else names[0]


def unit_words(path, metric):
    each = "bytes" if path.unit == "bytes" else "requests"
    return "%s%s" % (each, "/s" if metric == "rate" else " per CPU-second")


# ---- what must be reached

class Judgement:
    """Rows of the first table, and the bars that were missed."""

    def __init__(self, smoke):
        self.smoke, self.rows, self.missed = smoke, [], []

    def add(self, what, value, must, met):
        words = "not judged" if self.smoke else "met" if met else "**missed**"
        self.rows.append("| %s | %s | %s | %s |" % (what, value, must, words))
        if not met and not self.smoke:
            self.missed.append("%s: %s, must be %s" % (what, value, must))

    def table(self):
        if not self.rows:
            return []
        return ["## What must be reached", "", "| path, einmal against | is | must be | |", "| --- | ---: | ---: | --- |"] + self.rows + [""]


def judge_paths(results, judgement):
    for path in paths.PATHS:
        runs = results["runs"].get(path.name)
        for bar in path.bars if runs else ():
            if bar.must is not None:
                value = ratio(runs, bar.metric, bar.against)
                judgement.add("%s, %s, in %s" % (path.title.split(":")[0], best_of(bar.against), unit_words(path, bar.metric)),
                              "%.2f" % value, "≥ %.1f" % bar.must, value >= bar.must)


def added_p99(runs):
    return median(runs["einmal"], "p99") - median(runs["haproxy"], "p99")


def commit_p99(runs):
    known = [run.commit_p99 for run in runs["einmal"] if run.commit_p99]
    return 1e3 * statistics.median(known) if known else None


def judge_latency(results, judgement):
    runs = results["runs"].get("new")
    commit = commit_p99(runs) if runs else None
    if commit:
        value = added_p99(runs) / commit
        judgement.add("new key, p99 added to HAProxy's, in p99 of a commit (%.2f ms)" % commit, "%.1f" % value,
                      "≤ %d" % paths.ADDED_P99, value <= paths.ADDED_P99)


def judge_memory(results, options, judgement):
    memory = results.get("memory")
    if not memory:
        return
    of = memory["einmal"]
    for kind, each in (("plain", paths.MEMORY_PER_CONNECTION), ("tls", paths.MEMORY_PER_TLS_CONNECTION)):
        allowed = paths.MEMORY_BASE + options.idle * each
        judgement.add("memory with %d idle %s connections" % (options.idle, "plain" if kind == "plain" else "TLS"),
                      "%.1f MiB" % (of[kind] / MIB), "≤ %.1f MiB" % (allowed / MIB), of[kind] <= allowed)
    judgement.add("memory that a stream of 1 GiB adds", "%.0f KiB" % (of["stream"] / 1024), "< 1024 KiB",
                  of["stream"] < paths.MEMORY_STREAM)


def judge_growth(results, judgement):
    sizes = results.get("growth")
    if not sizes or sizes[0]["records"] != 0:
        return
    for size in sizes[1:]:
        for kind, words in (("new", "new keys"), ("look_up", "look-ups")):
            value = median(size[kind], "rate") / median(sizes[0][kind], "rate")
            judgement.add("%s with %s records, an empty store" % (words, "{:,}".format(size["records"])), "%.2f" % value,
                          "≥ %.1f" % paths.SLOWED, value >= paths.SLOWED)


# ---- sections

def path_section(path, runs):
    out = ["### %s" % (path.title[0].upper() + path.title[1:]), "",
           "| proxy | %s | %s | p50 ms | p99 ms |" % (unit_words(path, "rate"), unit_words(path, "per_cpu")),
           "| --- | ---: | ---: | ---: | ---: |"]
    for name in runs:
        out.append("| %s | %s | %s | %s | %s |" % (
            name_of(name), figure(median(runs[name], "rate"), path.unit), figure(median(runs[name], "per_cpu"), path.unit),
            milliseconds(median(runs[name], "p50")), milliseconds(median(runs[name], "p99"))))
    out += ["", "| einmal against | %s | %s |" % (unit_words(path, "rate"), unit_words(path, "per_cpu")), "| --- | ---: | ---: |"]
    for against in dict.fromkeys([bar.against for bar in path.bars] + ([(name,) for name in paths.FLOORS.values() if name in runs])):
        out.append("| %s | %.2f | %.2f |" % (best_of(against), ratio(runs, "rate", against), ratio(runs, "per_cpu", against)))
    return out + [""]


def commit_section(runs, floors, options):
    """What durability costs. The time of a commit is taken as the mean distance of two while the store is busy: never less
    than the truth by more than its idle time."""
    rate, p50, p99 = (statistics.median(run.floor[i] for run in runs["einmal"]) for i in range(3))
    out = ["The disk by itself: %s durable writes of 4 KiB a second, one after the other (p50 %.2f ms, p99 %.2f ms). A commit of "
           "LMDB is at least two." % (figure(rate, ""), p50, p99), ""]
    if floors:
        keys, commits, p50, p99 = floors["lmdb"]
        out += ["Bare LMDB with the bytes of a key, no proxy, %d at a time: %s keys/s in %s commits/s (p50 %.2f ms, p99 %.2f ms)."
                % (options.connections, figure(keys, ""), figure(commits, ""), p50, p99), ""]
    counted = [run for run in runs["einmal"] if run.commits]
    if not counted or options.durability != "strict":
        return out
    commits = statistics.median(run.commits for run in counted)
    writes = statistics.median(2 * run.rate / run.commits for run in counted)
    limit = options.connections * commits / 2
    out += ["einmal's store: %s commits a second, %.1f reservations and outcomes in each; so a commit every %.2f ms. The limit of "
            "new keys at %d connections is connections / (2 × commit time) = %s requests/s."
            % (figure(commits, ""), writes, 1e3 / commits, options.connections, figure(limit, "")), ""]
    if "haproxy" in runs:
        p99 = commit_p99(runs)
        measure = "%.1f × the p99 of a commit (%.2f ms)" % (added_p99(runs) / p99, p99) if p99 else \
            "%.1f × the mean distance of two commits" % (added_p99(runs) * commits / 1e3)
        out += ["p99 added to HAProxy's: %.2f ms = %s." % (added_p99(runs), measure), ""]
    return out


def memory_line(values):
    return "%.1f MiB alone, %.1f KiB for each idle connection, %.1f KiB with TLS, a stream adds %.0f KiB" % (
        values["alone"] / MIB, values["each"] / 1024, values["each_tls"] / 1024, values["stream"] / 1024)


def memory_section(memory, options):
    out = ["### Memory (RssAnon of all processes of the proxy)", "",
           "| proxy | alone | with %d idle connections | each | with TLS | each | a stream of 1 GiB adds |" % options.idle,
           "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name, of in memory.items():
        out.append("| %s | %.1f MiB | %.1f MiB | %.1f KiB | %.1f MiB | %.1f KiB | %.0f KiB |" % (
            name_of(name), of["alone"] / MIB, of["plain"] / MIB, of["each"] / 1024, of["tls"] / MIB, of["each_tls"] / 1024,
            of["stream"] / 1024))
    return out + ["", "A request that waits in einmal for the same action, its connection included: %.1f KiB."
                  % (memory["einmal"]["waiter"] / 1024), ""]


def sweep_section(kind, sweep):
    out = []
    for path in paths.PATHS:
        values = [value for value in sweep if path.name in sweep[value]]
        if not values:
            continue
        names = list(sweep[values[0]][path.name])
        out += ["### %s, by %s" % (path.title[0].upper() + path.title[1:], kind), "",
                "| %s | " % kind + " | ".join("%s | p99 ms" % name_of(name).split(",")[0] for name in names) +
                " | best, requests/s | per CPU-second |",
                "| ---: |" + " ---: |" * (2 * len(names) + 2)]
        for value in values:
            runs = sweep[value][path.name]
            peers = tuple(name for name in names if name != "einmal")
            cells = ["%s | %s" % (figure(median(runs[name], "rate"), path.unit), milliseconds(median(runs[name], "p99")))
                     for name in names]
            cells += ["%.2f" % ratio(runs, metric, peers) for metric in ("rate", "per_cpu")]
            out.append("| %d | %s |" % (value, " | ".join(cells)))
        out.append("")
    return out


def growth_section(sizes):
    out = ["### As the store grows", "",
           "| records | new keys/s | p99 ms | look-ups/s | p99 ms | swept/s | start s | file | filled by the tool/s |",
           "| ---: |" + " ---: |" * 8]
    for size in sizes:
        out.append("| %s | %s | %s | %s | %s | %s | %.2f | %s | %s |" % (
            "{:,}".format(size["records"]), figure(median(size["new"], "rate"), ""), milliseconds(median(size["new"], "p99")),
            figure(median(size["look_up"], "rate"), ""), milliseconds(median(size["look_up"], "p99")), figure(size["swept"], ""),
            size["start"], figure(size["file"], "bytes"), figure(size["filled"], "")))
    return out + ["", "Look-ups are replays of any of the records, drawn at random; sweeping is measured on records that expire all at "
                  "once, without syncing.", ""]


# ---- the page

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
    command = " ".join(shlex.quote(word) for word in drop_programs(sys.argv[1:]))
    return ["# einmal beside nginx and HAProxy", "",
            "* measured %s by `sh tests/bench/run.sh%s`" % (time.strftime("%Y-%m-%d", time.gmtime()), " " + command if command else ""),
            "* machine: %s; store and logs on %s, nginx's cache on %s"
            % (machine(), options.file_system, options.cache_file_system),
            "* einmal %(einmal)s, nginx %(nginx)s, HAProxy %(haproxy)s, wrk %(wrk)s, %(openssl)s" % versions,
            "* %d worker%s each, %d connections, durability %s, access logs %s for all; median of %d round%s of %d s"
            % (options.workers, "" if options.workers == 1 else "s", options.connections, options.durability,
               "on" if options.access_log else "off", options.rounds, "" if options.rounds == 1 else "s",
               options.seconds)] + others_words(results) + [
            "", "Ratios are medians over the rounds of einmal's figure by the peer's in the same round. How it is measured, and what "
            "is fair about it: `tests/bench/README.md`.", ""]


def drop_programs(words):
    """The command as it was typed: run.sh has added --einmal PATH --tools FOLDER."""
    return words[4:] if words[:1] == ["--einmal"] else words


def plain(value):
    """Named tuples as objects, so that the raw figures can be read without this program."""
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def write_files(text, results, options):
    folder = os.path.dirname(options.output) or "."
    os.makedirs(os.path.join(folder, "raw"), exist_ok=True)
    with open(options.output, "w") as file:
        file.write(text)
    for suffix, drawing in plot.drawings(results).items():
        with open(plot_path(options.output, suffix), "w") as file:
            file.write(drawing)
    with open(os.path.join(folder, "raw", time.strftime("%Y%m%dT%H%M%SZ.json", time.gmtime())), "w") as file:
        json.dump(plain(results), file, indent=1)


def plot_path(output, suffix):
    return os.path.splitext(output)[0] + suffix + ".svg"


def images(results, options):
    if not options.output:
        return []
    return ["![%s](%s)" % (words, os.path.basename(plot_path(options.output, suffix)))
            for suffix, words in plot.titles(results).items()] + [""]


def problems_in(results):
    """Why figures are not valid, of every part that has any."""
    parts = [("", results["runs"])]
    for kind in ("connections", "workers"):
        parts += [(", %s %s" % (value, kind), runs) for value, runs in results.get(kind, {}).items()]
    parts += [(", %d records" % size["records"], {kind: {"einmal": size[kind]} for kind in ("new", "look_up")})
              for size in results.get("growth", [])]
    return ["%s%s, %s: %s" % (path, where, name, "; ".join(run.problems)) for where, runs in parts
            for path, peers in runs.items() for name, rounds in peers.items() for run in rounds if run.problems]


def write(results, options, versions):
    """(the page, bars that were missed, why figures are not valid)"""
    judgement = Judgement(options.smoke)
    judge_paths(results, judgement)
    judge_latency(results, judgement)
    judge_memory(results, options, judgement)
    judge_growth(results, judgement)
    out = heading(options, versions, results) + judgement.table() + images(results, options) + ["## Figures", ""]
    for path in paths.PATHS:
        runs = results["runs"].get(path.name)
        if not runs:
            continue
        out += path_section(path, runs)
        if path.name == "new":
            out += commit_section(runs, results.get("floors"), options)
    if results.get("memory"):
        out += memory_section(results["memory"], options)
    for kind in ("connections", "workers"):
        out += sweep_section(kind, results.get(kind, {}))
    if results.get("growth"):
        out += growth_section(results["growth"])
    invalid = problems_in(results)
    if invalid:
        out += ["**Not valid:**", ""] + ["* " + problem for problem in invalid] + [""]
    text = "\n".join(out).rstrip() + "\n"
    if options.output:
        write_files(text, results, options)
    return text, judgement.missed, invalid
