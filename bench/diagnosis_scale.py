#!/usr/bin/env python3
"""How long diagnosis takes, and how often it is right, of generated jobs of 10,240 and 102,400 ranks with no fault, one
and two. Prints a table by class of fault and writes BUILD/bench/diagnosis-scale.json.

  bench/diagnosis_scale.py BUILD [--quick]

A verdict is right if its class is, and the first suspect. A job is right if all its faults are found and nothing else is
said. Jobs are generated: their noise is that of the generator, their faults have the symptoms that its program gives
them. Time is CPU time of one thread, without reading what was recorded.
"""

import argparse
import collections
import json
import subprocess
import sys
from pathlib import Path

from results import Results
from run import Progress

SEED = 7_000_000  # thresholds were chosen on jobs of other seeds
TARGETS = {10_240: 150, 102_400: 1500}  # milliseconds
COUNTS = {10_240: {"healthy": 100, "single": 30, "double": 300}, 102_400: {"healthy": 20, "single": 8, "double": 100}}


def measure(build, ranks, kind, count):
    done = subprocess.run([build / "bin/diagnosis_bench", str(ranks), kind, str(SEED + ranks), str(count)],
                          capture_output=True, text=True, timeout=3600, check=False)
    if done.returncode != 0:
        sys.exit(f"bench: {kind}, {ranks} ranks: {done.stderr.strip() or done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def is_right(trial):
    return trial["found"] == trial["expected"] == len(trial["said"])


def print_classes(ranks, trials):
    by_class = collections.defaultdict(list)
    for trial in trials:
        by_class[trial["faults"][0]].append(trial)
    print(f"\n{ranks:,} ranks, one fault: {'right':>12} {'jobs':>6}   said instead")
    for name, of_class in by_class.items():
        wrong = collections.Counter(", ".join(trial["said"]) or "nothing" for trial in of_class if not is_right(trial))
        print(f"  {name:28} {sum(map(is_right, of_class)):8} {len(of_class):6}   "
              + "; ".join(f"{said} ({count})" for said, count in wrong.most_common(3)))


def print_pairs(ranks, trials):
    wrong = [trial for trial in trials if not is_right(trial)]
    print(f"\n{ranks:,} ranks, two faults: {len(trials) - len(wrong)} of {len(trials)} right; the others:")
    for trial in wrong:
        print(f"  {' + '.join(trial['faults'])} (severities {trial['severities']}): said {', '.join(trial['said']) or 'nothing'} (seed {trial['seed']})")


def add_rows(results, ranks, trials):
    for kind, of_kind in trials.items():
        milliseconds = [1000 * trial["seconds"] for trial in of_kind]
        results.add(f"{ranks:,} ranks, {kind}: analysis", "ms", milliseconds, TARGETS[ranks])
    share = {kind: 100 * sum(map(is_right, of_kind)) / len(of_kind) for kind, of_kind in trials.items()}
    results.add(f"{ranks:,} ranks, one fault, {len(trials['single'])} jobs: right, and nothing else", "%",
                [share["single"]], 99, at_least=True)
    results.add(f"{ranks:,} ranks, two faults, {len(trials['double'])} jobs: both right, and nothing else", "%",
                [share["double"]], 95, at_least=True)
    one = 100 * sum(trial["found"] > 0 for trial in trials["double"]) / len(trials["double"])
    results.add(f"{ranks:,} ranks, two faults: at least one right", "%", [one], 99.5, at_least=True)
    results.add(f"{ranks:,} ranks, no fault, {len(trials['healthy'])} jobs: of which something is said", "jobs",
                [sum(bool(trial["said"]) for trial in trials["healthy"])], 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs")
    arguments = parser.parse_args()
    progress = Progress(6)
    results = Results(progress, width=84)
    found = {}
    for ranks, counts in COUNTS.items():
        found[ranks] = {}
        for kind, count in counts.items():
            found[ranks][kind] = measure(arguments.build, ranks, kind, max(1, count // 10) if arguments.quick else count)
            progress.step(f"{kind}, {ranks:,} ranks")
    progress.end()
    for ranks, trials in found.items():
        print_classes(ranks, trials["single"])
        print_pairs(ranks, trials["double"])
        add_rows(results, ranks, trials)
    (arguments.build / "bench").mkdir(parents=True, exist_ok=True)
    results.print_and_write(arguments.build / "bench/diagnosis-scale.json")


if __name__ == "__main__":
    main()
