"""A plot of one collective as SVG: time over size on the left, bandwidth over size on the right, both logarithmic."""

import math

from report import NAMES, size_text

WIDTH, HEIGHT = 1120, 460
TOP, BOTTOM = 84, 392
PANELS = ((76, 530), (632, 1086))  # left and right edge of the axes
COLOURS = {"tutti": "#d1495b", "tutti/allocated": "#edae49", "openmpi": "#00798c", "mpich": "#4f6d7a",
           "gloo": "#8d6a9f", "limit": "#9aa0a6"}
LABELS = {**NAMES, "tutti/allocated": "tutti, allocated memory", "limit": "bare direct loop (limit)"}
WIDE = {"tutti", "tutti/allocated"}


class Axis:
    """A logarithmic scale between two pixels, over whole powers of `base`."""

    def __init__(self, values, start, end, base):
        self.low = math.floor(math.log(min(values), base) + 1e-9)
        self.high = max(self.low + 1, math.ceil(math.log(max(values), base) - 1e-9))
        self.start, self.end, self.base = start, end, base

    def at(self, value):
        share = (math.log(value, self.base) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self):
        return [self.base ** power for power in range(self.low, self.high + 1)]


def write(path, best, scenario, collective):
    """Draws the stamp class in which we, then all, have more points."""
    classes = {}
    for (name, near, what, size), cell in best.items():
        if name == scenario.name and what == collective:
            classes.setdefault(near, {})[size] = {library: us for library, us in cell.items() if us is not None}
    if not classes:
        return
    near, points = max(classes.items(), key=lambda item: richness(item[1]))
    libraries = [name for name in NAMES if any(name in cell for cell in points.values())]
    curves = {name: sorted((size, cell[name]) for size, cell in points.items() if name in cell) for name in libraries}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="12" fill="#30343b">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fcfcfa"/>',
        f'<text x="{PANELS[0][0]}" y="30" font-size="18" font-weight="bold">{collective}</text>',
        f'<text x="{PANELS[0][0]}" y="50" fill="#6b7078">{scenario.title}, float32, cores {near}; minimum of all '
        'rounds</text>',
    ]
    parts += panel(PANELS[0], curves, lambda size, us: us, "time", time_label)
    parts += panel(PANELS[1], curves, lambda size, us: size / us * 1e6, "bandwidth (bytes of the buffer / time)",
                   bandwidth_label)
    parts += legend(libraries)
    parts.append("</svg>")
    path.write_text("\n".join(parts) + "\n")


def richness(points):
    return sum("tutti" in cell for cell in points.values()), sum(len(cell) for cell in points.values())


def panel(edges, curves, value_of, title, label):
    left, right = edges
    sizes = [size for curve in curves.values() for size, _ in curve]
    values = [value_of(size, us) for curve in curves.values() for size, us in curve]
    across, up = Axis(sizes, left, right, 2), Axis(values, BOTTOM, TOP, 10)
    parts = [f'<text x="{left}" y="{TOP - 12}" font-weight="bold" fill="#4a4f57">{title}</text>']
    parts += grid(across, up, left, right, label)
    for name, curve in curves.items():
        parts += line(name, [(across.at(size), up.at(value_of(size, us))) for size, us in curve])
    return parts


def grid(across, up, left, right, label):
    parts = []
    for value in up.ticks():
        y = up.at(value)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#dcdedb"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#6b7078">{label(value)}</text>')
        if value < up.ticks()[-1]:
            for minor in (2, 5):
                y = up.at(value * minor)
                parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#efefec"/>')
    for value in across.ticks():
        x = across.at(value)
        labelled = (int(math.log2(value)) - 3) % 5 == 0
        colour = "#dcdedb" if labelled else "#f3f3f0"
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{BOTTOM}" stroke="{colour}"/>')
        if labelled:
            parts.append(f'<text x="{x:.1f}" y="{BOTTOM + 18}" text-anchor="middle" fill="#6b7078">{size_text(int(value))}'
                         '</text>')
    parts.append(f'<line x1="{left}" y1="{BOTTOM}" x2="{right}" y2="{BOTTOM}" stroke="#8b9098"/>')
    parts.append(f'<line x1="{left}" y1="{TOP}" x2="{left}" y2="{BOTTOM}" stroke="#8b9098"/>')
    return parts


def line(name, places):
    colour = COLOURS[name]
    dashes = ' stroke-dasharray="6 4"' if name == "limit" else ""
    width = 2.6 if name in WIDE else 1.6
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="{width}" '
             f'stroke-linejoin="round"{dashes}/>']
    if name != "limit":
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width + 1:.1f}" fill="{colour}" stroke="#fcfcfa"/>'
                  for x, y in places]
    return parts


def legend(libraries):
    parts, x, y = [], PANELS[0][0], HEIGHT - 22
    for name in libraries:
        dashes = ' stroke-dasharray="6 4"' if name == "limit" else ""
        parts.append(f'<line x1="{x}" y1="{y - 4}" x2="{x + 24}" y2="{y - 4}" stroke="{COLOURS[name]}" '
                     f'stroke-width="3"{dashes}/>')
        parts.append(f'<text x="{x + 31}" y="{y}">{LABELS[name]}</text>')
        x += 31 + 7 * len(LABELS[name]) + 26
    return parts


def time_label(us):
    if us >= 1e6:
        return f"{us / 1e6:g} s"
    if us >= 1000:
        return f"{us / 1000:g} ms"
    return f"{us:g} us" if us >= 1 else f"{us * 1000:g} ns"


def bandwidth_label(rate):
    for unit, scale in (("GB/s", 1e9), ("MB/s", 1e6), ("KB/s", 1e3)):
        if rate >= scale:
            return f"{rate / scale:g} {unit}"
    return f"{rate:g} B/s"
