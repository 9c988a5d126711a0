#!/usr/bin/env python3
"""What 100 more communicators of the same two processes cost each of them: time to create, threads, descriptors and
memory, over shared memory and over TCP. Prints a table and writes BUILD/bench/communicators.json.

  bench/communicators.py BUILD [--runs N] [--communicators N]
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from results import Results
from run import Progress


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--communicators", type=int, default=100)
    arguments = parser.parse_args()
    progress = Progress(arguments.runs)
    found = {}
    for run in range(arguments.runs):
        command = [arguments.build / "bin/communicators_bench", str(arguments.communicators)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            sys.exit(f"bench: {done.stderr.strip()}")
        for row in map(json.loads, done.stdout.splitlines()):
            found.setdefault((row["what"], row["unit"], row["target"]), []).append(row["measured"])
        progress.step(f"run {run + 1}")
    progress.end()
    results = Results(progress, width=78)
    for (what, unit, target), values in found.items():
        results.add(what, unit, values, target, by="median")
    (arguments.build / "bench").mkdir(parents=True, exist_ok=True)
    results.print_and_write(arguments.build / "bench/communicators.json")


if __name__ == "__main__":
    main()
