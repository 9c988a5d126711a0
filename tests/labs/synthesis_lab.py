#!/usr/bin/env python3
"""Synthesized programs on a network that is uneven on purpose: eight hosts as network namespaces, a rank each, whose
every pair has a rate of its own. Two islands of four, joined by a few fast connections and many slow ones; one pair
inside an island is slow; ranks are interleaved over the islands, as a scheduler that knows nothing would place them.
Rates sum to less than two cores can carry, and idle CPU is shown. Needs root.

  synthesis_lab.py BUILD [--only measure,race,simulate] [--sizes 256K,1M] [--rounds 5] [--programs DIR]

measure   `tutti topo measure` in the job, against what was shaped
race      the synthesized all_reduce and all_gather against a ring in rank order and every built-in algorithm, in turn,
          round after round; medians
simulate  `tutti simulate` on the measured topology against the times of the race

Prints tables and writes BUILD/bench/synthesis-lab.json: rows of what, unit, measured, bar, met.
"""

import argparse
import json
import os
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PARTS = ("measure", "race", "simulate")
RANKS = 8
PORT, INSIDE, FEW, MANY, SLOW = 200, 100, 50, 10, 10  # Mb/s
FAST_BETWEEN = {(0, 1), (4, 5)}  # pairs of different islands with the rate FEW; the others have MANY
SLOW_INSIDE = (0, 2)
PAYLOAD = 1448 / 1514  # of what the shaper counts, with headers
RING_BAR, BUILTIN_BAR, SIMULATION_BAR = 3, 1.3, 10
COLLECTIVES = ("all_reduce", "all_gather")
BUILTINS = ("ring", "oneshot", "recursive_doubling", "halving_doubling", "recursive_halving", "bruck", "binomial",
            "double_tree")


class LabError(Exception):
    pass


def shaped_rate(a, b):
    pair = (min(a, b), max(a, b))
    if a % 2 == b % 2:
        return SLOW if pair == SLOW_INSIDE else INSIDE
    return FEW if pair in FAST_BETWEEN else MANY


