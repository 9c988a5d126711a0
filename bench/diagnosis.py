#!/usr/bin/env python3
"""How soon `tutti diagnose --watch` names the culprit: four ranks in a training-like loop of about 25 ms a step, of which
one goes wrong after 80 steps; and what it says of jobs that work. Prints a table and writes BUILD/bench/diagnosis.json.

  bench/diagnosis.py BUILD [--quick]

A run counts if the first verdict has the right class and names the rank, alone. Time is from the moment in which the rank
goes wrong to the moment of the look that told it; looks are 0.25 s apart.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from results import Results
from run import Progress

# Fault, class, seconds in which it is to be named: the goals for a crash, a freeze, a rank that never enters, a call
# that does not match and a straggler.
FAULTS = (("die", "crashed", 0.5), ("freeze", "frozen", 2), ("sit-out", "not_entered", 2.5), ("wrong-call",
          "mismatched_call", 1), ("late", "straggler", 10))
INTERVAL = 0.25
LIMIT = 30
RANK = 2


class Job:
    """Ranks, and a diagnosis that watches them, in a folder and with recordings of their own."""

    def __init__(self, build, *arguments):
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti_bench.")
        environment = os.environ | {"TUTTI_MONITOR_DIR": self.folder.name}
        options = {"cwd": self.folder.name, "env": environment, "text": True, "stderr": subprocess.DEVNULL}
        self.watch = subprocess.Popen([build / "bin/tutti", "diagnose", "--watch", str(INTERVAL), "--json"],
                                      stdout=open(f"{self.folder.name}/verdicts", "w"), **options)
        time.sleep(random.uniform(0, INTERVAL))  # so that looks and steps do not go in step
        self.ranks = subprocess.Popen([build / "bin/tutti", "run", "-n", "4", "--keep-going", "--grace", "1",
                                       "--no-prefix", build / "bin/diagnosed_rank", *arguments],
                                      stdout=open(f"{self.folder.name}/said", "w"), **options)

    def verdicts(self):
        lines = Path(self.folder.name, "verdicts").read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def said(self, word):
        for line in Path(self.folder.name, "said").read_text().splitlines():
            if line.startswith(word + " "):
                return float(line.split()[1])
        return None

    def end(self):
        for process in (self.watch, self.ranks):
            process.send_signal(signal.SIGTERM)
            process.wait()
        self.folder.cleanup()


def time_to_verdict(build, fault, wanted):
    """Seconds, or why there are none."""
    job = Job(build, "--fault", fault, "--rank", str(RANK), "--step", "80")
    try:
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            told = [each for each in job.verdicts() if each["event"] == "began"]
            if told:
                first = told[0]["verdict"]
                ranks = [suspect["rank"] for suspect in first["suspects"]]
                if first["class"] != wanted or ranks != [RANK]:
                    return f"said {first['class']} of {ranks}: {first['text']}"
                began = job.said("misbehaves")
                return told[0]["time"] - began if began else "told before it went wrong"
            time.sleep(0.05)
        return f"nothing said in {LIMIT} s"
    finally:
        job.end()


def false_alarms(build, seconds):
    job = Job(build)
    time.sleep(seconds)
    told = job.verdicts()
    job.end()
    return [each["verdict"]["text"] for each in told if each["event"] == "began"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="a third of the runs")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    runs, seconds = (3, 20) if arguments.quick else (10, 60)
    progress = Progress(len(FAULTS) * runs + 1)
    results = Results(progress, width=60)
    for fault, wanted, goal in FAULTS:
        outcomes = []
        for run in range(runs):
            outcomes.append(time_to_verdict(build, fault, wanted))
            progress.step(f"{fault}, run {run + 1}: {outcomes[-1]}")
        times = [outcome for outcome in outcomes if isinstance(outcome, float)]
        if times:
            results.add(f"{fault}: until {wanted} names the rank", "s", times, goal)
        results.add(f"{fault}: right, of {runs} runs", "runs", [len(times)], runs, at_least=True)
    alarms = false_alarms(build, seconds)
    progress.step(f"a job that works: {alarms or 'nothing said'}")
    progress.end()
    results.add(f"a job that works for {seconds} s: verdicts", "verdicts", [len(alarms)], 0)
    (arguments.build / "bench").mkdir(parents=True, exist_ok=True)
    results.print_and_write(arguments.build / "bench/diagnosis.json")


if __name__ == "__main__":
    sys.exit(main())
