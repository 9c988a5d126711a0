"""Throughput of a lane over time as SVG, over windows of 1, 8 and 32 completions: ICCL's figure 15."""

from timeline import Scale

WIDTH, HEIGHT = 1120, 640
LEFT, RIGHT = 84, 1086
PANEL, FIRST, GAP = 150, 84, 24
COLOURS = {1: "#8d6a9f", 8: "#d1495b", 32: "#00798c"}
MARK = "#edae49"


def windows(chunks, length):
    """(time, bytes per second) at each completion: bytes of the last ones, over the time in which they were the lane's
    work: from posting, or the completion before, to completion."""
    pieces, found, before = [], [], 0.0
    for chunk in chunks:
        pieces.append((chunk["bytes"], max(0.0, chunk["done"] - max(chunk["posted"], before))))
        before = max(before, chunk["done"])
        window = pieces[-length:]
        seconds = sum(piece[1] for piece in window)
        if len(window) == length and seconds > 0:
            found.append((chunk["done"], sum(piece[0] for piece in window) / seconds))
    return found


def write(path, chunks, start, end, disturbances, setting):
    """`disturbances`: (from, to), shaded."""
    across = Scale(end - start, LEFT, RIGHT)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="12" fill="#30343b">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fcfcfa"/>',
        f'<text x="{LEFT}" y="30" font-size="18" font-weight="bold">A disturbing flow, seen through windows of 1, 8 and 32 '
        'completions</text>',
        f'<text x="{LEFT}" y="50" fill="#6b7078">{setting}; shaded: the disturbing flow</text>',
    ]
    for number, length in enumerate(COLOURS):
        top = FIRST + number * (PANEL + GAP)
        parts += panel(top, length, [(t - start, rate) for t, rate in windows(chunks, length) if start <= t <= end],
                       [(begin - start, stop - start) for begin, stop in disturbances], across)
    for tick in range(0, int((end - start) * 1000) + 1, 50):
        x = across.at(tick / 1000)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 22}" text-anchor="middle" fill="#6b7078">{tick} ms</text>')
    parts.append("</svg>")
    path.write_text("\n".join(parts) + "\n")


def panel(top, length, points, disturbances, across):
    bottom = top + PANEL
    up = Scale(200e6, bottom, top)
    parts = [f'<clipPath id="panel{length}"><rect x="{LEFT}" y="{top}" width="{RIGHT - LEFT}" height="{PANEL}"/></clipPath>']
    for begin, stop in disturbances:
        parts.append(f'<rect x="{across.at(begin):.1f}" y="{top}" width="{across.at(stop - begin) - LEFT:.1f}" '
                     f'height="{PANEL}" fill="{MARK}" fill-opacity="0.25"/>')
    for megabytes in (0, 62.5, 125, 187.5):
        y = up.at(megabytes * 1e6)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}" stroke="#dcdedb"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#6b7078">{megabytes * 8e-3:g} Gb/s</text>')
    text = " ".join(f"{across.at(t):.1f},{up.at(rate):.1f}" for t, rate in points)
    parts.append(f'<polyline points="{text}" fill="none" stroke="{COLOURS[length]}" stroke-width="1.4" '
                 f'clip-path="url(#panel{length})"/>')
    parts.append(f'<text x="{RIGHT - 8}" y="{top + 16}" text-anchor="end" font-weight="bold" fill="{COLOURS[length]}">'
                 f'W = {length}</text>')
    return parts
