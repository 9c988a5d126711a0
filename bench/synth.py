#!/usr/bin/env python3
"""What the synthesizer reaches, and what that takes: programs of 16 to 1,024 GPUs against their proven bounds, against
the algorithms of this library and of NCCL in the same simulator, and against TACCL. Everything goes through the tutti
command; every certificate it writes is recomputed, every program of up to 80 ranks proven. Prints a table and writes
BUILD/bench/synth.json.

Commands run one after the other. Seconds are of the whole process, programs and report written, the least of three.

  bench/synth.py BUILD [--quick] [--only PART,...] [--repeats N]
"""

import argparse
import json
import os
import sys
from pathlib import Path

from synth_parts import PARTS, row
from synth_runs import Runs

PRIORITY = -5


def show(one):
    measured = "-" if one["measured"] is None else f"{one['measured']:.3f}"
    line = f"{one['what']:66} {measured:>10} {one['unit']:10}"
    if one["bar"] is not None:
        line += f" {one['sense']:8} {one['bar']:<4g} {'met' if one['met'] else 'MISSED'}"
    extra = [f"by {one[key]}" if key == "generator" else f"{key.replace('_', ' ')} {one[key]}"
             for key in ("cpu_seconds", "generator", "rival", "best_of_nccl", "where", "why") if key in one]
    print(f"{line}  {', '.join(extra)}".rstrip(), flush=True)


def checked(runs):
    """Whether what was written is right."""
    for tally, what in ((runs.certificates, "certificates recomputed"), (runs.programs, "programs proven")):
        for wrong in tally.wrong:
            print(f"wrong: {wrong}", file=sys.stderr)
        yield row(f"{tally.right + len(tally.wrong)} {what}", "wrong", len(tally.wrong), at_most=0, right=tally.right)


def measure(runs, parts, quick):
    rows = []
    for name in parts:
        print(f"\n{name}: {PARTS[name].__doc__}", flush=True)
        for one in PARTS[name](runs, quick):
            rows.append({"part": name, **one})
            show(one)
    print()
    for one in checked(runs):
        rows.append({"part": "checks", **one})
        show(one)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="one run of each, fewer machines and sizes")
    parser.add_argument("--only", default=",".join(PARTS), help="parts")
    parser.add_argument("--repeats", type=int, help="of what is timed")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}; expected {', '.join(PARTS)}")
    arguments.build = arguments.build.resolve()
    os.chdir(Path(__file__).parent.parent)  # where the examples are
    try:
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    except PermissionError:
        pass  # then other processes disturb as they like
    runs = Runs(arguments.build, arguments.repeats or (1 if arguments.quick else 3))
    try:
        rows = measure(runs, parts, arguments.quick)
    finally:
        runs.close()
    for note in runs.notes:
        print(note)
    target = arguments.build / "bench/synth.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(rows, indent=1) + "\n")
    missed = sum(not one["met"] for one in rows)
    print(f"{len(rows)} rows, {missed} missed; load of the machine {os.getloadavg()[0]:.1f}; {target}")


if __name__ == "__main__":
    main()
