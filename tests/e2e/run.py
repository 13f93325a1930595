#!/usr/bin/env python3
"""Runs the end-to-end tests against an einmal binary.

    run.py --einmal PATH [--jobs N] [--set all|race|asan|crash-steps] [--filter TEXT] [--slow-factor F] [--list]

Each test runs in a process and process group of its own (forked, so that nothing is imported twice), with a time limit;
when it is over, every process that it left behind ends with it. Output is shown for tests that fail. Skipped tests are
lines `skipped: NAME: why`; the last line is `N passed, N failed`; the exit status is 0 only if nothing failed and
something ran.
"""
import argparse
import glob
import importlib
import os
import signal
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from lib.case import Case, Options, Skip, TESTS  # noqa: E402

PASSED, FAILED, SKIPPED = 0, 1, 3
SANITIZER_REPORTS = ("AddressSanitizer", "ThreadSanitizer", "LeakSanitizer", "runtime error:", "Assertion `")


def load_tests():
    for path in sorted(glob.glob(os.path.join(HERE, "test_*.py"))):
        importlib.import_module(os.path.basename(path)[:-3])


def check_logs(case):
    """A report of a sanitizer or a failed assertion is a failure, whatever the test saw."""
    for proxy in case.proxies:
        text = proxy.stderr()
        for word in SANITIZER_REPORTS:
            if word in text:
                raise AssertionError("standard error of einmal holds a report: %s" % word)


def run_one(test, options):
    """In the child. Returns the exit code."""
    case = None
    try:
        case = Case(options)
        test.function(case)
        case.finish()
        check_logs(case)
        return PASSED
    except Skip as why:
        print("skip: %s" % why)
        return SKIPPED
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        if case:
            case.show()
        return FAILED
    finally:
        if case:
            case.clean_up()


class Running:
    def __init__(self, test, options, slow):
        self.test, self.output = test, tempfile.TemporaryFile()
        self.started = time.monotonic()
        self.deadline = self.started + test.seconds * max(1.0, slow)
        self.timed_out = False
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.setpgid(0, 0)
            os.dup2(self.output.fileno(), 1)
            os.dup2(self.output.fileno(), 2)
            code = FAILED
            try:
                code = run_one(test, options)
                sys.stdout.flush()
            finally:
                os._exit(code)

    def end_group(self):
        """Whatever the test started and left; the group is ours alone."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def text(self):
        self.output.seek(0)
        return self.output.read().decode("utf-8", "replace")


class Totals:
    def __init__(self):
        self.passed, self.failed, self.skips, self.failed_names = 0, 0, [], []


def report(running, status, totals, verbose):
    seconds = time.monotonic() - running.started
    code = os.waitstatus_to_exitcode(status)
    name, text = running.test.name, running.text()
    if running.timed_out:
        code = FAILED
        text += "\ntimed out after %.0f s\n" % seconds
    if code == PASSED:
        totals.passed += 1
        if verbose:
            print("ok      %-50s %6.2f s" % (name, seconds))
    elif code == SKIPPED:
        why = [line[6:] for line in text.split("\n") if line.startswith("skip: ")]
        totals.skips.append("skipped: %s: %s" % (name, why[-1] if why else "?"))
    else:
        totals.failed += 1
        totals.failed_names.append(name)
        print("FAILED  %s (%s) after %.2f s" % (name, running.test.why, seconds))
        print("    " + text.rstrip("\n").replace("\n", "\n    "))
    sys.stdout.flush()


def run_all(tests, options, jobs, verbose):
    totals, waiting, running = Totals(), list(tests), {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                one = Running(waiting.pop(0), options, options.slow)
                running[one.pid] = one
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in running:
                one = running.pop(pid)
                one.end_group()
                report(one, status, totals, verbose)
                continue
            for one in running.values():
                if not one.timed_out and time.monotonic() > one.deadline:
                    one.timed_out = True
                    one.end_group()
            time.sleep(0.01)
    finally:
        for one in running.values():
            one.end_group()
    return totals


def main():
    parser = argparse.ArgumentParser(description="end-to-end tests of einmal")
    parser.add_argument("--einmal", help="the binary")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--set", dest="which", default="all", choices=["all", "race", "asan", "crash-steps"])
    parser.add_argument("--filter", default="", help="only tests whose name holds this text; several by commas")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--slow-factor", type=float, default=1.0, help="stretches time limits, for sanitizers")
    parser.add_argument("--support", default=None, help="directory with liblmdb_fault.so; default beside the binary")
    parser.add_argument("--verbose", "-v", action="store_true")
    arguments = parser.parse_args()
    load_tests()
    wanted = arguments.filter.split(",")
    tests = [t for t in TESTS if arguments.which in t.sets and any(text in t.name for text in wanted)]
    if arguments.list:
        for one in tests:
            print("%-55s %s" % (one.name, one.why))
        return 0
    if not arguments.einmal or not os.access(arguments.einmal, os.X_OK):
        parser.error("--einmal PATH is needed and must be executable")
    sys.setswitchinterval(0.001)
    options = Options(os.path.abspath(arguments.einmal), arguments.slow_factor, arguments.support)
    # The long ones first, so that they do not run alone at the end.
    tests.sort(key=lambda one: -one.seconds)
    totals = run_all(tests, options, arguments.jobs, arguments.verbose)
    for line in totals.skips:
        print(line)
    if totals.failed_names:
        print("failed: " + " ".join(totals.failed_names))
    print("%d passed, %d failed" % (totals.passed, totals.failed))
    return 0 if totals.failed == 0 and totals.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
