#!/usr/bin/env python3
"""How fast and how well traffic moves when network ports fail: two hosts as network namespaces, joined by two switched
rails of equal, shaped rate, a rank each. Prints a table and writes BUILD/bench/failover.json (the targets) and
BUILD/bench/failover-*.svg (bandwidth over time). Needs root.

A pause is the longest time between two operations' ends around the fault, less what an operation takes anyway, on the
rank that pauses longest. Bandwidth is what operations have brought, in bytes of their buffers.

  bench/failover.py BUILD [--quick] [--only pauses,bandwidth,relay,training,failovers,plots] [--runs N] [--failovers N]
"""

import argparse
import os
import random
import signal
import statistics
import sys
import time
from pathlib import Path

import timeline
from lab import Job, LabError, Rails
from results import Results
from run import Progress

PARTS = ("pauses", "bandwidth", "relay", "training", "failovers", "plots")
MB = 1 << 20


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="about two minutes: 5 runs, 50 failovers")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run")
    parser.add_argument("--runs", type=int, help="of each kind of fault (30)")
    parser.add_argument("--failovers", type=int, help="random ones in a row (1000)")
    parser.add_argument("--mbit", type=int, default=1000, help="of a rail, each way")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of what is drawn")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"--only {','.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    arguments.runs = arguments.runs or (5 if arguments.quick else 30)
    arguments.failovers = arguments.failovers or (50 if arguments.quick else 1000)
    return arguments


class Bench:
    def __init__(self, arguments, rails, results, progress):
        self.program = arguments.build / "bin/failover_rank"
        self.rails, self.results, self.progress = rails, results, progress
        self.runs, self.failovers, self.mbit = arguments.runs, arguments.failovers, arguments.mbit
        self.folder = arguments.build / "bench"
        self.random = random.Random(arguments.seed)

    def job(self, *options, seconds=900):
        self.rails.mend(self.mbit)
        return Job(self.program, self.rails, options, seconds)

    def streams(self):
        """Several operations at a time: the rails are never idle."""
        return self.job("--collective", "all_reduce", "--bytes", 2 * MB, "--depth", 4)

    # Pauses.

    def pauses(self):
        """The first shows what the machine itself does to operations meanwhile."""
        try:
            quiet = self.pauses_by(lambda host, rail: (time.monotonic(), lambda: None), 0.4, "no fault")
            self.progress.note(f"bench: without a fault the longest pause in 0.4 s is {statistics.median(quiet):.1f} ms in "
                               f"the median, {max(quiet):.1f} ms at worst")
        except LabError as error:
            self.progress.note(f"bench: pauses without a fault: {error}")
        for what, fault, horizon, target in (
                ("port down, seen at its host: traffic flows again after", self.port_down, 0.4, 50),
                ("silent loss: traffic flows again after", self.silent_loss, 1.0, 500)):
            try:
                self.results.add(what, "ms", self.pauses_by(fault, horizon, what), target)
            except LabError as error:
                self.results.add_failed(what, "ms", target, error)

    def port_down(self, host, rail):
        return self.rails.do("port_down", host, rail), lambda: self.rails.do("port_up", host, rail)

    def silent_loss(self, host, rail):
        direction = self.random.choice(("in", "out", "both"))
        return self.rails.do("silent_loss", host, rail, direction), lambda: self.rails.do("heal", host, rail)

    def pauses_by(self, fault, horizon, what):
        found = []
        with self.job("--collective", "all_reduce", "--bytes", MB) as job:
            job.wait_for_operations(time.monotonic() + 0.5)
            for number in range(self.runs):
                self.progress.step(f"{what}: run {number + 1} of {self.runs}")
                found.append(self.one_pause(job, fault, horizon))
        return found

    def one_pause(self, job, fault, horizon):
        """Milliseconds, of a fault on a rail that carries traffic."""
        job.sleep_until(time.monotonic() + 0.2)
        rail = self.random.choice(job.carrying() or [0])
        injected, undo = fault(self.random.randint(1, 2), rail)
        job.sleep_until(injected + horizon)
        job.wait_for_operations(injected + horizon)  # a pause that is not over has no length yet
        found = max(longest_pause(log.read(), injected, injected + horizon) for log in job.logs)
        undo()
        job.wait_for_rail(rail, 2.5)
        return found * 1000

    # Bandwidth.

    def bandwidth(self):
        half = "one of two rails lost: bandwidth / half of before"
        back = "port back: full bandwidth (95 % of before) again after"
        slow = "one rail slowed to half: after 1 s, bandwidth / 3/4 of before"
        kept, returned, shared, befores = [], [], [], []
        try:
            with self.streams() as job:
                job.wait_for_operations(time.monotonic() + 1)
                idle = idle_share(1.0)
                for number in range(self.runs):
                    self.progress.step(f"bandwidth with a port down: run {number + 1} of {self.runs}")
                    before, share, seconds = self.lose_and_regain(job)
                    befores.append(before)
                    kept.append(share)
                    returned.append(seconds)
            note = f"bandwidth with both rails {statistics.median(befores) * 8 / 1e6:.0f} of {2 * self.mbit} Mb/s shaped"
            self.progress.note(f"bench: {note}; CPU {idle:.0%} idle meanwhile")
            self.results.add(half, "ratio", kept, 0.95, at_least=True)
            self.results.add(back, "seconds", returned, 2)
        except LabError as error:
            self.results.add_failed(half, "ratio", 0.95, error)
            self.results.add_failed(back, "seconds", 2, error)
        try:
            with self.streams() as job:
                job.wait_for_operations(time.monotonic() + 1)
                for number in range(self.runs):
                    self.progress.step(f"bandwidth with a slow rail: run {number + 1} of {self.runs}")
                    shared.append(self.slow_down(job))
            self.results.add(slow, "ratio", shared, 0.95, at_least=True)
        except LabError as error:
            self.results.add_failed(slow, "ratio", 0.95, error)

    def relay(self):
        """Two hosts of two ranks, every rank in a namespace of its own with one port: one port dies, and its rank goes
        through its neighbour. What that host's other port allows is half of before."""
        what = "a rank's only port dead, its neighbour's used: bandwidth / half of before"
        shares = []
        try:
            with Rails(4, 1) as rails:
                rails.mend(self.mbit)
                options = ("--collective", "all_reduce", "--bytes", 2 * MB, "--depth", 4)
                with Job(self.program, rails, options, 900, sharing=2) as job:
                    job.wait_for_operations(time.monotonic() + 1)
                    for number in range(self.runs):
                        self.progress.step(f"{what}: run {number + 1} of {self.runs}")
                        shares.append(self.lose_only_port(job, rails, self.random.randint(1, 4)))
            self.results.add(what, "ratio", shares, 0.9, at_least=True)
        except LabError as error:
            self.results.add_failed(what, "ratio", 0.9, error)

    def lose_only_port(self, job, rails, host):
        start = time.monotonic()
        job.sleep_until(start + 1)
        before = bandwidth(job.logs[0].read(), start, start + 1)
        rails.do("port_down", host, 0)
        job.sleep_until(time.monotonic() + 1.5)
        start = time.monotonic()
        job.sleep_until(start + 1)
        during = bandwidth(job.logs[0].read(), start, start + 1)
        rails.do("port_up", host, 0)
        job.sleep_until(time.monotonic() + 2)
        return during / (before / 2)

    def before_fault(self, job):
        if len(job.carrying(0.1)) < self.rails.rails:
            raise LabError("not all rails carry traffic: there is nothing to lose")
        start = time.monotonic()
        job.sleep_until(start + 1)
        return bandwidth(job.logs[0].read(), start, start + 1)

    def lose_and_regain(self, job):
        before = self.before_fault(job)
        host, rail = self.random.randint(1, 2), self.random.randint(0, 1)
        down = self.rails.do("port_down", host, rail)
        job.sleep_until(down + 0.9)
        share = bandwidth(job.logs[0].read(), down + 0.3, down + 0.9) / (before / 2)
        up = self.rails.do("port_up", host, rail)
        return before, share, self.full_again(job, up, before)

    def full_again(self, job, since, before, limit=4.0):
        """Seconds until the beginning of the first 200 ms at 95 % of before; the limit where there are none."""
        found = []

        def is_full():
            found.append(first_full(job.logs[0].read(), since, 0.95 * before, time.monotonic()))
            return found[-1] is not None
        return found[-1] - since if job.wait_until(is_full, limit) else limit

    def slow_down(self, job):
        before = self.before_fault(job)
        host, rail = self.random.randint(1, 2), self.random.randint(0, 1)
        slowed = self.rails.do("rate", host, rail, self.mbit // 2)
        job.sleep_until(slowed + 2)
        share = bandwidth(job.logs[0].read(), slowed + 1, slowed + 2) / (before * 0.75)
        healed = self.rails.do("rate", host, rail, self.mbit)
        self.full_again(job, healed, before)
        return share

    # A loop as of training.

    def training(self):
        """Steps of 20 ms on something else than the CPU, with a reduction under way that takes less on one rail."""
        what = "training loop, communication hidden, one rail down: median step slower by"
        size = int(self.mbit * 1e6 / 8 * 0.008)  # 8 ms of one rail
        steps = {"whole": [], "down": []}
        try:
            with self.job("--collective", "all_reduce", "--bytes", size, "--compute-us", 20000) as job:
                job.wait_for_operations(time.monotonic() + 1)
                for number in range(self.runs):
                    self.progress.step(f"training loop: run {number + 1} of {self.runs}")
                    rail = number % 2
                    steps["whole"] += self.phase(job, time.monotonic())
                    steps["down"] += self.phase(job, self.rails.do("port_down", self.random.randint(1, 2), rail))
                    for host in (1, 2):
                        self.rails.do("port_up", host, rail)
                    job.wait_for_rail(rail, 2.5)
                if len(steps["down"]) < len(steps["whole"]) / 2:
                    raise LabError(f"{len(steps['whole'])} steps with both rails, {len(steps['down'])} with one")
        except LabError as error:
            self.results.add_failed(what, "percent", 0.4, error)
            return
        medians = {name: statistics.median(found) for name, found in steps.items()}
        means = {name: statistics.mean(found) for name, found in steps.items()}
        self.progress.note("bench: training loop: step " + ", ".join(
            f"{name} {1000 * medians[name]:.3f} ms (mean {1000 * means[name]:.3f} of {len(found)})"
            for name, found in steps.items()))
        self.results.add(what, "percent", [100 * (medians["down"] / medians["whole"] - 1)], 0.4)

    @staticmethod
    def phase(job, start, seconds=0.6):
        """Durations of the steps that ended in the phase."""
        job.sleep_until(start + seconds)
        ends = [operation.end for operation in job.logs[0].read()]
        return [after - before for before, after in zip(ends, ends[1:]) if start < after <= start + seconds]

    # Failovers in a row.

    def in_a_row(self):
        what = f"{self.failovers} random failovers in a row, every result right to the bit"
        done, start = 0, time.monotonic()
        try:
            with self.job("--collective", "mixed", "--bytes", MB, "--depth", 2, seconds=3600) as job:
                job.wait_for_operations(time.monotonic())
                while done < self.failovers:
                    self.fail_over(job)
                    done += 1
                    self.progress.step(f"failover {done} of {self.failovers}, {(time.monotonic() - start) / done:.2f} s each")
        except LabError as error:
            self.results.add_failed(what, "failovers", self.failovers, f"after {done}: {error}")
            return
        self.results.add(what, "failovers", [done], self.failovers, at_least=True)

    def fail_over(self, job):
        """Hits a rail that carries traffic, and sees it flow again."""
        found = []

        def carry(least):
            found[:] = job.carrying(0.01)
            return len(found) >= least
        # Better two to choose from, but a rail that takes its time to return is not waited for.
        if not job.wait_until(lambda: carry(2), 0.3) and not job.wait_until(lambda: carry(1), 20):
            raise LabError("no rail carries traffic for 20 s")
        rail, host = self.random.choice(found), self.random.randint(1, 2)
        kind = self.random.choice(("port_down", "port_down", "silent_loss", "reset"))
        if kind == "reset":
            self.rails.do("reset", host, rail)
        elif kind == "port_down":
            injected, undo = self.port_down(host, rail)
            job.sleep_until(injected + self.random.uniform(0.02, 0.12))
            undo()
        else:
            injected, undo = self.silent_loss(host, rail)
            job.sleep_until(injected + self.random.uniform(0.1, 0.6))
            undo()
        job.wait_for_operations(time.monotonic())
        job.sleep_until(time.monotonic() + self.random.uniform(0.02, 0.1))

    # Plots.

    def plots(self):
        half = self.mbit // 2
        self.plot("port-down", "a port goes down and comes back", ("port_down 1 1", "port down"), ("port_up 1 1", "up"))
        self.plot("silent-loss", "a switch drops all of a port, and nobody is told", ("silent_loss 1 1", "silent loss"),
                  ("heal 1 1", "healed"))
        self.plot("slow-rail", "a rail slows to half and recovers", (f"rate 1 1 {half}", f"{half} Mb/s"),
                  (f"rate 1 1 {self.mbit}", f"{self.mbit} Mb/s"))

    def plot(self, name, title, fault, end):
        self.progress.step(f"plot: {title}")
        samples, marks, start = [], [], time.monotonic()
        try:
            with self.streams() as job:
                job.wait_for_operations(start + 1)
                start = time.monotonic()
                for seconds, action in ((0.8, fault), (1.7, end), (2.2, None)):
                    sample(job, samples, time.monotonic() + seconds)
                    if action:
                        marks.append((self.rails.do(action[0]) - start, action[1]))
                job.logs[0].read()
        except LabError as error:
            self.progress.note(f"bench: plot of {name}: {error}")
        if len(samples) > 1:
            operations = [(done.end - start, done.bytes) for done in job.logs[0].operations if done.end > start]
            timeline.write(self.folder / f"failover-{name}.svg", title, [(t - start, sent) for t, sent in samples],
                           operations, marks, f"2 hosts, 2 rails of {self.mbit} Mb/s, all_reduce of 2 MB, 4 at a time")


def sample(job, samples, end, every=0.005):
    """Adds (time, bytes sent on each rail) until `end`."""
    moment = time.monotonic()
    while moment < end:
        job.expect_alive()
        samples.append((time.monotonic(), job.sent()))
        moment += every
        time.sleep(max(0, moment - time.monotonic()))


def longest_pause(operations, start, end):
    """The longest time between two ends that touches start to end, less the median one before."""
    ends = [operation.end for operation in operations]
    intervals = list(zip(ends, ends[1:]))
    usual = statistics.median([after - before for before, after in intervals if after < start][-500:])
    longest = max(after - before for before, after in intervals if after > start and before < end)
    return max(0, longest - usual)


def bandwidth(operations, start, end):
    """Bytes per second."""
    return sum(operation.bytes for operation in operations if start < operation.end <= end) / (end - start)


def first_full(operations, since, least, now, window=0.2, step=0.01):
    """The beginning of the first window after `since` with at least so many bytes per second; None yet."""
    recent = [operation for operation in operations[-20000:] if operation.end > since]
    start = since
    while start + window <= now:
        if bandwidth(recent, start, start + window) >= least:
            return start
        start += step
    return None


def idle_share(seconds):
    def read():
        with open("/proc/stat", encoding="ascii") as file:
            ticks = list(map(int, file.readline().split()[1:9]))
        return ticks[3] + ticks[4], sum(ticks)
    idle, total = read()
    time.sleep(seconds)
    idle_after, total_after = read()
    return (idle_after - idle) / max(1, total_after - total)


def steps_of(arguments):
    """How often the parts say how far they are."""
    runs = arguments.runs
    of_part = {"pauses": 3 * runs, "bandwidth": 2 * runs, "relay": runs, "training": runs,
               "failovers": arguments.failovers, "plots": 3}
    return sum(of_part[part] for part in arguments.only.split(","))


def main():
    arguments = parse_arguments()
    if os.geteuid() != 0:
        sys.exit("bench: needs root to make network namespaces; run it with sudo")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # namespaces are taken down on the way out
    os.setpriority(os.PRIO_PROCESS, 0, -10)  # other work on the machine is not what is measured
    progress = Progress(steps_of(arguments))
    progress.note(f"bench: seed {arguments.seed}")
    results = Results(progress)
    folder = arguments.build / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with Rails(hosts=2, rails=2) as rails:
            bench = Bench(arguments, rails, results, progress)
            parts = {"pauses": bench.pauses, "bandwidth": bench.bandwidth, "relay": bench.relay,
                     "training": bench.training, "failovers": bench.in_a_row, "plots": bench.plots}
            for part in PARTS:
                if part in arguments.only.split(","):
                    parts[part]()
    except LabError as error:
        sys.exit(f"bench: {error}")
    progress.end()
    if results.rows:
        results.print_and_write(folder / "failover.json")


if __name__ == "__main__":
    main()
