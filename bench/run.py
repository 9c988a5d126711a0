#!/usr/bin/env python3
"""Peers side by side: the same loop through tutti, Open MPI, MPICH and Gloo, in turn, round after round, on the same
cores. Prints the table and writes BUILD/bench/peers.json (the bars), rows.json (every row) and a plot per collective; then
what a communicator costs besides, in costs.json.

  bench/run.py BUILD [--quick] [--only two,eight,network] [--collectives all_reduce,...]
                     [--libraries tutti,openmpi,...] [--rounds N]
  bench/run.py BUILD --base PROGRAM      our own build against another one's tutti_peer
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import plot
import report
from launch import PEERS, Launcher, LaunchError, Network, Scenario, iperf_bytes_per_second

MB = 1 << 20


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="two minutes: fewer sizes, three rounds")
    parser.add_argument("--base", type=Path, help="tutti_peer of the build to compare with")
    parser.add_argument("--only", default="two,eight,network", help="scenarios")
    parser.add_argument("--collectives", help="only these")
    parser.add_argument("--libraries", help="only these")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--largest", type=int, help="bytes")
    parser.add_argument("--point-ms", type=float, help="time for one collective at one size")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - {"two", "eight", "network"}
    if unknown:
        parser.error(f"--only {','.join(sorted(unknown))}: there are two, eight and network")
    return arguments


def scenarios_of(arguments, network):
    quick = arguments.quick
    found = [
        Scenario("two", "2 ranks, shared memory", 2, (128 if quick else 256) * MB),
        Scenario("eight", "8 ranks on 2 cores", 8, (2 if quick else 16) * MB,
                 libraries=("tutti", "openmpi", "mpich", "gloo")),
    ]
    if network:
        found.append(Scenario("network", "2 namespaces, TCP", 2, (16 if quick else 64) * MB, network=True,
                              libraries=("tutti", "openmpi", "mpich", "gloo"), hosts=network.hosts))
    if quick:
        for scenario in found[1:]:
            scenario.collectives = ("all_reduce", "all_to_all", "send_recv")
    for scenario in found:
        if arguments.largest:
            scenario.largest = arguments.largest
        if arguments.collectives:
            scenario.collectives = tuple(arguments.collectives.split(","))
        if arguments.libraries:
            scenario.libraries = tuple(arguments.libraries.split(","))
        if arguments.base:
            scenario.libraries = ("base", "this")
            if scenario.name == "two":
                scenario.libraries += ("base/allocated", "this/allocated")
    return [scenario for scenario in found if scenario.name in arguments.only.split(",")]


class Progress:
    """One line on standard error, rewritten where that is a terminal."""

    def __init__(self, total):
        self.total, self.done, self.start = total, 0, time.monotonic()

    def step(self, text):
        self.done += 1
        line = f"[{self.done}/{self.total}] {time.monotonic() - self.start:4.0f} s  {text}"
        sys.stderr.write(f"\r\033[K{line}" if sys.stderr.isatty() else line + "\n")
        sys.stderr.flush()

    def note(self, text):
        sys.stderr.write(("\r\033[K" if sys.stderr.isatty() else "") + text + "\n")

    def end(self):
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")


def hopeless_peers(rows):
    """(scenario, library) of peers that are nowhere within twice the best peer's time; slow ones take most of a round."""
    best, theirs = {}, {}
    for row in rows:
        if row["library"] in PEERS:
            point = (row["scenario"], row["collective"], row["bytes"])
            best[point] = min(row["us"], best.get(point, float("inf")))
            theirs.setdefault((row["scenario"], row["library"]), {})[point] = row["us"]
    return {key for key, points in theirs.items() if all(us > 2 * best[point] for point, us in points.items())}


def measure(launcher, scenarios, rounds, options, timeout):
    """Every library of every scenario, once a round; a library that fails is named and left out from then on, and so
    is a peer that in the first round was far from the best everywhere."""
    rows, broken = [], set()
    progress = Progress(rounds * sum(len(s.libraries) for s in scenarios))
    for number in range(rounds):
        for scenario in scenarios:
            for library in scenario.libraries:
                progress.step(f"round {number + 1} of {rounds}: {scenario.title}: {library}")
                if (scenario.name, library) in broken:
                    continue
                try:
                    found = launcher.run(library, scenario, options, timeout)
                except LaunchError as error:
                    broken.add((scenario.name, library))
                    progress.note(f"bench: {scenario.title}: {error}")
                    continue
                rows += [dict(row, scenario=scenario.name, round=number) for row in found]
        if number == 0:
            for name, library in sorted(hopeless_peers(rows) - broken):
                progress.note(f"bench: {name}: {library} is nowhere near the best peer: one round of it is enough")
                broken.add((name, library))
    progress.end()
    return rows


