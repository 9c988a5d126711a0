"""Bandwidth over time as SVG: what each rail sent, one upon the other, and what operations brought."""

WIDTH, HEIGHT = 1120, 420
LEFT, RIGHT, TOP, BOTTOM = 76, 1086, 84, 350
COLOURS = ("#00798c", "#edae49", "#8d6a9f", "#4f6d7a")
DELIVERED = "#d1495b"
WINDOW = 0.005


class Scale:
    def __init__(self, high, start, end):
        self.high, self.start, self.end = high, start, end

    def at(self, value):
        return self.start + value / self.high * (self.end - self.start)


def write(path, title, samples, operations, marks, setting):
    """samples: (seconds, bytes sent so far on each rail); operations: (seconds, bytes); marks: (seconds, text)."""
    times = [(before[0] + after[0]) / 2 for before, after in zip(samples, samples[1:])]
    rates = [[(new - old) / (after[0] - before[0]) for old, new in zip(before[1], after[1])]
             for before, after in zip(samples, samples[1:])]
    delivered = rate_in_windows(operations, samples[-1][0])
    across = Scale(samples[-1][0], LEFT, RIGHT)
    up = Scale(1.15 * percentile([sum(rate) for rate in rates] + [rate for _, rate in delivered], 0.98), BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="12" fill="#30343b">',
        f'<clipPath id="axes"><rect x="{LEFT}" y="{TOP}" width="{RIGHT - LEFT}" height="{BOTTOM - TOP}"/></clipPath>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fcfcfa"/>',
        f'<text x="{LEFT}" y="30" font-size="18" font-weight="bold">{title}</text>',
        f'<text x="{LEFT}" y="50" fill="#6b7078">{setting}; windows of {1000 * WINDOW:.0f} ms</text>',
    ]
    parts += areas(times, rates, across, up)
    parts += grid(across, up)
    parts.append(curve([(across.at(t), up.at(rate)) for t, rate in delivered]))
    parts += marked(marks, across)
    parts += legend(len(samples[0][1]))
    parts.append("</svg>")
    path.write_text("\n".join(parts) + "\n")


def percentile(values, share):
    return max(1.0, sorted(values)[int(share * (len(values) - 1))])


def rate_in_windows(operations, end):
    """An operation's bytes are spread over the time since the one before it ended."""
    windows = [0.0] * (int(end / WINDOW) + 1)
    for (before, _), (after, size) in zip(operations, operations[1:]):
        after = max(after, before + 1e-6)
        for i in range(int(before / WINDOW), min(int(after / WINDOW) + 1, len(windows))):
            overlap = min(after, (i + 1) * WINDOW) - max(before, i * WINDOW)
            windows[i] += size * max(0.0, overlap) / (after - before)
    return [((i + 0.5) * WINDOW, size / WINDOW) for i, size in enumerate(windows[:-1])]


def areas(times, rates, across, up):
    parts, below = [], [0.0] * len(times)
    for rail in range(len(rates[0])):
        above = [low + rate[rail] for low, rate in zip(below, rates)]
        places = [(across.at(t), up.at(value)) for t, value in zip(times, above)]
        places += [(across.at(t), up.at(value)) for t, value in reversed(list(zip(times, below)))]
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polygon points="{text}" fill="{COLOURS[rail % len(COLOURS)]}" fill-opacity="0.55" '
                     'clip-path="url(#axes)"/>')
        below = above
    return parts


def curve(places):
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return (f'<polyline points="{text}" fill="none" stroke="{DELIVERED}" stroke-width="1.6" stroke-linejoin="round" '
            'clip-path="url(#axes)"/>')


def grid(across, up):
    parts = []
    step = 10e6
    while up.high / step > 8:
        step *= 2.5 if f"{step:.0f}"[0] == "2" else 2
    value = 0.0
    while value <= up.high:
        y = up.at(value)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}" stroke="#dcdedb"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#6b7078">{value / 1e6:.0f} MB/s</text>')
        value += step
    for tenth in range(0, int(across.high * 10) + 1, 5):
        x = across.at(tenth / 10)
        parts.append(f'<line x1="{x:.1f}" y1="{BOTTOM}" x2="{x:.1f}" y2="{BOTTOM + 5}" stroke="#8b9098"/>')
        parts.append(f'<text x="{x:.1f}" y="{BOTTOM + 19}" text-anchor="middle" fill="#6b7078">{tenth / 10:g} s</text>')
    parts.append(f'<line x1="{LEFT}" y1="{BOTTOM}" x2="{RIGHT}" y2="{BOTTOM}" stroke="#8b9098"/>')
    parts.append(f'<line x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{BOTTOM}" stroke="#8b9098"/>')
    return parts


def marked(marks, across):
    parts = []
    for moment, text in marks:
        x = across.at(moment)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{BOTTOM}" stroke="#30343b" '
                     'stroke-dasharray="4 3"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP - 13}" text-anchor="middle">{text}</text>')
    return parts


def legend(rails):
    parts, x, y = [], LEFT, HEIGHT - 18
    for rail in range(rails):
        parts.append(f'<rect x="{x}" y="{y - 10}" width="24" height="11" fill="{COLOURS[rail % len(COLOURS)]}" '
                     'fill-opacity="0.55"/>')
        parts.append(f'<text x="{x + 31}" y="{y}">rail {rail}, on the wire</text>')
        x += 170
    parts.append(f'<line x1="{x}" y1="{y - 4}" x2="{x + 24}" y2="{y - 4}" stroke="{DELIVERED}" stroke-width="3"/>')
    parts.append(f'<text x="{x + 31}" y="{y}">brought by operations that are done</text>')
    return parts
