#!/usr/bin/env python3
"""kill -9 at each named step: the set crash-steps of the end-to-end tests, under a name of its own.

    steps.py --einmal PATH [--jobs N] [--slow-factor F]
"""
import os
import sys

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e", "run.py")

if __name__ == "__main__":
    os.execv(sys.executable, [sys.executable, RUN, "--set", "crash-steps"] + sys.argv[1:])
