#!/usr/bin/env python3
"""What `tutti diagnose --watch` says of a job that works, for half an hour: nothing, if all is well. The job is
soak_rank on four hosts with two rails (diagnosis_lab.py; needs root), with steps, exchanges and phases that are uneven,
and other work that comes and goes on the cores. Prints a table and writes BUILD/bench/diagnosis-soak.json.

  bench/diagnosis_soak.py BUILD [--minutes 30] [--seed N]

Ctrl-C ends it early; what it saw until then is told. --minutes 480 is eight hours.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from diagnosis_lab import MBIT, LabJob, cpu_times, idle_share
from lab import LabError, Rails
from results import Results
from run import Progress

HOSTS = 4
LOOK = 1  # seconds

# Half a second of work, then a pause of one to five seconds; for ever.
OTHER_WORK = "while :; do timeout 0.5 sh -c 'while :; do :; done'; sleep $((1 + RANDOM % 5)); done"


def check(job):
    """Fails if the job does not work, since then nothing follows from silence."""
    for rank, process in enumerate(job.ranks):
        if process.poll() is not None:
            raise LabError(f"rank {rank} ended: " + (job.folder / f"rank{rank}.err").read_text(encoding="utf-8")[-400:])


def soak(build, minutes, seed, keep, progress):
    """Seconds that it lasted, share of idle CPU time, and all that was said."""
    told = []
    with Rails(HOSTS, 2) as rails:
        rails.mend(MBIT)
        with LabJob(build, rails, "soak_rank", seed) as job:
            job.others.append(subprocess.Popen(["timeout", str(60 * minutes + 60), "bash", "-c", OTHER_WORK],
                                               start_new_session=True))
            job.wait_until_ready()
            start, cpu = time.monotonic(), cpu_times()
            try:
                while time.monotonic() < start + 60 * minutes:
                    time.sleep(LOOK)
                    check(job)
                    for each in job.told()[len(told):]:
                        told.append(each)
                        progress.note(f"after {time.monotonic() - start:.0f} s: {each.fault}: {each.text}")
                    while progress.done < (time.monotonic() - start) // 60:
                        progress.step(f"minutes; {len(told)} verdicts")
            except KeyboardInterrupt:
                progress.note("interrupted")
            lasted, idle = time.monotonic() - start, idle_share(cpu, cpu_times())
            if told:
                shutil.copy(job.folder / "telemetry", keep)
    return lasted, idle, told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench/diagnosis_soak.py needs root to make network namespaces; run it with sudo")
    folder = arguments.build / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    progress = Progress(int(arguments.minutes))
    progress.note(f"bench: seed {arguments.seed}")
    try:
        lasted, idle, told = soak(arguments.build.resolve(), arguments.minutes, arguments.seed,
                                  folder / "diagnosis-soak.jsonl", progress)
    except LabError as error:
        sys.exit(f"bench: {error}")
    progress.end()
    results = Results(progress)
    results.add("a job that works was watched for", "min", [lasted / 60], arguments.minutes, at_least=True)
    results.add("CPU time that was idle", "share", [idle], 0.3, at_least=True)
    results.add("verdicts", "verdicts", [len(told)], 0)
    results.print_and_write(folder / "diagnosis-soak.json")


if __name__ == "__main__":
    main()
