#!/usr/bin/env python3
"""A training-like job on 2 to 4 hosts while everything happens to it at once: ports down, silent loss, resets, also of
connections that are being made, rates that change, ranks stopped, killed and replaced, strangers at every port, too few
descriptors, busy cores; the ranks themselves allocate and free memory, split and abort communicators. Results are
verified to the bit, calls are held against their deadlines, and what processes hold is counted. Prints a table and writes
BUILD/bench/chaos.json. Needs root.

What is done, and when, follows from the seed (--print-schedule shows it); what the job is doing at that moment does not.
Exits with 1 if anything is violated; the ranks' journals are then in BUILD/bench/chaos-SEED.

Seeds that are done are stored (BUILD/bench/chaos-runs.json), so that the bench can be interrupted and started again.
--again forgets the seeds that are named.

  bench/chaos.py BUILD [--quick] [--seed N,...] [--seconds N] [--again] [--print-schedule]
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from chaos_faults import MBIT, Faults
from chaos_job import Job
from chaos_schedule import SCRIPTED, hosts_of, print_schedule, schedule
from chaos_verdict import WARM_STEPS, longest_calls, rows_of
from lab import LabError, Rails

SKIPPED = 77
SEEDS, SECONDS = (1, 2, 3), 600
QUICK_SECONDS = 38  # and starting, calms and the end besides: a minute
STANDSTILL = 45  # seconds without a word of any rank


class Progress:
    """A line every few seconds, rewritten where standard error is a terminal."""

    def __init__(self, title):
        self._title, self._next = title, 0.0

    def show(self, text, at_once=False):
        if time.monotonic() < self._next and not at_once:
            return
        self._next = time.monotonic() + (1 if sys.stderr.isatty() else 10)
        line = f"{self._title}: {text}"
        sys.stderr.write(f"\r\033[K{line}" if sys.stderr.isatty() else line + "\n")
        sys.stderr.flush()

    def note(self, text):
        sys.stderr.write(("\r\033[K" if sys.stderr.isatty() else "") + text + "\n")


class Run:
    """One seed, from the first step to the last."""

    def __init__(self, job, faults, events, seconds, progress):
        self._job, self._faults, self._seconds, self._progress = job, faults, seconds, progress
        self._waiting = list(events)
        self._heard = time.monotonic()
        self._calm = 0.0  # seconds in which the schedule stood still
        self.start = self.end = time.monotonic()

    def whole(self):
        self._until(lambda: self._job.is_whole() and self.steps() > WARM_STEPS, 60, "start")
        self._measure()
        self.start = self.end = time.monotonic()
        while self._clock() < self._seconds:
            self._look()
            self._faults.end_due()
            self._begin_due()
            self.end = time.monotonic()
            next_event = self.start + self._calm + (self._waiting[0].at if self._waiting else self._seconds)
            time.sleep(min(0.05, max(0.001, min(next_event, self._faults.next_end()) - time.monotonic())))
        self._faults.end_all()
        self._measure()
        self._stop()

    def steps(self):
        return max(process.journal.last_number("step", 0) for process in self._job.ranks.values())

    def _clock(self):
        return time.monotonic() - self.start - self._calm

    def _look(self):
        """Hears what ranks write, admits newcomers, and raises when the job is over or stands still."""
        if self._job.read():
            self._heard = time.monotonic()
        self._job.admit()
        if ended := self._job.ended():
            self._job.read()
            raise LabError("; ".join(ended))
        if time.monotonic() - self._heard > STANDSTILL:
            raise LabError(f"no rank has written a line for {STANDSTILL} s")
        kills = self._faults.counts["kill and join"]
        self._progress.show(f"{self._clock():.0f} of {self._seconds:g} s, {max(0, self.steps())} steps, "
                            f"{sum(self._faults.counts.values())} faults, {kills} ranks killed")

    def _begin_due(self):
        later = []
        while self._waiting and self._waiting[0].at <= self._clock():
            event = self._waiting.pop(0)
            if event.kind == "calm":
                self._be_calm()
            elif self._faults.may_begin(event.kind):
                self._faults.begin(event)
                self._look()
            else:
                later.append(event._replace(at=event.at + 0.5))
        self._waiting = sorted(self._waiting + later)

    def _be_calm(self):
        began = time.monotonic()
        self._faults.end_all()
        self._measure()
        self._calm += time.monotonic() - began

    def _measure(self):
        self._until(self._job.is_whole, 60, "be whole")
        number = self._job.ask_to_measure()
        self._until(lambda: self._job.have_measured(number), 60, "count what they hold")

    def _stop(self):
        (self._job.folder / "stop").touch()
        limit = time.monotonic() + 40
        for process in self._job.ranks.values():
            while process.popen.poll() is None and time.monotonic() < limit:
                time.sleep(0.02)
            self._job.read()
            if process.popen.returncode != 0:
                raise LabError(f"{process.name} did not end well within 40 s: {process.said()}")
            if "end" not in process.journal.last:
                raise LabError(f"{process.name} ended before its last word")

    def _until(self, condition, seconds, what):
        limit = time.monotonic() + seconds
        while not condition():
            self._look()
            if time.monotonic() > limit:
                raise LabError(f"the ranks did not {what} within {seconds} s")
            time.sleep(0.02)


def run_seed(arguments, seed):
    """The rows of one seed."""
    folder = arguments.build / f"bench/chaos-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    hosts = hosts_of(seed)
    progress = Progress(f"chaos, seed {seed}")
    broken = []
    with Rails(max(hosts) + 1) as rails:
        rails.mend(MBIT)
        with Job(arguments.build / "bin/chaos_rank", rails, hosts, seed, folder.resolve()) as job:
            faults = Faults(rails, job, stranger=max(hosts) + 1)
            events = [event for event in schedule(seed, arguments.seconds) if event.kind in (*arguments.only, "calm")]
            run = Run(job, faults, events, arguments.seconds, progress)
            try:
                with contextlib.ExitStack() as stack:
                    stack.callback(faults.end_all)
                    run.whole()
            except LabError as error:
                broken.append(f"at {run.end - run.start:.1f} s: {error}")
            job.read()
            rows, violations = rows_of(job, faults, run.start, run.end, broken)
            progress.show(f"{run.end - run.start:.0f} s, {run.steps()} steps, {len(violations)} violations", at_once=True)
            progress.note("")
            report(seed, job, faults, rows)
    for violation in violations:
        print(f"violation: {violation}")
    if violations:
        print(f"seed {seed} violated: the journals are in {folder}; to repeat it: bench/chaos.py {arguments.build} "
              f"--seed {seed} --seconds {arguments.seconds:g}")
    elif not arguments.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def report(seed, job, faults, rows):
    hosts = " ".join(str(host) for host in hosts_of(seed))
    print(f"\nseed {seed}, ranks on hosts {hosts}")
    for each in rows:
        print(f"  {each['what']:72} {each['measured']:10g} {each['target']:8g}  {'yes' if each['met'] else 'NO'}")
    print("  besides: " + ", ".join(f"{count} {what}" for what, count in sorted(faults.details.items())))
    calls = ", ".join(f"{what} {seconds:.2f} of {limit:g} s" for what, (seconds, limit) in sorted(longest_calls(job).items()))
    print(f"  longest calls: {calls}")
    sys.stdout.flush()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="a minute in all, one seed, drawn unless given")
    parser.add_argument("--seed", help=f"of the schedule, several by commas ({','.join(map(str, SEEDS))})")
    parser.add_argument("--seconds", type=float, help=f"of faults ({SECONDS}; quick: {QUICK_SECONDS})")
    parser.add_argument("--only", help="kinds of faults, by commas; the others then count as never fired")
    parser.add_argument("--keep", action="store_true", help="the journals, also if nothing is violated")
    parser.add_argument("--again", action="store_true", help="forget earlier runs of these seeds")
    parser.add_argument("--print-schedule", action="store_true", help="print what would be done, and end")
    arguments = parser.parse_args()
    drawn = [random.randrange(1 << 30)] if arguments.quick else SEEDS
    arguments.seeds = [int(seed) for seed in arguments.seed.split(",")] if arguments.seed else drawn
    arguments.only = arguments.only.split(",") if arguments.only else list(SCRIPTED)
    if unknown := set(arguments.only) - set(SCRIPTED):
        parser.error(f"--only {','.join(sorted(unknown))}: expected some of {', '.join(SCRIPTED)}")
    arguments.seconds = arguments.seconds or (QUICK_SECONDS if arguments.quick else SECONDS)
    return arguments


def be_on_time():
    """Faults must end on time, whatever runs beside them; what is started from here is scheduled as usual."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def main():
    arguments = parse_arguments()
    if arguments.print_schedule:
        for seed in arguments.seeds:
            print_schedule(seed, arguments.seconds)
        return 0
    if os.geteuid() != 0:
        print("skipped: needs root to make network namespaces; run it with sudo")
        return SKIPPED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # namespaces are taken down on the way out
    be_on_time()
    folder = arguments.build / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    name = "chaos-quick" if arguments.quick else "chaos"
    store = folder / f"{name}-runs.json"
    runs = json.loads(store.read_text()) if store.exists() and not arguments.quick else {}
    for seed in arguments.seeds:
        key = f"{seed} for {arguments.seconds:g} s"
        if key in runs and not arguments.again:
            print(f"seed {seed}: done before (--again runs it again)")
            continue
        runs[key] = run_seed(arguments, seed)
        store.write_text(json.dumps(runs, indent=1) + "\n")
    rows = [dict(each, what=f"seed {key}: {each['what']}") for key, run in runs.items() for each in run]
    (folder / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    missed = sum(not each["met"] for each in rows)
    print(f"\ntargets: {len(rows) - missed} of {len(rows)} met; {folder}/{name}.json")
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        print(error)
        sys.exit(SKIPPED if str(error).startswith("skipped") else 1)
