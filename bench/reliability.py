#!/usr/bin/env python3
"""What a job survives when it behaves like a user's: pauses between operations, busy cores, ranks that stop and go on.
Hosts are network namespaces with two switched rails; every result is verified to the bit. Prints a table and writes
BUILD/bench/reliability.json. Needs root.

Exits with 1 if a job broke, whatever the figures.

Every run is stored as it ends (BUILD/bench/reliability-runs.json), so that the bench can be interrupted and started
again: it goes on with what is missing. --again forgets the runs of the parts that are named.

  bench/reliability.py BUILD [--quick] [--only PART,...] [--runs N] [--again]
"""

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from failover import MB, longest_pause
from lab import BusyLoops, Job, LabError, Rails
from run import Progress

MBIT = 400  # of a rail: two cores carry both with time to spare
LOST = re.compile(r"lane \d+ to .* is lost")
BACK = re.compile(r"lane \d+ to .* is back")


class Bench:
    def __init__(self, arguments):
        self.build, self.quick = arguments.build, arguments.quick
        self.program = arguments.build / "bin/failover_rank"
        self.random = random.Random(arguments.seed)
        self.healed_late = 0  # seconds, in the run under way

    def job(self, rails, *options, seconds=1800, environment=None):
        rails.mend(MBIT)
        return Job(self.program, rails, options, seconds, environment=environment)

    # Each part below yields its runs: numbers, of which a run that failed is infinite.

    def silent_in_pause(self, pause, runs):
        """Seconds that the next operation takes longer after a rail went silent in a pause. Long pauses are waited for
        in several labs at a time: nothing runs meanwhile."""
        labs = 4 if pause >= 1 and runs >= 8 else 1
        with ThreadPoolExecutor(labs) as pool:
            shares = [runs // labs + (lab < runs % labs) for lab in range(labs)]
            found, ready, ended = [], threading.Condition(), []

            def one_lab(share):
                try:
                    for value in self.silent_in_pauses_of_one_lab(pause, share):
                        with ready:
                            found.append(value)
                            ready.notify()
                finally:
                    with ready:
                        ended.append(share)
                        ready.notify()
            labs_under_way = [pool.submit(one_lab, share) for share in shares]
            given = 0
            while True:
                with ready:
                    ready.wait_for(lambda: len(found) > given or len(ended) == labs)
                    values = found[given:]
                if not values:
                    break
                given += len(values)
                yield from values
            for lab in labs_under_way:
                lab.result()

    def silent_in_pauses_of_one_lab(self, pause, runs):
        done = 0
        while done < runs:  # a job that fails is one run that failed
            try:
                with Rails(2, 2) as rails, \
                        self.job(rails, "--collective", "all_reduce", "--bytes", MB, "--pause-ms", pause * 1000,
                                 environment={"TUTTI_LOG": "info"}) as job:
                    job.wait_for_operations(time.monotonic() + 0.5, 20 + 3 * pause)
                    while done < runs:
                        value = self.one_silence_in_pause(job, rails, pause)
                        done += 1
                        yield value
            except LabError as error:
                print(f"bench: silence in a pause of {pause:g} s: {error}", file=sys.stderr)
                done += 1
                yield float("inf")

    def one_silence_in_pause(self, job, rails, pause):
        if not job.wait_until(lambda: len(BACK.findall(job.said())) >= len(LOST.findall(job.said())), 15):
            raise LabError("a lane that was lost is not back within 15 s")
        last = len(job.logs[0].read())
        job.wait_until(lambda: len(job.logs[0].read()) > last + 1, 3 * pause + 20)
        job.sleep_until(time.monotonic() + self.random.uniform(0, 0.8) * pause)
        direction, rail = self.random.choice(("in", "out", "both")), self.random.randint(0, 1)
        host = self.random.randint(1, 2)
        injected = rails.do("silent_loss", host, rail, direction)
        job.wait_for_operations(injected, 30 + 3 * pause)
        stall = max(longest_pause(log.read(), injected, injected + pause + 0.5) for log in job.logs)
        rails.do("heal", host, rail)
        return stall

    def resets(self, runs):
        """Seconds that operations stand still after all connections of a host were reset; every other time twice, so
        that handshakes are hit."""
        for pause_ms, share in ((0, runs // 2), (50, runs - runs // 2)):
            options = ("--pause-ms", pause_ms) if pause_ms else ()
            done = 0
            while done < share:
                try:
                    with Rails(2, 2) as rails, \
                            self.job(rails, "--collective", "all_reduce", "--bytes", MB, *options) as job:
                        job.wait_for_operations(time.monotonic() + 0.5)
                        while done < share:
                            value = self.one_reset(job, rails, done % 2 == 1)
                            done += 1
                            yield value
                except LabError as error:
                    print(f"bench: resets: {error}", file=sys.stderr)
                    done += 1
                    yield float("inf")

    def one_reset(self, job, rails, twice):
        job.sleep_until(time.monotonic() + self.random.uniform(0.05, 0.6))
        injected = rails.do("reset_all", self.random.randint(1, 2))
        if twice:
            rails.do("reset_all", self.random.randint(1, 2))
        horizon = injected + 0.8
        job.sleep_until(horizon)
        job.wait_for_operations(horizon)
        return max(longest_pause(log.read(), injected, horizon) for log in job.logs)

    def both_silent(self, runs):
        """1 if the job went on, and still does six seconds later; 0 if not. Beside busy loops the kernel may take seconds
        to remove what drops the packets: a run in which a rail was healed late is not counted."""
        with BusyLoops(2):
            done = 0
            while done < runs:
                try:
                    with Rails(2, 2) as rails, \
                            self.job(rails, "--collective", "mixed", "--bytes", MB, "--depth", 2) as job:
                        job.wait_for_operations(time.monotonic() + 0.5)
                        while done < runs:
                            self.healed_late = 0
                            self.one_isolation(job, rails, 1 if done % 2 else 3)
                            done += 1
                            yield 1
                except LabError as error:
                    print(f"bench: both rails silent, healed {self.healed_late:.1f} s late: {error}", file=sys.stderr)
                    if self.healed_late > 0.5:
                        continue
                    done += 1
                    yield 0

    def one_isolation(self, job, rails, seconds):
        host = self.random.randint(1, 2)
        for rail in range(2):
            rails.do("silent_loss", host, rail)
        job.sleep_until(time.monotonic() + seconds)
        due = time.monotonic()
        for rail in range(2):
            rails.do("heal", host, rail)
        self.healed_late = time.monotonic() - due
        for _ in range(3):
            job.wait_for_operations(time.monotonic(), 12)
            job.sleep_until(time.monotonic() + 2)
        job.wait_for_operations(time.monotonic(), 12)

    def silent_loss(self, runs):
        """Seconds that operations stand still after a rail that carries went silent."""
        with Rails(2, 2) as rails, self.job(rails, "--collective", "all_reduce", "--bytes", MB) as job:
            job.wait_for_operations(time.monotonic() + 0.5)
            for _ in range(runs):
                job.sleep_until(time.monotonic() + 0.2)
                rail, host = self.random.choice(job.carrying() or [0]), self.random.randint(1, 2)
                injected = rails.do("silent_loss", host, rail, self.random.choice(("in", "out", "both")))
                job.sleep_until(injected + 0.8)
                job.wait_for_operations(injected + 0.8)
                yield max(longest_pause(log.read(), injected, injected + 0.8) for log in job.logs)
                rails.do("heal", host, rail)
                job.wait_for_rail(rail, 2.5)

    def false_failovers(self, minutes):
        """Lanes lost in each minute, though no rail fails: four busy loops per core, ranks that are stopped for 50 ms
        now and then, and a rail that eight other TCP flows share."""
        cores = len(os.sched_getaffinity(0))
        with BusyLoops(4 * cores), Rails(2, 2) as rails, \
                self.job(rails, "--collective", "mixed", "--bytes", MB, "--depth", 2, seconds=3600,
                         environment={"TUTTI_LOG": "info"}) as job:
            job.wait_for_operations(time.monotonic() + 1, 60)
            for _ in range(minutes):
                with OtherFlows(rails, rail=1, flows=8, seconds=60):
                    before, end = len(LOST.findall(job.said())), time.monotonic() + 60
                    while time.monotonic() < end:
                        job.stop_for(self.random.randint(0, 1), 0.05)
                        job.sleep_until(time.monotonic() + self.random.uniform(0.5, 2))
                job.wait_for_operations(time.monotonic(), 60)
                yield len(LOST.findall(job.said())) - before

    def repeated_test(self, repeats):
        """How many of six tcp_test that run at once fail, of so many repeats each."""
        commands = [[str(self.build / "bin/tcp_test"), "--gtest_filter=*Reset*", f"--gtest_repeat={repeats}",
                     "--gtest_brief=1", "--gtest_throw_on_failure"] for _ in range(6)]
        tests = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
        limit, failed = time.monotonic() + 20 * repeats, 0
        for test in tests:
            try:
                failed += test.wait(timeout=max(1, limit - time.monotonic())) != 0
            except subprocess.TimeoutExpired:
                test.kill()
                test.wait()
                failed += 1
        yield failed

    def ctest(self, runs, *options):
        """1 for each time that all tests passed beside two busy loops."""
        for _ in range(runs):
            with BusyLoops(2):
                done = subprocess.run(["ctest", "--test-dir", str(self.build), "-j", "2", "--output-on-failure", *options],
                                      capture_output=True, text=True, check=False)
            if done.returncode != 0:
                log = self.build / "bench" / time.strftime("failed-tests-%Y%m%d-%H%M%S.txt")
                log.write_text(done.stdout)
                print("\n".join([*done.stdout.splitlines()[-10:], f"whole output: {log}"]), file=sys.stderr)
            yield int(done.returncode == 0)


class OtherFlows:
    """TCP streams from the first host to the second on one rail, by iperf3."""

    def __init__(self, rails, rail, flows, seconds):
        server, client = rails.hosts[1], rails.hosts[0]
        self._server = subprocess.Popen(["ip", "netns", "exec", server, "iperf3", "-s", "-1", "-p", "5900"],
                                        stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        self._client = subprocess.Popen(["ip", "netns", "exec", client, "iperf3", "-c", f"198.18.{rail}.2", "-p", "5900",
                                         "-P", str(flows), "-t", str(seconds)], stdout=subprocess.DEVNULL)

    def __enter__(self):
        time.sleep(0.5)
        if self._client.poll() is not None:
            raise LabError(f"iperf3 ended with {self._client.returncode}")
        return self

    def __exit__(self, *_):
        for each in (self._client, self._server):
            each.terminate()
            each.wait()


class Part:
    """What is run, how often, how its runs become rows, and which value means that a job broke."""

    def __init__(self, runs, run, rows, broken=float("inf")):
        self.runs, self.run, self.rows, self.broken = runs, run, rows, broken


def at_most(what, unit, target, scale=1.0, of=max):
    return lambda runs: [row(what, unit, of(runs) * scale, target, of(runs) * scale <= target, len(runs))]


def all_of(what):
    return lambda runs: [row(what, f"of {len(runs)}", sum(runs), len(runs), sum(runs) == len(runs), len(runs))]


def row(what, unit, measured, target, met, runs):
    measured = None if measured == float("inf") else round(measured, 4)
    return {"what": what, "unit": unit, "measured": measured, "target": target, "met": bool(met), "runs": runs}


def stall_rows(runs):
    ordered = sorted(runs)
    high = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    median = statistics.median(ordered)
    return [row("silent loss: operations stand still, median", "ms", median * 1000, 150, median <= 0.150, len(runs)),
            row("silent loss: operations stand still, p99", "ms", high * 1000, 200, high <= 0.200, len(runs))]


def within(what, target):
    def rows(runs):
        good = sum(value <= target for value in runs)
        return [row(f"{what}: traffic within {target:g} s", f"of {len(runs)}", good, len(runs), good == len(runs), len(runs)),
                row(f"{what}: longest", "ms", max(runs) * 1000, target * 1000, good == len(runs), len(runs))]
    return rows


def parts_of(bench):
    quick = bench.quick
    parts = {}
    for pause in (0.05, 1) if quick else (0.05, 1, 10):
        parts[f"pause-{pause:g}"] = Part(3 if quick else 100, lambda runs, pause=pause: bench.silent_in_pause(pause, runs),
                                         within(f"a rail goes silent in a pause of {pause:g} s", 0.5))
    parts["resets"] = Part(6 if quick else 200, bench.resets,
                           at_most("all lanes reset at once: operations stand still, longest", "ms", 300, 1000))
    parts["silent-loss"] = Part(5 if quick else 100, bench.silent_loss, stall_rows)
    parts["resets-test"] = Part(1, lambda _: bench.repeated_test(2 if quick else 60),
                                at_most("tcp_test *Reset*, six at once: of these fail", "tests", 0))
    if not quick:
        parts["both-silent"] = Part(50, bench.both_silent,
                                    all_of("both rails of a host silent for 1 and 3 s, two busy loops: the job goes on"),
                                    broken=0)
        parts["false-failovers"] = Part(10, bench.false_failovers, at_most(
            "no fault, 4 busy loops per core, stops of 50 ms, 8 other flows: lanes lost in 10 minutes", "lanes", 0, of=sum))
        parts["network-tests"] = Part(20, lambda runs: bench.ctest(runs, "-R", r"^(labs\..*|tcp|control|agreement|bootstrap)$"),
                                       all_of("labs and tests of tcp, control, bootstrap beside two busy loops pass"))
        parts["all-tests"] = Part(3, bench.ctest, all_of("all tests beside two busy loops pass"))
    return parts


class Store:
    """The runs so far, of this build."""

    def __init__(self, path, again):
        self._path = path
        self.runs = json.loads(path.read_text()) if path.exists() else {}
        for part in again:
            self.runs.pop(part, None)

    def add(self, part, value):
        self.runs.setdefault(part, []).append(value)
        self._path.write_text(json.dumps(self.runs) + "\n")

    def of(self, part):
        return self.runs.get(part, [])


def print_rows(rows):
    print(f"\n{'':92} {'unit':>7} {'measured':>9} {'target':>7} {'runs':>5}  met")
    for each in rows:
        measured = "failed" if each["measured"] is None else f"{each['measured']:.5g}"
        print(f"{each['what']:92} {each['unit']:>7} {measured:>9} {each['target']:7g} {each['runs']:5}  "
              f"{'yes' if each['met'] else 'NO'}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="about a minute: a few runs of each part")
    parser.add_argument("--only", help="parts to run")
    parser.add_argument("--runs", type=int, help="of each part, instead of what the targets ask for")
    parser.add_argument("--again", action="store_true", help="forget earlier runs")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of what is drawn")
    return parser, parser.parse_args()


def main():
    parser, arguments = parse_arguments()
    if os.geteuid() != 0:
        sys.exit("bench: needs root to make network namespaces; run it with sudo")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # namespaces are taken down on the way out
    parts = parts_of(Bench(arguments))
    chosen = arguments.only.split(",") if arguments.only else list(parts)
    if unknown := set(chosen) - set(parts):
        parser.error(f"--only {','.join(sorted(unknown))}: expected some of {', '.join(parts)}")
    folder = arguments.build / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    name = "reliability-quick" if arguments.quick else "reliability"
    store = Store(folder / f"{name}-runs.json", chosen if arguments.again or arguments.quick else [])
    missing = {part: (arguments.runs or parts[part].runs) - len(store.of(part)) for part in chosen}
    progress = Progress(sum(max(0, runs) for runs in missing.values()))
    progress.note(f"bench: seed {arguments.seed}")
    for part in chosen:
        if missing[part] <= 0:
            continue
        try:
            for value in parts[part].run(missing[part]):
                store.add(part, value)
                progress.step(f"{part}: {value:.4g}")
        except LabError as error:
            progress.note(f"bench: {part}: {error}")
    progress.end()
    rows = [each for part in parts if store.of(part) for each in parts[part].rows(store.of(part))]
    print_rows(rows)
    (folder / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    missed = sum(not each["met"] for each in rows)
    print(f"\ntargets: {len(rows) - missed} of {len(rows)} met; {folder}/{name}.json")
    if any(parts[part].broken in store.of(part) for part in parts):
        sys.exit("bench: a job broke")


if __name__ == "__main__":
    main()
