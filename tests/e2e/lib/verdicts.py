"""The rows of tests/unit/http/verdicts.tsv: bytes at which parsers part ways, and our verdict on them.

A verdict is a line of words: "ok" (with the length of the body) for each message, then how it ended: a status (a refused
request), "refused" (a response), "more" (incomplete), "close" (nothing after the last message is read).
"""
import os
import re

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../unit/http/verdicts.tsv")


class Row:
    def __init__(self, line):
        self.kind, verdict, self.name, text = line.split("\t")
        self.words = verdict.split(" ")
        plain = {"r": "\r", "n": "\n", "t": "\t"}
        self.bytes = re.sub(r"\\(x([0-9a-f]{2})|.)", lambda m: chr(int(m.group(2), 16)) if m.group(2) else plain.get(m.group(1), m.group(1)),
                            text).encode("latin-1")

    @property
    def bodies(self):
        """Lengths of the bodies of the accepted messages."""
        return [int(word[2:] or 0) for word in self.words if word.startswith("ok")]

    @property
    def end(self):
        """What comes after them: a status, refused, more, close, or nothing."""
        return "" if self.words[-1].startswith("ok") else self.words[-1]


def rows(*kinds):
    with open(FILE, encoding="latin-1", newline="\n") as file:
        return [row for row in (Row(line) for line in file.read().split("\n") if line) if row.kind in kinds]
