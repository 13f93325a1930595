#!/usr/bin/env python3
"""Takes the power from the disk under load, many times, and checks that *strict* means strict.

    power_loss.py --einmal PATH [--kills N] [--broken N] [--seed S] [--clients N]

The load and what must hold are those of kill_loop.py: no key is executed twice, what was acknowledged stays. But after
each kill -9 the store loses what was written and not synced (tests/support/power_loss.c remembers it): all of it, or
every page by chance, because a disk writes in any order. Then einmal starts on what is left.

To show that a loss would be seen, the same runs with `durability: process`, which promises less, and on a disk that
only says that it has synced, each losing all that is unsafe: there actions must be executed twice or answers be lost
within N losses of power. Ends with `N passed, N failed`.
"""
import argparse
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import kill_loop  # noqa: E402

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "power_loss.c")
ENTRY = struct.Struct("=IIQQQ")  # struct entry of power_loss.c
WRITTEN, DURABLE = 1, 2
PAGE = 4096


def entries(log):
    """(kind, at, old bytes, new bytes, length of the file before), whole ones only."""
    at = 0
    while at + ENTRY.size <= len(log):
        kind, length, offset, had, size = ENTRY.unpack_from(log, at)
        at += ENTRY.size
        if at + had + length > len(log):
            return
        assert kind in (WRITTEN, DURABLE), "no entry of power_loss.c"
        yield kind, offset, log[at:at + had], log[at + had:at + had + length], size
        at += had + length


def cut_power(log_path, data_path, chances, source):
    """data.mdb as a disk has it that lost its power now. Returns how many pages were lost."""
    try:
        with open(log_path, "rb") as file:
            unsafe = list(entries(file.read()))
    except FileNotFoundError:
        return 0
    chance = source.choice(chances)  # of a page to have reached the disk all the same
    lost = 0
    with open(data_path, "r+b") as data:
        for _, at, old, _, _ in reversed(unsafe):
            os.pwrite(data.fileno(), old, at)
        if unsafe:
            data.truncate(unsafe[0][4])
        for kind, at, _, new, _ in unsafe:
            for begin in range(0, len(new), PAGE):
                if kind == DURABLE or source.random() < chance:
                    os.pwrite(data.fileno(), new[begin:begin + PAGE], at + begin)
                else:
                    lost += 1
    os.unlink(log_path)
    return lost


class Power:
    """What kill_loop.run() asks: the environment of einmal, and what happens after a kill."""

    def __init__(self, shim, directory, seed, chances, broken_sync):
        self.chances = chances
        self.log = os.path.join(directory, "unsynced")
        self.data = os.path.join(directory, "store", "data.mdb")
        self.source = random.Random(seed)
        self.losses, self.lost = 0, 0
        self.env = {"LD_PRELOAD": shim, "EINMAL_POWER_LOSS_LOG": self.log}
        if broken_sync:
            self.env["EINMAL_POWER_LOSS_SYNCS"] = "ignored"

    def cut(self):
        pages = cut_power(self.log, self.data, self.chances, self.source)
        self.losses += pages > 0
        self.lost += pages


def find_shim(einmal, directory):
    beside = os.path.join(os.path.dirname(os.path.abspath(einmal)), "libpower_loss.so")
    if os.path.exists(beside):
        return beside
    out = os.path.join(directory, "libpower_loss.so")
    subprocess.run([shutil.which("cc") or "gcc", "-shared", "-fPIC", "-O1", "-o", out, SOURCE, "-pthread"], check=True)
    return out


def run(arguments, name, kills, durability, chances=(0,), broken_sync=False):
    """The world after so many losses, and the power."""
    directory = tempfile.mkdtemp(prefix="einmal-power-")
    try:
        power = Power(find_shim(arguments.einmal, directory), directory, arguments.seed, chances, broken_sync)
        print("%s:" % name)
        world = kill_loop.run(argparse.Namespace(einmal=arguments.einmal, kills=kills, clients=arguments.clients,
                                                 seed=arguments.seed), directory, power, durability)
        print("  %d times pages were lost, %d in all" % (power.losses, power.lost))
        sys.stdout.flush()
        return world, power
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description="power losses under load")
    parser.add_argument("--einmal", required=True)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--broken", type=int, default=2, help="losses within which what is broken must be found out")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1 << 30)
    sys.setswitchinterval(0.001)
    failed = 0

    def verdict(fine, text):
        nonlocal failed
        failed += not fine
        print("%s  %s" % ("ok    " if fine else "FAILED", text))

    world, power = run(arguments, "strict", arguments.kills, "strict", (0, 0, 0.1, 0.5, 0.9))
    for number, name in kill_loop.NAMES.items():
        verdict(not world.failures[number], name)
        for text in world.failures[number][:5]:
            print("        %s" % text)
    # Whether a kill meets something unsafe is chance: about every other one does.
    verdict(power.losses >= arguments.kills / 6, "power was lost while something was unsafe")
    for name, durability, broken_sync in (("durability: process", "process", False), ("a disk that lies", "strict", True)):
        world, _ = run(arguments, name, arguments.broken, durability, broken_sync=broken_sync)
        verdict(any(world.failures[number] for number in (1, 2, 3)), "%s is found out" % name)
    total = len(kill_loop.NAMES) + 3
    print("%d passed, %d failed" % (total - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
