#!/usr/bin/env python3
"""How soon, and how often, `tutti diagnose --watch` names the culprit of a job that looks like training. Prints tables
and writes BUILD/bench/diagnosis.json.

The lab (diagnosis_lab.py; needs root): eight hosts as network namespaces with two rails of 200 Mb/s, a rank each;
all_reduces, an all_to_all in each half of the job, a pipeline. Faults come at random moments, ranks and rails. A run is
right if all that is to be said was said in time and the first suspect is the right one; anything else that was said is a
false verdict.

Every run is stored as it ends (BUILD/bench/diagnosis-runs.json), so that the bench can be interrupted and started
again: it goes on with what is missing, and --runs 30 adds to the runs of before. --again forgets those of the faults
that are named. Targets count from 30 runs of each fault. What was judged in runs that were not right is kept beside it,
for `tutti diagnose --replay`.

  bench/diagnosis.py BUILD [--quick] [--only FAULT,...] [--runs N] [--again]
"""

import argparse
import json
import os
import random
import statistics
import sys
from pathlib import Path

import diagnosis_lab
from lab import LabError, Rails
from run import Progress

RIGHT, ALONE = 0.95, 0.99  # shares: of runs that are right, of verdicts that are true


class Runs:
    """Of each fault, those so far."""

    def __init__(self, path):
        self._path = path
        self._runs = json.loads(path.read_text()) if path.exists() else {}

    def of(self, name):
        return self._runs.get(name, [])

    def forget(self, name):
        self._runs.pop(name, None)

    def add(self, name, run):
        self._runs.setdefault(name, []).append(run)
        self._path.write_text(json.dumps(self._runs, indent=1) + "\n")


def text_of(run):
    if run["seconds"] is None:
        said = "not named"
    else:
        said = f"right after {run['seconds']:.2f} s" if run["right"] else "nothing told"
    return said + f", {100 * run['idle']:.0f} % idle" + "".join(f"; SAID {each}" for each in run["wrong"])


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def row(what, unit, measured, target, met, runs):
    return {"what": what, "unit": unit, "measured": measured, "target": target, "met": bool(met), "runs": runs}


def report(faults, runs):
    """Rows of the JSON file, and the table as text."""
    rows = []
    lines = [f"{'fault':28} {'runs':>5} {'named':>6} {'p50 s':>7} {'p99 s':>7} {'goal s':>7} {'false':>6} {'idle':>5}"]
    true = false = 0
    for fault in faults:
        of = runs.of(fault.name)
        if not of:
            continue
        times = [run["seconds"] for run in of if run["seconds"] is not None]
        expected = bool(fault.expected(0, 0))
        wrong = sum(len(run["wrong"]) for run in of)
        true += sum(run["right"] for run in of)
        false += wrong
        named = len(times) / len(of)
        late = percentile(times, 0.99) if times else None
        if expected:
            rows.append(row(f"{fault.name}: named", "share", round(named, 4), RIGHT, named >= RIGHT, len(of)))
            rows.append(row(f"{fault.name}: p99", "s", late and round(late, 3), fault.seconds,
                            late is not None and late <= fault.seconds, len(of)))
            figures = f"{100 * named:5.0f}% "
            figures += f"{statistics.median(times):7.2f} {late:7.2f}" if times else f"{'-':>7} {'-':>7}"
        else:
            figures = f"{'-':>6} {'-':>7} {'-':>7}"
            rows.append(row(f"{fault.name}: false verdicts", "verdicts", wrong, 0, wrong == 0, len(of)))
        idle = statistics.median(run["idle"] for run in of)
        lines.append(f"{fault.name:28} {len(of):5} {figures} {fault.seconds:7g} {wrong:6} {100 * idle:4.0f}%")
    precision = true / max(1, true + false)
    rows.append(row("verdicts that are true", "share", round(precision, 4), ALONE, precision >= ALONE, true + false))
    lines.append(f"\nof {true + false} verdicts {true} are true: {100 * precision:.1f} %, goal {100 * ALONE:.0f} %")
    return rows, lines + confusion(faults, runs)


def confusion(faults, runs):
    """What was said that should not have been: fault by class."""
    said = {}
    for fault in faults:
        for run in runs.of(fault.name):
            for text in run["wrong"]:
                key = (fault.name, text.split(":")[0])
                said[key] = said.get(key, 0) + 1
    return [f"said of {name}, and false: {fault}, {count} times" for (name, fault), count in sorted(said.items())]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="one run of each fault")
    parser.add_argument("--only", help="names of faults, by commas: " + ", ".join(f.name for f in diagnosis_lab.FAULTS))
    parser.add_argument("--runs", type=int, help="of each fault in all (10)")
    parser.add_argument("--again", action="store_true", help="forget earlier runs of these faults")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    arguments = parser.parse_args()
    known = [fault.name for fault in diagnosis_lab.FAULTS]
    arguments.only = known if arguments.only is None else [name.strip() for name in arguments.only.split(",")]
    for name in arguments.only:
        if name not in known:
            parser.error(f"unknown fault '{name}'; there are: {', '.join(known)}")
    arguments.runs = arguments.runs or (1 if arguments.quick else 10)
    return arguments


def main():
    arguments = parse_arguments()
    if os.geteuid() != 0:
        sys.exit("bench/diagnosis.py needs root to make network namespaces; run it with sudo")
    folder = arguments.build / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    name = "diagnosis-quick" if arguments.quick else "diagnosis"
    runs = Runs(folder / f"{name}-runs.json")
    faults = [fault for fault in diagnosis_lab.FAULTS if fault.name in arguments.only]
    for fault in faults:
        if arguments.again or arguments.quick:
            runs.forget(fault.name)
    # Run by run, not fault by fault: what was measured when it is interrupted holds some of each.
    missing = [fault for number in range(arguments.runs) for fault in faults if len(runs.of(fault.name)) <= number]
    print(f"seed {arguments.seed}", file=sys.stderr)
    chance = random.Random(arguments.seed)
    progress = Progress(len(missing))
    with Rails(diagnosis_lab.HOSTS, 2) as rails:
        for fault in missing:
            try:
                words = fault.name.replace(" ", "-").replace("/", "of")
                keep = folder / f"{name}-{words}-{len(runs.of(fault.name))}.jsonl"
                run = diagnosis_lab.run(arguments.build.resolve(), rails, fault, chance, keep)
            except LabError as error:
                sys.exit(f"bench: {fault.name}: {error}")
            runs.add(fault.name, run)
            progress.step(f"{fault.name}: {text_of(run)}")
    progress.end()
    rows, lines = report(faults, runs)
    print("\n" + "\n".join(lines))
    path = folder / f"{name}.json"
    path.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"\ntargets: {sum(each['met'] for each in rows)} of {len(rows)} met; {path}")


if __name__ == "__main__":
    main()
