#!/usr/bin/env python3
"""What the monitor sees of lanes: a rail cut to half for 20 ms, who is to blame for drops, and windows of 1, 8 and 32
completions under a disturbing flow. Hosts are network namespaces with rails of 1 Gb/s. Prints a table and writes
BUILD/bench/monitor_lanes.json (the bars) and BUILD/bench/monitor-windows.svg. Needs root.

  bench/monitor_lanes.py BUILD [--quick] [--only simulated,transient,labels,windows] [--runs N]
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import window_plot
from failover import Results
from lab import LabError, Rails
from monitor_lab import Shaper, Watched
from run import Progress

PARTS = ("simulated", "transient", "labels", "windows")
CHUNK = 32768  # at 1 Gb/s a quarter of a millisecond
CUT = 0.02
LATE = 0.32  # seconds in which a rank that is to come late does: an operation, and the 40 ms it is late
LABELS = ("lane_recovered", "lane_stalled")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="under a minute: 5 runs of each")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run")
    parser.add_argument("--runs", type=int, help="cuts, and cases of each cause (30, 10)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of what is drawn")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"--only {','.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    return arguments


class Bench:
    def __init__(self, arguments, results, progress):
        self.build, self.results, self.progress = arguments.build, results, progress
        self.cuts = arguments.runs or (5 if arguments.quick else 30)
        self.cases = arguments.runs or (5 if arguments.quick else 10)
        self.random = random.Random(arguments.seed)
        self.labelled = []  # where, right, of

    def watched(self, rails, *options, **environment):
        return Watched(self.build, rails, options, TUTTI_TCP_CHUNK=str(CHUNK), **environment)

    def simulated(self):
        """What the tests on simulated lanes of 400 Gb/s measure."""
        self.progress.step("simulated lanes")
        said = subprocess.run([self.build / "bin/lane_drops_test"], capture_output=True, text=True).stdout
        placed = re.search(r"worst of (\d+): placed within ([\d.]+) us, depth within ([\d.]+) %", said)
        right = re.search(r"(\d+) of (\d+) right", said)
        if not placed or not right:
            raise LabError("lane_drops_test did not say what it measured")
        what = f"simulated, 400 Gb/s halved for 200 us, {placed[1]} phases: "
        self.results.add(what + "placed within", "us", [float(placed[2])], 20)
        self.results.add(what + "depth within", "percent", [float(placed[3])], 10)
        self.count_labels("simulated", int(right[1]), int(right[2]))

    def transient(self):
        seen, places, depths, delays = 0, [], [], []
        with Rails(2, 2) as rails:
            shapers = [Shaper(host, 2) for host in rails.hosts]
            with self.watched(rails) as job:
                job.sleep(2)
                for number in range(self.cuts):
                    self.progress.step(f"a rail cut to half for {1000 * CUT:.0f} ms: {number + 1} of {self.cuts}")
                    rail = self.random.randint(0, 1)
                    job.sleep(0.3 + self.random.random() * 0.05)
                    cut = shapers[0].set(rail, 500)
                    time.sleep(max(0, cut[1] + CUT - time.monotonic()))
                    back = shapers[0].set(rail, 1000)
                    delays += [cut[1] - cut[0], back[1] - back[0]]
                    job.sleep(0.1)
                    told = most_of(job.events_of(0, ("lane_recovered",), cut[1], back[0]), cut[1], back[0])
                    if told is None or told["lane"] % 2 != rail or told["cause"] != "path_congested":
                        self.progress.note(f"bench: cut of rail {rail} at {cut[0]:.4f}: {told}")
                        continue
                    seen += 1
                    places.append(1000 * max(outside(told["began"], *cut), outside(told["at"], *back)))
                    depths.append(100 * abs(told["values"][1] / told["values"][0] / 0.5 - 1))
            for shaper in shapers:
                shaper.close()
        what = f"1 Gb/s cut to half for {1000 * CUT:.0f} ms on one rail of two: "
        self.results.add(what + f"seen, right lane, of {self.cuts}", "cuts", [seen], self.cuts, at_least=True)
        self.results.add(what + "placed within", "ms", places or [1e3], 2)
        self.results.add(what + "depth within", "percent", depths or [1e3], 10)
        self.progress.note(f"bench: the rate was changed within {1e3 * max(delays):.2f} ms")

    def labels(self):
        """Three ranks in a row; broadcasts pass the second. What is done, and what the lanes of ranks 0 and 1 say of it."""
        right, wrong = 0, []
        with Rails(3, 1) as rails:
            shapers = [Shaper(host, 1) for host in rails.hosts]
            kinds = (
                ("the rail of rank 0 is slow", lambda job: slow(shapers[0], 0.03 + self.random.random() * 0.05),
                 {0: "path_congested", 1: "sender_starved"}),
                ("the rail of rank 1 is slow", lambda job: slow(shapers[1], 0.03 + self.random.random() * 0.05),
                 {1: "path_congested"}),
                ("rank 2 is stopped", lambda job: stop(job.ranks[2], 0.03 + self.random.random() * 0.03),
                 {1: "receiver_late"}),
                ("rank 0 is stopped", lambda job: stop(job.ranks[0], 0.03 + self.random.random() * 0.03),
                 {1: "sender_starved"}),
                ("rank 2 comes late", lambda job: job.ranks[2].send_signal(signal.SIGUSR1), {1: "receiver_late"}),
            )
            with self.watched(rails, "--bytes", 32 << 20, TUTTI_SELECT="broadcast:*:ring") as job:
                job.sleep(2)
                for number in range(self.cases):
                    for what, inject, causes in kinds:
                        self.progress.step(f"{what}: {number + 1} of {self.cases}")
                        job.sleep(0.3)
                        # In the midst of an operation: time between two of them is nobody's fault.
                        job.await_operation()
                        job.sleep(0.03 + self.random.random() * 0.05)
                        start = time.monotonic()
                        inject(job)
                        end = max(time.monotonic(), start + (LATE if what == "rank 2 comes late" else 0))
                        job.sleep(0.3 + end - time.monotonic())
                        for rank, cause in causes.items():
                            told = most_of(job.events_of(rank, LABELS, start, end), start, end)
                            label = told["cause"] if told else "nothing"
                            right += label == cause
                            if label != cause:
                                wrong.append(f"{what}, rank {rank}: {label}, {told['text'] if told else ''}")
            for shaper in shapers:
                shaper.close()
        for line in wrong:
            self.progress.note(f"bench: {line}")
        self.count_labels("in the lab", right, right + len(wrong))

    def count_labels(self, where, right, drops):
        self.progress.note(f"bench: causes of drops {where}: {right} of {drops} right")
        self.labelled.append((where, right, drops))

    def judge_labels(self):
        for where, right, drops in self.labelled:
            self.results.add(f"{drops} drops {where}: cause right", "percent", [100 * right / drops], 99, at_least=True)
        if len(self.labelled) > 1:
            right, drops = (sum(each[i] for each in self.labelled) for i in (1, 2))
            what = f"{drops} drops {' and '.join(each[0] for each in self.labelled)}: cause right"
            self.results.add(what, "percent", [100 * right / drops], 99, at_least=True)

    def windows(self):
        """A flow of another program takes its share of a rail now and then."""
        self.progress.step("windows of 1, 8 and 32")
        with Rails(2, 1) as rails:
            shapers = [Shaper(host, 1) for host in rails.hosts]
            disturbances = []
            with self.watched(rails, TUTTI_TCP_LANES="1") as job:
                job.sleep(1.5)
                start = time.monotonic()
                for length in (0.005, 0.01, 0.02, 0.04):
                    job.sleep(0.04)
                    disturbances.append(disturb(rails.hosts, length))
                job.sleep(0.04)
                end = time.monotonic()
                job.sleep(0.1)
                pid = job.ranks[0].pid
                chunks = [chunk for chunk in job.chunks if chunk["pid"] == pid and start - 0.05 < chunk["done"] < end]
            for shaper in shapers:
                shaper.close()
        path = self.build / "bench/monitor-windows.svg"
        window_plot.write(path, chunks, start, end, disturbances,
                          f"a rail of 1 Gb/s, chunks of {CHUNK >> 10} KB, acknowledged")
        self.progress.note(f"bench: wrote {path}")


def slow(shaper, seconds):
    shaper.set(0, 400)
    time.sleep(seconds)
    shaper.set(0, 1000)


def stop(rank, seconds):
    rank.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    rank.send_signal(signal.SIGCONT)


def disturb(hosts, seconds):
    """UDP at 600 Mb/s from host 1 to host 2; when it began and ended."""
    program = ("import socket, sys, time\n"
               "out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
               "data, start = bytes(8192), time.monotonic()\n"
               "end, sent = start + float(sys.argv[1]), 0\n"
               "while time.monotonic() < end:\n"
               "    if sent <= (time.monotonic() - start) * 75e6:\n"
               "        out.sendto(data, ('198.18.0.2', 9)); sent += len(data)\n"
               "print(start, time.monotonic())\n")
    said = subprocess.run(["ip", "netns", "exec", hosts[0], sys.executable, "-c", program, str(seconds)], check=True,
                          capture_output=True, text=True).stdout
    return tuple(map(float, said.split()))


def outside(moment, first, last):
    """How far from a time that is known to lie between two."""
    return max(0.0, first - moment, moment - last)


def most_of(events, start, end):
    """The one that covers most of a time, and least beside it."""
    def covers(event):
        return 2 * (min(end, event["at"]) - max(start, event["began"])) - (event["at"] - event["began"])
    return max(events, key=covers, default=None)


def main():
    arguments = parse_arguments()
    if os.geteuid() != 0:
        sys.exit("bench: needs root to make network namespaces; run it with sudo")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # namespaces are taken down on the way out
    # Other work on the machine is not what is measured. Ranks sleep rather than spin here, and leave it enough.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    parts = arguments.only.split(",")
    cuts, cases = arguments.runs or (5 if arguments.quick else 30), arguments.runs or (5 if arguments.quick else 10)
    progress = Progress(sum({"simulated": 1, "transient": cuts, "labels": 5 * cases, "windows": 1}[part] for part in parts))
    results = Results(progress)
    (arguments.build / "bench").mkdir(parents=True, exist_ok=True)
    bench = Bench(arguments, results, progress)
    progress.note(f"bench: seed {arguments.seed}")
    for part in PARTS:
        if part in parts:
            try:
                getattr(bench, part)()
            except LabError as error:
                results.add_failed(part, "", 0, error)
    bench.judge_labels()
    progress.end()
    results.print()
    (arguments.build / "bench/monitor_lanes.json").write_text(json.dumps(results.rows, indent=1) + "\n")
    return 0 if all(row["met"] for row in results.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