class Mesh:
    """The hosts, for as long as the context lasts."""

    def __init__(self, ranks):
        script = Path(__file__).resolve().parent / "mesh.sh"
        self._shell = subprocess.Popen(["bash", str(script), str(ranks)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True, bufsize=1, start_new_session=True)
        self.hosts = []
        for line in self._shell.stdout:
            words = line.split()
            if words[0] == "ready":
                break
            if words[0] == "skipped:":
                print(line.strip())
                sys.exit(77)
            self.hosts.append(words[2])
        for host in range(ranks):
            self._do("shape", host, PORT, *(shaped_rate(host, to) if to != host else 0 for to in range(ranks)))

    def _do(self, *words):
        self._shell.stdin.write(" ".join(map(str, words)) + "\n")
        answer = self._shell.stdout.readline().strip()
        if answer != "done":
            raise LabError(f"{' '.join(map(str, words))}: {answer or 'mesh.sh ended'}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._shell.stdin.close()  # it removes everything, then ends
        self._shell.wait()


def cpu_times():
    fields = list(map(int, Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]))
    return fields[3] + fields[4], sum(fields)


class Job:
    """Runs a command as the ranks of a job on all hosts, and knows how much CPU was idle meanwhile."""

    def __init__(self, mesh, tutti):
        self.mesh, self.tutti = mesh, tutti
        self.idle = []

    def run(self, *arguments, seconds=120, **environment):
        """What rank 0 prints."""
        common = dict(os.environ, TUTTI_SIZE=str(len(self.mesh.hosts)), TUTTI_ADDRESS="198.18.0.1:29400",
                      TUTTI_INTERFACES="mesh", TUTTI_SECRET=secrets.token_hex(16),
                      TUTTI_SPIN_US="0", TUTTI_YIELD_US="0",  # cores are the network, too
                      **environment)
        before = cpu_times()
        ranks = []
        for rank, host in enumerate(self.mesh.hosts):
            own = dict(common, TUTTI_RANK=str(rank), TUTTI_HOST_ID=host)
            ranks.append(subprocess.Popen(["ip", "netns", "exec", host, str(self.tutti), *map(str, arguments)], env=own,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        try:
            deadline = time.monotonic() + seconds
            said = [rank.communicate(timeout=max(1, deadline - time.monotonic())) for rank in ranks]
        except subprocess.TimeoutExpired:
            raise LabError(f"{' '.join(map(str, arguments))}: not done after {seconds} s") from None
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()
                    rank.wait()
        for rank, process in enumerate(ranks):
            if process.returncode != 0:
                raise LabError(f"{' '.join(map(str, arguments))}: rank {rank}: {said[rank][1].strip()[-300:]}")
        after = cpu_times()
        self.idle.append(100 * (after[0] - before[0]) / max(1, after[1] - before[1]))
        return said[0][0]


class Results:
    def __init__(self):
        self.rows = []

    def add(self, what, unit, measured, bar, at_least):
        met = measured >= bar if at_least else measured <= bar
        self.rows.append({"what": what, "unit": unit, "measured": round(measured, 3), "bar": bar, "met": met})

    def print(self):
        print(f"\n{'':86} {'unit':>8} {'measured':>9} {'bar':>6}  met")
        for row in self.rows:
            print(f"{row['what']:86} {row['unit']:>8} {row['measured']:9.3g} {row['bar']:6g}  "
                  f"{'yes' if row['met'] else 'NO'}")


def bytes_of(text):
    return int(float(text.rstrip("KMG")) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1], 1))


class Lab:
    def __init__(self, arguments, job, folder, results):
        self.tutti, self.job, self.folder, self.results = job.tutti, job, folder, results
        self.sizes, self.rounds = arguments.sizes.split(","), arguments.rounds
        self.given, self.seconds = arguments.programs, arguments.time
        self.topology = arguments.topology or folder / "measured.json"
        self.times = {}  # (collective, size, name) -> seconds of each round
        self.programs = {}  # the same -> the file

    def measure(self):
        raw = json.loads(self.job.run("topo", "measure", "--json", "-o", self.topology, "--time", self.seconds,
                                      seconds=4 * self.seconds + 30))
        text = json.loads(self.topology.read_text(encoding="utf-8"))
        print(f"measured, MB/s (shaped to {PORT} Mb/s out of a host; payload of what was shaped, error of what was measured)")
        kinds = {}
        for pair in raw["pairs"]:
            kinds.setdefault(kind_of(pair["from"], pair["to"]), []).append(
                (slope(pair["one_way"]), shaped_rate(pair["from"], pair["to"]) * PAYLOAD / 8))
        worst = 0
        for kind, rates in kinds.items():
            errors = [100 * (rate / truth - 1) for rate, truth in rates]
            worst = max(worst, *map(abs, errors))
            print(f"  {kind:24} {len(rates):3} pairs  shaped {rates[0][1]:7.3f}  median {statistics.median(r for r, _ in rates):7.3f}"
                  f"  error {min(errors):+5.1f} % to {max(errors):+5.1f} %")
        ports = [t["together_MBps"] for t in raw["together"] if t["shared"] == "egress" and len(t["flows"]) == RANKS - 1]
        errors = [100 * (rate / (PORT * PAYLOAD / 8) - 1) for rate in ports]
        if ports:
            print(f"  {'egress port':24} {len(ports):3} ranks  shaped {PORT * PAYLOAD / 8:7.3f}  median {statistics.median(ports):7.3f}"
                  f"  error {min(errors):+5.1f} % to {max(errors):+5.1f} %")
            worst = max(worst, *map(abs, errors))
        print(f"  {len(text['vertices'])} vertices, {len(text['links'])} links; idle CPU {self.job.idle[-1]:.0f} %")
        self.results.add("rates of pairs and ports measured, worst error", "percent", worst, 10, at_least=False)


def kind_of(a, b):
    if a % 2 == b % 2:
        return "slow pair of an island" if (min(a, b), max(a, b)) == SLOW_INSIDE else "inside an island"
    return "between islands, fast" if (min(a, b), max(a, b)) in FAST_BETWEEN else "between islands, slow"


def slope(times):
    """MB/s of the two largest messages."""
    small, large = times[-2], times[-1]
    return (large["bytes"] - small["bytes"]) / (large["us"] - small["us"])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run")
    parser.add_argument("--sizes", default="256K,1M", help="bytes of vectors")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--time", type=float, default=60, help="seconds for measuring")
    parser.add_argument("--topology", type=Path, help="use this file instead of measuring")
    parser.add_argument("--programs", type=Path, help="use this folder of `tutti synth` instead of synthesizing")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"--only {','.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    return arguments


def main():
    arguments = parse_arguments()
    folder = arguments.build / "bench"
    folder.mkdir(exist_ok=True)
    results = Results()
    with Mesh(RANKS) as mesh:
        lab = Lab(arguments, Job(mesh, arguments.build / "bin/tutti"), folder, results)
        for part in arguments.only.split(","):
            getattr(lab, part)()
    results.print()
    (folder / "synthesis-lab.json").write_text(json.dumps(results.rows, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["met"] for row in results.rows) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        print(f"synthesis_lab: {error}", file=sys.stderr)
        sys.exit(1)
