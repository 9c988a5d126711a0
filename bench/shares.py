#!/usr/bin/env python3
"""How well lanes share the work when one of two rails gets slow and recovers, and when jobs start: two hosts as network
namespaces, joined by two switched rails of 400 Mb/s, a rank each. The loop is one of training: all_reduce, 2 ms of
compute and an all_reduce of 4 bytes. Prints a table and writes BUILD/bench/shares.json. Needs root.

Bandwidth is what operations have brought, in bytes of their buffers; an operation counts by how much of it lies in the
time that is looked at. What a single rail gives is measured in the same run, by the same loop, before and after. Of cuts
and returns the median is held against the target, of starts the worst.

  bench/shares.py BUILD [--quick] [--only cut,starts,stream] [--runs N] [--starts N]
"""

import argparse
import os
import random
import signal
import sys
import time
from pathlib import Path

from lab import Job, LabError, Rails
from results import Results
from run import Progress

PARTS = ("cut", "starts", "stream")
MB = 1 << 20
LEFT = 0.15  # of a rail that is cut
LOOP = ("--collective", "all_reduce", "--pause-ms", 2)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="about a minute: 2 runs, 5 starts")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run")
    parser.add_argument("--runs", type=int, help="of each size and fault (5)")
    parser.add_argument("--starts", type=int, help="of a job (50)")
    parser.add_argument("--mbit", type=int, default=400, help="of a rail, each way")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of what is drawn")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"--only {','.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    arguments.runs = arguments.runs or (2 if arguments.quick else 5)
    arguments.starts = arguments.starts or (5 if arguments.quick else 50)
    return arguments


def bandwidth(operations, start, end):
    """Bytes per second. An operation and the pause before it count from the end of the one before."""
    moved = 0
    for before, operation in zip(operations, operations[1:]):
        inside = min(operation.end, end) - max(before.end, start)
        if inside > 0:
            moved += operation.bytes * inside / (operation.end - before.end)
    return moved / (end - start)


def measure(job, start, seconds):
    """Bandwidth for so many seconds from `start` on."""
    job.sleep_until(start + seconds)
    job.wait_for_operations(time.monotonic())  # the last one that counts is over
    return bandwidth(job.logs[0].read(), start, start + seconds)


class Bench:
    def __init__(self, arguments, rails, results, progress):
        self.program = arguments.build / "bin/failover_rank"
        self.rails, self.results, self.progress = rails, results, progress
        self.runs, self.starts_wanted, self.mbit = arguments.runs, arguments.starts, arguments.mbit
        self.random = random.Random(arguments.seed)

    def loop(self, size):
        return Job(self.program, self.rails, LOOP + ("--bytes", size))

    def set_rate(self, rail, mbit):
        """At both hosts; the time at which it is so."""
        for host in (1, 2):
            self.rails.do("rate", host, rail, round(mbit))
        return time.monotonic()

    # A rail is cut, and returns.

    def cut(self):
        for size, name, rest, target in (
                (8 * MB, "8 MB", 1 + LEFT, 0.95),
                (MB, "1 MB", 1, 1.0)):
            of = f"one rail of {round(self.mbit * rest)} Mb/s"
            slow = f"{name} with pauses, a rail cut to {LEFT:.0%}: bandwidth after 1 s / that of {of}"
            back = f"{name} with pauses, the rail returned: bandwidth after 1 s / before the cut"
            try:
                singles = [self.single(size, self.mbit * rest)]
                found = self.cut_and_return(size, name)
                singles.append(self.single(size, self.mbit * rest))
                single = sum(singles) / len(singles)
                self.results.add(slow, "ratio", [during / single for _, during, _ in found], target, True, "median")
                self.results.add(back, "ratio", [after / before for before, _, after in found], 0.95, True, "median")
            except LabError as error:
                self.results.add_failed(slow, "ratio", target, error)

    def single(self, size, mbit):
        with Rails(hosts=2, rails=1) as rails:
            for host in (1, 2):
                rails.do("rate", host, 0, round(mbit))
            self.progress.step(f"one rail of {mbit:.0f} Mb/s alone")
            with Job(self.program, rails, LOOP + ("--bytes", size)) as job:
                job.wait_for_operations(time.monotonic())
                return measure(job, time.monotonic() + 1, 3)

    def cut_and_return(self, size, name):
        found = []
        self.rails.mend(self.mbit)
        with self.loop(size) as job:
            job.wait_for_operations(time.monotonic())
            job.sleep_until(time.monotonic() + 1)
            for number in range(self.runs):
                self.progress.step(f"{name}, cut and return: run {number + 1} of {self.runs}")
                rail = number % 2
                before = measure(job, time.monotonic(), 1.5)
                during = measure(job, self.set_rate(rail, self.mbit * LEFT) + 1, 2)
                after = measure(job, self.set_rate(rail, self.mbit) + 1, 1.5)
                found.append((before, during, after))
        return found

    # Starts.

    def starts(self):
        """Rails of a job that has just started, against what the same job makes of one rail."""
        what = "a job starts on two equal rails: least of a rail from 0.5 s on / that rail alone"
        try:
            alone = self.start_on(1)[0]
            found = []
            for number in range(self.starts_wanted):
                self.progress.step(f"start {number + 1} of {self.starts_wanted}")
                found.append(min(self.start_on(2)) / alone)
            self.results.add(what, "ratio", found, 0.9, at_least=True)
        except LabError as error:
            self.results.add_failed(what, "ratio", 0.9, error)

    def start_on(self, rails):
        """Bytes per second on each rail, from 0.5 to 1.5 s after the first operation."""
        self.rails.mend(self.mbit)
        for rail in range(self.rails.rails):
            for host, name in enumerate(self.rails.hosts, 1):
                if rail < rails:
                    self.rails.do("await_carrier", name, f"rail{rail}")  # the kernel tells of it late
                else:
                    self.rails.do("port_down", host, rail)
        with Job(self.program, self.rails, ("--collective", "all_reduce", "--bytes", 8 * MB)) as job:
            job.wait_for_operations(0)
            job.sleep_until(time.monotonic() + 0.5)
            start, before = time.monotonic(), job.sent()
            job.sleep_until(start + 1)
            after, end = job.sent(), time.monotonic()
        return [(new - old) / (end - start) for old, new in zip(before, after)][:rails]

    # Operations back to back.

    def stream(self):
        what = "2 MB back to back, 4 at a time, a rail at half speed: bandwidth after 1 s / 3/4 of before"
        found = []
        self.rails.mend(self.mbit)
        try:
            with Job(self.program, self.rails,
                     ("--collective", "all_reduce", "--bytes", 2 * MB, "--depth", 4)) as job:
                job.wait_for_operations(time.monotonic())
                job.sleep_until(time.monotonic() + 1)
                for number in range(self.runs):
                    self.progress.step(f"half speed: run {number + 1} of {self.runs}")
                    before = measure(job, time.monotonic(), 1)
                    during = measure(job, self.set_rate(number % 2, self.mbit / 2) + 1, 1.5)
                    found.append(during / (0.75 * before))
                    job.sleep_until(self.set_rate(number % 2, self.mbit) + 1)
            self.results.add(what, "ratio", found, 0.95, True, "median")
        except LabError as error:
            self.results.add_failed(what, "ratio", 0.95, error)


def main():
    arguments = parse_arguments()
    if os.geteuid() != 0:
        sys.exit("bench: needs root to make network namespaces; run it with sudo")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # namespaces are taken down on the way out
    os.setpriority(os.PRIO_PROCESS, 0, -10)  # other work on the machine is not what is measured
    parts = arguments.only.split(",")
    of_part = {"cut": 4 + 2 * arguments.runs, "starts": arguments.starts, "stream": arguments.runs}
    progress = Progress(sum(of_part[part] for part in parts))
    results = Results(progress)
    folder = arguments.build / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with Rails(hosts=2, rails=2) as rails:
            bench = Bench(arguments, rails, results, progress)
            for part, run in (("cut", bench.cut), ("starts", bench.starts), ("stream", bench.stream)):
                if part in parts:
                    run()
    except LabError as error:
        sys.exit(f"bench: {error}")
    progress.end()
    results.print_and_write(folder / "shares.json")


if __name__ == "__main__":
    main()
