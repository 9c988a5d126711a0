#!/usr/bin/env python3
"""What recording costs: two jobs of two ranks on the same two cores, alike but for TUTTI_MONITOR, run blocks of
all_reduce in turn, on off off on; each such four is a pair. Jobs are started anew for every set of pairs, since where a
process's memory happens to lie shifts its times. Prints a table and writes BUILD/bench/monitor_costs.json.

A row's `measured` is the mean over sets of the median difference within a set, `low` and `high` its 95 % interval. A bar
is missed only where `low` lies above it.

  bench/monitor_costs.py BUILD [--quick] [--sets N] [--pairs N]
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

KB, MB = 1 << 10, 1 << 20
BLOCK_SECONDS = 0.004
# Student's t, 97.5 %, by degrees of freedom.
T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23, 14: 2.14, 19: 2.09}
SCENARIOS = {
    "shared memory": ({}, [8, 512, 4 * KB, 64 * KB, MB, 8 * MB, 64 * MB]),
    "TCP": ({"TUTTI_SHM": "0"}, [8, 64 * KB, MB, 8 * MB]),
}


class Job:
    """Two ranks that wait for orders."""

    def __init__(self, build, settings, port):
        base = {k: v for k, v in os.environ.items() if not k.startswith("TUTTI_")}
        base |= {"TUTTI_SIZE": "2", "TUTTI_ADDRESS": f"127.0.0.1:{port}", "TUTTI_SECRET": "monitor costs", **settings}
        self.ranks = [subprocess.Popen([build / "bin/recorded_rank", str(rank)], env=base | {"TUTTI_RANK": str(rank)},
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
                      for rank in range(2)]

    def run(self, size, calls):
        """Seconds per call."""
        for rank in self.ranks:
            rank.stdin.write(f"{size} {calls}\n")
            rank.stdin.flush()
        answer = self.ranks[0].stdout.readline()
        if not answer:
            sys.exit("monitor_costs: a rank is gone")
        return float(answer) / calls

    def end(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait(timeout=20)


def differences(on, off, size, pairs):
    """Relative and absolute (ns per call) cost of `on`, one for each pair."""
    calls = max(1, int(BLOCK_SECONDS / max(off.run(size, 3), 1e-7)))
    calls = max(1, int(BLOCK_SECONDS / off.run(size, calls)))
    found = []
    for _ in range(pairs):
        first, second, third, fourth = on.run(size, calls), off.run(size, calls), off.run(size, calls), on.run(size, calls)
        with_it, without = (first + fourth) / 2, (second + third) / 2
        found.append((with_it / without - 1, (with_it - without) * 1e9))
    return found


def interval(values):
    mean = statistics.mean(values)
    if len(values) < 2:
        return mean, mean, mean
    spread = T.get(len(values) - 1, 2.0) * statistics.stdev(values) / len(values) ** 0.5
    return mean, mean - spread, mean + spread


def judge(name, size, sets):
    per_cent = interval([100 * statistics.median(share for share, _ in one) for one in sets])
    ns = interval([statistics.median(extra for _, extra in one) for one in sets])
    text = f"{size // MB} MB" if size >= MB else f"{size // KB} KB" if size >= KB else f"{size} B"
    what = f"all_reduce of {text}, 2 ranks, {name}"
    if size >= MB:
        rows = [(per_cent, "% bandwidth", 0.5)]
        met = per_cent[1] <= 0.5
    else:
        rows = [(per_cent, "% latency", 1.0), (ns, "ns added", 50.0)]
        met = per_cent[1] <= 1 or ns[1] <= 50
    return [{"what": what, "unit": unit, "measured": round(mean, 3), "low": round(low, 3), "high": round(high, 3),
             "bar": bar, "met": met} for (mean, low, high), unit, bar in rows]


def alone(build, recorded, port, prefix=(), calls=0):
    """Starts one rank by itself, has it run that many calls of 8 bytes, and returns what it said."""
    settings = {"TUTTI_SIZE": "1", "TUTTI_RANK": "0", "TUTTI_ADDRESS": f"127.0.0.1:{port}", "TUTTI_SECRET": "alone",
                "TUTTI_MONITOR": str(recorded)}
    done = subprocess.run([*prefix, build / "bin/recorded_rank"], input=f"8 {calls}\n", text=True, capture_output=True,
                          env=os.environ | settings, check=True)
    return done.stdout, done.stderr


def instructions_per_call(build, recorded, port):
    """By callgrind: the difference between two runs that differ in the number of calls."""
    few, many = 1000, 31000
    counts = []
    for calls in (few, many):
        _, errors = alone(build, recorded, port,
                          ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"), calls)
        counts.append(int(re.search(r"Collected : (\d+)", errors)[1]))
    return (counts[1] - counts[0]) / ((many - few) * 1.1)  # a tenth more to warm up


def micro(build, port):
    """What a call costs with nobody to wait for."""
    added = instructions_per_call(build, 1, port) - instructions_per_call(build, 0, port)
    calls = 200_000
    times = [[float(alone(build, recorded, port, calls=calls)[0]) / calls * 1e9 for _ in range(5)]
             for recorded in (0, 1)]
    extra = min(times[1]) - min(times[0])
    return [{"what": "a call of one rank alone", "unit": unit, "measured": round(value, 1), "bar": bar,
             "met": bar is None or value <= bar} for value, unit, bar in
            ((added, "instructions added", None), (extra, "ns added", 50))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="3 sets of 10 pairs")
    parser.add_argument("--sets", type=int)
    parser.add_argument("--pairs", type=int, help="in a set")
    parser.add_argument("--only", default=",".join(SCENARIOS), help="scenarios")
    parser.add_argument("--port", type=int, default=29871)
    arguments = parser.parse_args()
    sets = arguments.sets or (3 if arguments.quick else 10)
    pairs = arguments.pairs or (10 if arguments.quick else 20)
    rows = micro(arguments.build, arguments.port)
    for row in rows:
        print(f"{row['what']:52} {row['measured']:8.1f} {row['unit']}", flush=True)
    for name, (settings, sizes) in SCENARIOS.items():
        if name not in arguments.only.split(","):
            continue
        found = {size: [] for size in sizes}
        for one in range(sets):
            print(f"\r{name}: set {one + 1} of {sets}", end="", file=sys.stderr, flush=True)
            jobs = [Job(arguments.build, settings | {"TUTTI_MONITOR": str(recorded)}, arguments.port + recorded)
                    for recorded in ((0, 1) if one % 2 else (1, 0))]
            off, on = jobs if one % 2 else reversed(jobs)
            for size in sizes:
                found[size].append(differences(on, off, size, pairs))
            for job in jobs:
                job.end()
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
        for size in sizes:
            for row in judge(name, size, found[size]):
                rows.append(row)
                print(f"{row['what']:52} {row['measured']:8.2f} [{row['low']:7.2f}, {row['high']:7.2f}] "
                      f"{row['unit']:12} bar {row['bar']:5g} {'met' if row['met'] else 'MISSED'}", flush=True)
    target = arguments.build / "bench/monitor_costs.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{sets} sets of {pairs} pairs; {target}")


if __name__ == "__main__":
    main()
