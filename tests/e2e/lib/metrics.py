"""What /metrics says, read strictly (Prometheus text 0.0.4), and what has changed between two looks."""
import re

from lib.client import Client

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'(%s)="((?:[^"\\\n]|\\["\\n])*)"(,|\Z)' % NAME)
SAMPLE = re.compile(r"(%s)(?:\{(.*)\})? (-?[0-9]+(?:\.[0-9]+)?|\+Inf|NaN)\Z" % NAME)
HISTOGRAM = ("_bucket", "_sum", "_count")


def labels_of(text):
    labels, at = {}, 0
    while text and at < len(text):
        found = LABEL.match(text, at)
        if not found or found.group(1) in labels:
            raise ValueError("labels: " + text)
        labels[found.group(1)] = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m.group(1), m.group(1)), found.group(2))
        at = found.end()
    return labels


class Metrics:
    """samples: {(name, ((label, value), …)): number}; types: {family: type}."""

    def __init__(self, text):
        self.text, self.samples, self.types = text, {}, {}
        family, helped = None, set()
        if not text.endswith("\n"):
            raise ValueError("the last line has no end")
        for line in text.split("\n")[:-1]:
            words = line.split(" ", 3)
            if line.startswith("# HELP "):
                if words[2] in helped:
                    raise ValueError("told twice: " + line)
                helped.add(words[2])
            elif line.startswith("# TYPE "):
                family = words[2]
                if family in self.types or family not in helped:
                    raise ValueError("out of order: " + line)
                self.types[family] = words[3]
            else:
                self._sample(line, family)

    def _sample(self, line, family):
        found = SAMPLE.match(line)
        if not found:
            raise ValueError("no sample: " + line)
        name, labels, value = found.group(1), labels_of(found.group(2)), float(found.group(3))
        allowed = [family + end for end in HISTOGRAM] if self.types[family] == "histogram" else [family]
        key = (name, tuple(sorted(labels.items())))
        if name not in allowed or key in self.samples:
            raise ValueError("of another family, or twice: " + line)
        self.samples[key] = value

    def get(self, name, **labels):
        """The sum of all samples with these labels; None if there is none."""
        values = [value for (n, l), value in self.samples.items()
                  if n == name and all(dict(l).get(k) == v for k, v in labels.items())]
        return sum(values) if values else None

    def requests(self):
        """{(route, outcome, code): count}"""
        out = {}
        for (name, labels), value in self.samples.items():
            if name == "einmal_requests_total":
                labels = dict(labels)
                out[labels["route"], labels["outcome"], int(labels["code"])] = int(value)
        return out

    def fell_since(self, before):
        """Counters, and what of histograms counts, that are smaller than before, or gone."""
        return [key for key, value in before.samples.items() if before.counts(key[0]) and self.samples.get(key, -1) < value]

    def counts(self, name):
        base = re.sub(r"_(bucket|sum|count)\Z", "", name)
        return self.types.get(name) == "counter" or self.types.get(base) == "histogram"


def look(address, timeout=15.0):
    """One scrape."""
    client = Client(address, timeout)
    try:
        answer = client.ask("GET", target="/metrics", host="127.0.0.1", auth=None)
    finally:
        client.close()
    if answer.status != 200 or answer.get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8":
        raise ValueError("no metrics: %r" % answer)
    return Metrics(answer.body.decode("utf-8"))