def measure_stream(launcher, network, cores, rounds):
    """One connection: our messages of 64 MB, one way at a time, against iperf3, in turn; the best of each."""
    size = 64 * MB
    scenario = Scenario("stream", "one stream", 2, size, network=True, hosts=network.hosts, collectives=("send_recv",))
    theirs, ours = [], []
    for _ in range(rounds):
        theirs.append(iperf_bytes_per_second(network, cores, seconds=1))
        try:
            rows = launcher.run("tutti/one lane", scenario, ["--point-ms", "500", "--smallest", str(size)], timeout=60)
        except LaunchError as error:
            print(f"bench: one stream: {error}", file=sys.stderr)
            return []
        ours.append(size / rows[0]["us"] * 1e6)
    if None in theirs:
        print("bench: no iperf3: one stream is left out", file=sys.stderr)
        return []
    print(f"\none TCP stream between the namespaces: {max(ours) / 1e9:.2f} GB/s, iperf3 {max(theirs) / 1e9:.2f} GB/s")
    return [report.judge("2 namespaces, TCP: one stream's bytes per second / iperf3's", "ratio",
                         max(ours) / max(theirs), 0.9)]


def measure_costs(build):
    """What a communicator costs besides time per call."""
    try:
        answer = subprocess.run([build / "bin/costs_bench"], capture_output=True, text=True, timeout=120, check=True)
    except subprocess.CalledProcessError as error:
        print(f"bench: costs: {error.stderr.strip()}", file=sys.stderr)
        return
    except subprocess.TimeoutExpired:
        print("bench: costs: no end within 120 s", file=sys.stderr)
        return
    results = [json.loads(line) for line in answer.stdout.splitlines()]
    print()
    for result in results:
        print(f"{result['what']:90} {result['measured']:8.4g} {result['unit']} (bar {result['bar']:g})  "
              f"{'yes' if result['met'] else 'NO'}")
    (build / "bench/costs.json").write_text(json.dumps(results, indent=1) + "\n")


def write_results(folder, rows, scenarios, stream):
    best = report.minima(rows)
    titles = {scenario.name: scenario.title for scenario in scenarios}
    results = [result for key in sorted(best) for result in report.verdicts(key, best[key], titles[key[0]])]
    results += stream
    report.print_table(best, scenarios, sys.stdout)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "rows.json").write_text(json.dumps(rows, indent=0) + "\n")
    for scenario in scenarios:
        for collective in scenario.collectives:
            plot.write(folder / f"{scenario.name}-{collective}.svg", best, scenario, collective)
    missed = [result for result in results if not result["met"]]
    print(f"\nbars: {len(results) - len(missed)} of {len(results)} met; {folder}/peers.json, rows.json, *.svg")


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # namespaces are taken down on the way out
    cores = sorted(os.sched_getaffinity(0))[:2]
    # Fewer than nine rounds give wide intervals.
    rounds = arguments.rounds or (9 if arguments.base else 3 if arguments.quick else 7)
    point_ms = arguments.point_ms or (10 if arguments.quick else 20)
    options = ["--point-ms", str(point_ms), "--factor", "8" if arguments.quick else "4"]
    overrides = {}
    if arguments.base:
        overrides = {"base": arguments.base, "this": arguments.build / "bin/tutti_peer"}
    launcher = Launcher(arguments.build / "bin", cores, overrides)
    with contextlib.ExitStack() as stack:
        stack.callback(launcher.close)
        network = None
        if "network" in arguments.only:
            if os.geteuid() == 0:
                network = stack.enter_context(Network())
            else:
                print("bench: not root, so no network namespaces: TCP is left out", file=sys.stderr)
        scenarios = scenarios_of(arguments, network)
        for scenario in scenarios:
            absent = [library for library in scenario.libraries if not launcher.available(library)]
            if absent:
                print(f"bench: not built, left out: {', '.join(absent)}", file=sys.stderr)
            scenario.libraries = tuple(library for library in scenario.libraries if library not in absent)
        rows = measure(launcher, scenarios, rounds, options, timeout=120)
        stream = []
        if network and not arguments.base and not arguments.libraries:
            stream = measure_stream(launcher, network, cores, rounds=2 if arguments.quick else 5)
    if not rows:
        sys.exit("bench: nothing was measured")
    if arguments.base:
        results = report.print_comparison(rows, sys.stdout)
        folder = arguments.build / "bench"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "compare.json").write_text(json.dumps(results, indent=1) + "\n")
        slower = sum(not row["met"] for row in results)
        print(f"\n{slower} of {len(results)} points are slower by over 3 %; {folder}/compare.json")
        return
    write_results(arguments.build / "bench", rows, scenarios, stream)
    if not arguments.libraries:
        measure_costs(arguments.build)


if __name__ == "__main__":
    main()
