"""From rows to answers: minima within a stamp class, ratios, the bars, and the table."""

import math
import statistics

from launch import PEERS, SETTINGS

NEAR_BELOW_NS = 90
SURELY_SLOWER = 8  # than the best peer: more than the classes differ
KB, MB = 1 << 10, 1 << 20


def class_of(stamp_ns):
    """Whether the two cores were near each other or far when the row was measured: only equals are compared."""
    if stamp_ns <= 0:
        return "one core"
    return "near" if stamp_ns < NEAR_BELOW_NS else "far"


def minima(rows):
    """{(scenario, class, collective, bytes): {library: us}}; None for a peer measured in another class only, unless it
    was so slow there that it cannot be the best here."""
    best, seen = {}, {}
    for row in rows:
        key = (row["scenario"], class_of(row["stamp_ns"]), row["collective"], row["bytes"])
        library = row["library"].replace("limit/streamed", "limit")  # the limit is the better of its two forms
        cell = best.setdefault(key, {})
        cell[library] = min(row["us"], cell.get(library, float("inf")))
        elsewhere = seen.setdefault((key[0], *key[2:]), {})
        elsewhere[library] = min(row["us"], elsewhere.get(library, float("inf")))
    for key, cell in best.items():
        fastest = min((cell[peer] for peer in PEERS if peer in cell), default=0)
        for library, us in seen[(key[0], *key[2:])].items():
            if library not in cell and not us > SURELY_SLOWER * fastest > 0:
                cell[library] = None
    return best


def ratio_bar(scenario, collective, size):
    """The least ratio of the best peer's time to ours."""
    if scenario == "two":
        if collective != "all_reduce":
            return 1.0
        if size >= 128 * MB:
            return 2.5
        return 1.8 if size >= 32 * KB else 1.3 if size <= 64 else 1.0
    if scenario == "eight":
        return 2.0 if size >= 32 * KB else 1.0
    return 1.3 if size >= MB else 1.0


def judge(what, unit, measured, bar):
    return {"what": what, "unit": unit, "measured": round(measured, 4), "bar": bar, "met": measured >= bar}


def verdicts(key, cell, title):
    """What the bars say of one point; nothing where a peer was not met in this stamp class."""
    scenario, near, collective, size = key
    peers = [cell[peer] for peer in PEERS if peer in cell]
    if None in peers:
        return []
    where = f"{title}, {collective}, {size_text(size)}, cores {near}"
    results = []
    if peers and cell.get("tutti"):
        ratio = min(peers) / cell["tutti"]
        results.append(judge(f"{where}: best peer's time / ours", "ratio", ratio, ratio_bar(scenario, collective, size)))
    allocated = cell.get("tutti/allocated")
    if allocated and peers and collective == "all_reduce" and size >= 16 * MB:
        results.append(judge(f"{where}: best peer's time / ours in tutti::allocate memory", "ratio",
                             min(peers) / allocated, 4.0))
    if allocated and cell.get("limit") and size >= 2 * MB:
        results.append(judge(f"{where}: tutti::allocate memory, share of the bare direct loop's speed", "ratio",
                             cell["limit"] / allocated, 0.85))
    return results


def size_text(size):
    for unit, scale in (("MB", MB), ("KB", KB)):
        if size >= scale:
            return f"{size / scale:g} {unit}"
    return f"{size} B"


def time_text(us):
    if us is None:
        return "-"
    return f"{us:.2f}" if us < 100 else f"{us:.0f}"


NAMES = {"tutti": "tutti", "tutti/allocated": "allocated", "openmpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo",
         "limit": "limit"}


def print_table(best, scenarios, out):
    out.write("float32, sum; microseconds, minimum of all rounds within the stamp class (near: a cache line crosses in "
              f"under {NEAR_BELOW_NS} ns)\n")
    for library, settings in SETTINGS.items():
        out.write(f"  {NAMES[library]}: {settings}\n")
    for scenario in scenarios:
        for collective in scenario.collectives:
            for near in ("near", "far", "one core"):
                points = sorted(k for k in best if k[:3] == (scenario.name, near, collective))
                if points:
                    print_points(best, points, f"{scenario.title}, {collective}, cores {near}", scenario.title, out)


def print_points(best, points, heading, title, out):
    columns = [name for name in NAMES if any(name in best[key] for key in points)]
    out.write(f"\n{heading}\n")
    out.write(f"{'size':>8} " + " ".join(f"{NAMES[name]:>10}" for name in columns) + f" {'ratio':>7} {'bar':>4}  met\n")
    for key in points:
        cell = best[key]
        line = f"{size_text(key[3]):>8} " + " ".join(f"{time_text(cell.get(name)):>10}" for name in columns)
        results = verdicts(key, cell, title)
        if results:
            line += f" {results[0]['measured']:7.2f} {results[0]['bar']:4.1f}  " + \
                    ("yes" if all(r["met"] for r in results) else "NO")
            for extra in results[1:]:
                kind = "of limit" if "direct loop" in extra["what"] else "allocated"
                line += f"  {kind} {extra['measured']:.2f} (bar {extra['bar']:g})"
        out.write(line.rstrip() + "\n")


def paired_ratios(rows, memory):
    """{(scenario, class, collective, bytes): [this / base, a round each]}, of rounds in which both met the same class."""
    times = {}
    for row in rows:
        name, _, kind = row["library"].partition("/")
        if kind == memory:
            point = (row["scenario"], class_of(row["stamp_ns"]), row["collective"], row["bytes"])
            times.setdefault(point, {}).setdefault(row["round"], {})[name] = row["us"]
    return {point: [pair["this"] / pair["base"] for pair in rounds.values() if len(pair) == 2]
            for point, rounds in times.items()}


def median_interval(values):
    """The median, and between which of the values it lies with a probability of 95 % or more, whatever their
    distribution; (median, 0, infinity) of fewer than six."""
    ordered = sorted(values)
    n = len(ordered)
    outside, rank = 0.0, 0  # the probability that the true median lies below the value of this rank
    while outside + math.comb(n, rank) / 2 ** n <= 0.025:
        outside += math.comb(n, rank) / 2 ** n
        rank += 1
    median = statistics.median(ordered)
    return (median, 0.0, math.inf) if rank == 0 else (median, ordered[rank - 1], ordered[n - rank])


def print_comparison(rows, out):
    """Two builds of ours, "base" and "this", point by point, in pairs of one round. Returns a row for each point: its
    time must not have grown by more than 3 %, which the whole of the 95 % interval would have to show."""
    results = []
    out.write(f"\n{'':8} {'':15} {'memory':9} {'size':>8} {'cores':>6} {'rounds':>6} {'this/base':>10} {'95 % interval':>16}\n")
    for memory in ("", "allocated"):
        for key, ratios in sorted(paired_ratios(rows, memory).items()):
            if not ratios:  # never both in this stamp class
                continue
            median, low, high = median_interval(ratios)
            mark = "  slower" if low > 1.03 else "  faster" if high < 0.97 else ""
            out.write(f"{key[0]:8} {key[2]:15} {memory or 'ordinary':9} {size_text(key[3]):>8} {key[1]:>6} {len(ratios):6} "
                      f"{median:10.3f} {f'{low:.3f} to {high:.3f}':>16}{mark}\n")
            what = f"{key[0]}, {key[2]}, {memory or 'ordinary'} memory, {size_text(key[3])}, cores {key[1]}: time, this / base"
            results.append({"what": f"{what}, lower end of the 95 % interval", "unit": "ratio", "measured": round(low, 4),
                            "median": round(median, 4), "target": 1.03, "met": low <= 1.03})
    return results
