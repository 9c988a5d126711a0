#!/usr/bin/env python3
"""Simulated jobs by the seed (tests/simulation): how many ran, what they found, and how often each branch of dialing,
waking, membership and agreement was taken. Prints a table and writes BUILD/bench/simulation.json.

Counts are stored after every batch (BUILD/bench/simulation-runs.json), so that the bench can be interrupted and started
again: it goes on with the next seed. --again starts over; so does a program that was built anew. They may come from a
machine with more cores, to which carry.py has brought the program: copied here, they go on here.

  bench/simulation.py BUILD [--seeds N] [--first N] [--jobs N] [--list] [--again]
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from results import Results
from run import Progress

SOURCES = Path(__file__).resolve().parent.parent / "src"
BATCH = 10000  # seeds
OFTEN = 100  # times that a branch should be taken


class Runs:
    """What all seeds so far have given, of one program."""

    def __init__(self, path, program, again):
        self._path = path
        build = build_id(program)
        self.data = {"program": build, "seeds": 0, "violations": [], "branches": {}}
        if path.exists() and not again:
            stored = json.loads(path.read_text())
            if stored["program"] == build:
                self.data = stored

    def add(self, seeds, violations, branches):
        self.data["seeds"] += seeds
        self.data["violations"] += violations
        for address, count in branches.items():
            self.data["branches"][address] = self.data["branches"].get(address, 0) + count
        self._path.write_text(json.dumps(self.data) + "\n")


def build_id(program):
    """The same with and without debug information."""
    notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    return re.search(r"Build ID: (\w+)", notes).group(1)


def run_batch(program, first, count, counts, jobs):
    command = [program, "--first", str(first), "--count", str(count), "--branches", counts, "--jobs", str(jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    violations = [line for line in done.stdout.splitlines() if line.startswith("seed ")]
    if done.returncode != 0 and not violations:
        sys.exit(f"bench: job_simulation failed: {done.stderr.strip()}")
    branches = dict(line.split() for line in counts.read_text().splitlines())
    return violations, {address: int(times) for address, times in branches.items()}


def branch_addresses(program):
    """Where the compiler counts: the address after each of its calls."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True, check=True)
    lines = listing.stdout.splitlines()
    found = []
    for line, following in zip(lines, lines[1:]):
        if "<__sanitizer_cov_trace_pc>" in line and "call" in line:
            address = re.match(r"\s*([0-9a-f]+):", following)
            if address:
                found.append(address.group(1))
    return found


def places_of(program, addresses):
    """The source line of each, as "folder/file.cc:12"; of another folder, such as the standard library's: None."""
    # The line of the call itself, not of what follows it.
    asked = "\n".join(hex(int(address, 16) - 1) for address in addresses)
    answer = subprocess.run(["addr2line", "-e", program], input=asked, capture_output=True, text=True, check=True)
    places = []
    for line in answer.stdout.splitlines():
        path, _, number = line.split(" ")[0].rpartition(":")
        file = path.rpartition("/src/")[2]  # another checkout may have compiled it, for the same compiler cache
        places.append(f"{file}:{number}" if number.isdigit() and (SOURCES / file).is_file() else None)
    return places


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--seeds", type=int, default=1000000, help="in all (1,000,000)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="simulated at a time (one for each core)")
    parser.add_argument("--list", action="store_true", help=f"name the branches that were taken less than {OFTEN} times")
    parser.add_argument("--again", action="store_true", help="forget earlier seeds")
    arguments = parser.parse_args()
    program = arguments.build / "bin/job_simulation"
    folder = arguments.build / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    runs = Runs(folder / "simulation-runs.json", program, arguments.again)
    progress = Progress(-(-max(0, arguments.seeds - runs.data["seeds"]) // BATCH))
    while runs.data["seeds"] < arguments.seeds:
        count = min(BATCH, arguments.seeds - runs.data["seeds"])
        violations, branches = run_batch(program, arguments.first + runs.data["seeds"], count,
                                         folder / "simulation-branches.txt", arguments.jobs)
        runs.add(count, violations, branches)
        progress.step(f"{runs.data['seeds']} seeds, {len(runs.data['violations'])} with a violation")
    progress.end()
    report(program, runs, arguments, folder, progress)


def report(program, runs, arguments, folder, progress):
    if not SOURCES.exists():
        print(f"{runs.data['seeds']} seeds, {len(runs.data['violations'])} with a violation; branches are reported where "
              f"the sources are: copy {folder / 'simulation-runs.json'} there")
        return
    addresses = branch_addresses(program)
    counts = {address: runs.data["branches"].get(address, 0) for address in addresses}
    by_file = collections.defaultdict(list)
    rare = []
    for address, place in zip(addresses, places_of(program, addresses)):
        if place is None:
            continue
        by_file[place.rpartition(":")[0]].append(counts[address])
        if counts[address] < OFTEN:
            rare.append((place, counts[address]))
    print(f"\n{'branches of':52} {'all':>6} {'taken':>6} {f'{OFTEN} x':>6} {'median times':>13}")
    for file, taken in sorted(by_file.items()):
        print(f"{file:52} {len(taken):6} {sum(each > 0 for each in taken):6} "
              f"{sum(each >= OFTEN for each in taken):6} {sorted(taken)[len(taken) // 2]:13}")
    if arguments.list:
        for place, times in sorted(rare):
            print(f"{place:60} {times:6}")
    for violation in runs.data["violations"]:
        print(violation)
    everything = sum(len(taken) for taken in by_file.values())
    if not everything:
        sys.exit(f"bench: no branch of {program} is in {SOURCES}; was it built from another tree?")
    results = Results(progress)
    results.add("seeds", "jobs", [runs.data["seeds"]], arguments.seeds, at_least=True)
    results.add("seeds with a violation", "jobs", [len(runs.data["violations"])], 0)
    results.add(f"branches that were taken {OFTEN} times or more, of {everything}", "branches", [everything - len(rare)],
                everything, at_least=True)
    results.print_and_write(folder / "simulation.json")
    if runs.data["violations"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
