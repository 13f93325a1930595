"""The plots of the page: SVG, written by hand. Bars for the paths, lines for what changes with the number of connections.

Colours are told apart by brightness too; every bar has its figure; the text is the reader's own font and follows a dark page.
"""
import statistics

import paths

COLOURS = {"einmal": "#1565c0", "nginx": "#66bb6a", "nginx-cache": "#9ccc65", "haproxy": "#ffb74d", "haproxy-splice": "#ffe0b2",
           "floor": "#bdbdbd", "floor-keys": "#bdbdbd"}
SHORT = {"nginx-cache": "nginx, caching", "haproxy": "HAProxy", "haproxy-splice": "HAProxy, splicing", "floor": "floor", "floor-keys": "floor"}
STYLE = ("<style>text{font:12px sans-serif;fill:#222}.title{font-weight:bold;font-size:14px}.axis{stroke:#999;fill:none}"
         "@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>")
BAR, GAP, LEFT, WIDTH = 16, 22, 130, 760


def text(x, y, words, attributes=""):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return '<text x="%.0f" y="%.0f"%s>%s</text>' % (x, y, " " + attributes if attributes else "", words)


def document(width, height, parts):
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">%s\n%s\n</svg>\n'
            % (width, height, STYLE, "\n".join(parts)))


def median(runs, metric):
    return statistics.median(getattr(run, metric) for run in runs)


def figure(path, value):
    return "%.0f MiB" % (value / (1 << 20)) if path.unit == "bytes" else "{:,.0f}".format(value)


def bars(results):
    """One group a path, one bar a proxy: what it does for a second of its processor time."""
    parts, y = [text(10, 20, "Per CPU-second of the proxy: more is better", 'class="title"')], 48
    for path in paths.PATHS:
        runs = results["runs"].get(path.name)
        if not runs:
            continue
        parts.append(text(10, y, "%s (%s)" % (path.title, path.unit)))
        y += 8
        most = max(median(rounds, "per_cpu") for rounds in runs.values()) or 1
        for name, rounds in runs.items():
            value = median(rounds, "per_cpu")
            parts.append(text(LEFT - 8, y + 12, SHORT.get(name, name), 'text-anchor="end"'))
            parts.append('<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>'
                         % (LEFT, y, (WIDTH - LEFT - 110) * value / most, BAR - 2, COLOURS[name]))
            parts.append(text(LEFT + (WIDTH - LEFT - 110) * value / most + 6, y + 12, figure(path, value)))
            y += BAR
        y += GAP
    return document(WIDTH, y, parts)


def panel(path, sweep, left, top, width, height):
    """Requests a second of each proxy over the number of connections, both axes from nothing; connections by rank."""
    values = [value for value in sweep if path.name in sweep[value]]
    names = list(sweep[values[0]][path.name])
    most = max(median(sweep[value][path.name][name], "rate") for value in values for name in names) or 1
    step = width / max(1, len(values) - 1)
    parts = [text(left, top - 10, path.title.split(":")[0] + ", requests/s", 'class="title"'),
             '<path class="axis" d="M%d %dv%dh%d"/>' % (left, top, height, width)]
    for rank, value in enumerate(values):
        parts.append(text(left + rank * step, top + height + 16, str(value), 'text-anchor="middle"'))
    ends = {}
    for name in names:
        points = [(left + rank * step, top + height - height * median(sweep[value][path.name][name], "rate") / most)
                  for rank, value in enumerate(values)]
        parts.append('<polyline fill="none" stroke="%s" stroke-width="2.5" points="%s"/>'
                     % (COLOURS[name], " ".join("%.1f,%.1f" % point for point in points)))
        ends[name] = points[-1][1] + 4
    lowest = 0
    for name in sorted(ends, key=ends.get):  # names of lines that end side by side do not cover one another
        lowest = max(ends[name], lowest + 13)
        parts.append(text(left + width + 6, lowest, SHORT.get(name, name)))
    parts.append(text(left - 6, top + 4, "{:,.0f}".format(most), 'text-anchor="end"'))
    return parts


def lines(sweep):
    shown = [path for path in paths.PATHS if any(path.name in runs for runs in sweep.values())]
    parts = []
    for number, path in enumerate(shown):
        parts += panel(path, sweep, 70 + number % 2 * 440, 50 + number // 2 * 240, 270, 160)
    parts.append(text(70, 50 + (len(shown) + 1) // 2 * 240 - 30, "by the number of connections"))
    return document(900, 50 + (len(shown) + 1) // 2 * 240, parts)


def titles(results):
    out = {"": "requests and bytes per CPU-second of each proxy, by path"} if results["runs"] else {}
    if results.get("connections"):
        out["-connections"] = "requests a second by the number of connections"
    return out


def drawings(results):
    out = {"": bars(results)} if results["runs"] else {}
    if results.get("connections"):
        out["-connections"] = lines(results["connections"])
    return out
