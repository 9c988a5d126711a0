#!/usr/bin/env python3
"""What membership costs each rank, of 16 to 100,000 simulated ones: the agreement of shrink() (the state machines
themselves), notices of death (over the overlay as it is drawn) and the start (by the formats of its messages). Prints a
table and writes BUILD/bench/membership.json.

  bench/membership.py BUILD [--quick]

A figure is logarithmic if it grows at most as the logarithm of the number of ranks does. Levels of a tree and neighbours
are whole numbers: a row that misses the target by a few percent may only have been rounded up. The table of survivors, a blob of each, is linear by nature, and comes to every rank: it is counted apart from all else.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

from results import Results
from run import Progress

RANKS = (16, 256, 4096, 16384, 100_000)
MESSAGE_LIMIT = 8 << 20  # control/frame.hpp
BLOB = 64
COLUMNS = ("messages sent", "messages received", "rounds", "control bytes", "table bytes received", "table bytes sent")


def measure(build, arguments):
    done = subprocess.run([build / "bin/membership_bench", *map(str, arguments)], capture_output=True, text=True,
                          timeout=600, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {(row["scenario"], row["ranks"], row["what"]): row for row in rows}, done.returncode == 0, done.stderr.strip()


def print_figures(found):
    for scenario in dict.fromkeys(key[0] for key in found):
        print(f"\n{scenario}: per rank, mean / most")
        print(f"{'ranks':>9} " + " ".join(f"{column:>22}" for column in COLUMNS))
        for ranks in RANKS:
            cells = [found.get((scenario, ranks, column)) for column in COLUMNS]
            if any(cells):
                print(f"{ranks:9,} " + " ".join(f"{cell['mean']:11.4g} /{cell['max']:9.4g}" if cell else f"{'':22}"
                                                for cell in cells))


def add_growth(results, found, scenario, what, first, last):
    """From `first` ranks to `last`, over the growth of the logarithm."""
    before, after = (found[scenario, ranks, what]["max"] for ranks in (first, last))
    growth = after / before / (math.log(last) / math.log(first))
    results.add(f"{scenario}: {what}, most of a rank, growth from {first:,} to {last:,} / that of the logarithm", "ratio",
                [growth], 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="up to 16,384 ranks")
    arguments = parser.parse_args()
    sizes = RANKS[:-1] if arguments.quick else RANKS
    progress = Progress(3 * len(sizes) + len(RANKS) - 1)
    found, decided = {}, {}
    for ranks in sizes:
        for part in ("agreement", "notices", "startup"):
            rows, right, why = measure(arguments.build, (part, ranks))
            if not right:
                sys.exit(f"bench: {part} of {ranks} ranks: {why or 'wrong'}")
            decided[part, ranks] = right
            found |= rows
            progress.step(f"{part}, {ranks:,} ranks")
    flat = {}
    for ranks in RANKS[:-1]:  # 100,000 would take the leader 10^10 steps
        flat |= measure(arguments.build, ("agreement", ranks, "flat"))[0]
        progress.step(f"without trees, {ranks:,} ranks")
    progress.end()
    print_figures(found | flat)

    results = Results(progress, width=136)
    first, last = sizes[-2], sizes[-1]
    scenarios = [key for key in dict.fromkeys(key[0] for key in found) if key.startswith("agreement")]
    for scenario in scenarios:
        for what in ("messages sent", "messages received", "rounds", "control bytes"):
            add_growth(results, found, scenario, what, first, last)
        results.add(f"{scenario}: {last:,} ranks, largest message", "bytes",
                    [found[scenario, last, "largest message"]["max"]], MESSAGE_LIMIT)
    table = found[scenarios[0], last, "table bytes received"]["mean"] / (BLOB * last)
    results.add(f"{scenarios[0]}: {last:,} ranks, tables that come to a rank, mean", "tables", [table], 1.0)
    results.add(f"agreement of {last:,} ranks decides, all scenarios", "yes", [int(decided["agreement", last])], 1,
                at_least=True)
    for what in ("messages sent", "rounds", "control bytes", "connections opened"):
        add_growth(results, found, "death notice", what, first, last)
    add_growth(results, found, "start, ranks without the store", "messages sent", first, last)
    add_growth(results, found, "start", "messages sent", first, last)
    (arguments.build / "bench").mkdir(parents=True, exist_ok=True)
    results.print_and_write(arguments.build / "bench/membership.json")


if __name__ == "__main__":
    main()
