#!/usr/bin/env python3
"""Synthesized programs on a network that is uneven on purpose: eight hosts as network namespaces, a rank each, whose
every pair has a rate of its own. Two islands of four, joined by a few fast connections and many slow ones; one pair
inside an island is slow; ranks are interleaved over the islands, as a scheduler that knows nothing would place them.
Rates sum to less than two cores can carry, and idle CPU is shown. Needs root.

  synthesis_lab.py BUILD [--only measure,race,simulate] [--sizes 512K,1M] [--rounds 3] [--programs DIR]

measure   `tutti topo measure` in the job, against what was shaped
race      the synthesized all_reduce and all_gather against a ring in rank order and every built-in algorithm, in turn,
          round after round; medians
simulate  `tutti simulate` on the measured topology against the least times of the race

Prints tables and writes BUILD/bench/synthesis-lab.json: rows of what, unit, measured, bar, met.
"""

import argparse
import json
import os
import resource
import secrets
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

PARTS = ("measure", "race", "simulate")
RANKS = 8
# kb/s. Slow enough for two cores to carry eight ranks and have time left: what is to be seen is the network.
PORT, INSIDE, FEW, MANY, SLOW = 50000, 25000, 12500, 2500, 2500
FAST_BETWEEN = {(0, 1), (4, 5)}  # pairs of different islands with the rate FEW; the others have MANY
SLOW_INSIDE = (0, 2)
TILE = 128 << 10  # of the engine, at most, where ranks are 8 hosts (engine/execution.cc)
# Of built-in algorithms: what is large is not released until the receiver has it all, which holds reductions up, and
# goes out whole in the simulator where ports of hosts mix packets. None is slower with it than without.
BUILTIN_TILE = 16 << 10
RING_BAR, BUILTIN_BAR, SIMULATION_BAR = 3, 1.3, 10
SYNTHESIZED = "synthesized"
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


def payload(rate):
    """MB/s that users see of what the shaper counts, headers and all, in kb/s."""
    return rate / 8000 * 1448 / 1514


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
            self._do("shape", host, PORT, *(shaped_rate(host, to) for to in range(ranks)))

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


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Job:
    """Runs a command as the ranks of a job on all hosts, and knows how much CPU was idle meanwhile."""

    def __init__(self, mesh, tutti):
        self.mesh, self.tutti = mesh, tutti
        self.idle, self.used = [], []  # percent of all cores; seconds of the ranks for each second of each core

    def run(self, *arguments, seconds=120, **environment):
        """What rank 0 prints."""
        common = dict(os.environ, TUTTI_SIZE=str(len(self.mesh.hosts)), TUTTI_ADDRESS="198.18.0.1:29400",
                      TUTTI_INTERFACES="mesh", TUTTI_SECRET=secrets.token_hex(16),
                      TUTTI_SPIN_US="0", TUTTI_YIELD_US="0",  # cores are the network, too
                      TUTTI_TCP_LANES="1",  # a pair has one path
                      **environment)
        before, began, worked = cpu_times(), time.monotonic(), children_seconds()
        ranks = []
        for rank, host in enumerate(self.mesh.hosts):
            own = dict(common, TUTTI_RANK=str(rank), TUTTI_HOST_ID=host)
            # Before other work on the machine: hosts have cores of their own.
            command = ["nice", "-n", "-15", "ip", "netns", "exec", host, str(self.tutti), *map(str, arguments)]
            ranks.append(subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
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
        self.used.append((children_seconds() - worked) / (time.monotonic() - began) / os.cpu_count())
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
        self.programs, self.seconds = arguments.programs, arguments.time
        self.topology = arguments.topology or folder / "measured.json"
        self.within = arguments.within
        # (collective, size, name) -> seconds; the least, for the simulator: other work on the machine only ever adds.
        self.times = {}

    def measure(self):
        raw = json.loads(self.job.run("topo", "measure", "--json", "-o", self.topology, "--time", self.seconds,
                                      seconds=4 * self.seconds + 30))
        kinds = {}  # what -> measured and shaped, MB/s
        for pair in raw["pairs"]:
            ends = pair["from"], pair["to"]
            kinds.setdefault(kind_of(*ends), []).append((pair["MBps"], payload(shaped_rate(*ends))))
        for together in raw["together"]:
            if together["shared"] == "egress" and len(together["flows"]) == RANKS - 1:
                kinds.setdefault("egress port", []).append((together["together_MBps"], payload(PORT)))
        print("MB/s of payload, as shaped and as measured")
        worst = 0
        for kind, rates in kinds.items():
            errors = [100 * (rate / shaped - 1) for rate, shaped in rates]
            worst = max(worst, *map(abs, errors))
            middle = statistics.median(rate for rate, _ in rates)
            print(f"  {kind:24} {len(rates):3} of  {rates[0][1]:7.3f} {middle:7.3f}"
                  f"  error {min(errors):+5.1f} % to {max(errors):+5.1f} %")
        written = json.loads(self.topology.read_text(encoding="utf-8"))
        print(f"  {len(written['vertices'])} vertices, {len(written['links'])} links;"
              f" idle CPU {self.job.idle[-1]:.0f} %, used by the ranks {100 * self.job.used[-1]:.0f} %")
        what = "rates of pairs and ports measured, worst error"
        self.results.add(what, "percent", worst, self.within, at_least=False)

    def tell(self, *arguments):
        """What the command says, outside the job; nothing where it fails."""
        done = subprocess.run([self.tutti, *map(str, arguments)], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None

    def candidates(self, collective, size):
        """Name and program file, or None for a built-in algorithm."""
        found = {name: None for name in BUILTINS if self.predicted(collective, size, name) is not None}
        self.programs = self.programs or self.synthesize()
        report = json.loads((self.programs / "report.json").read_text(encoding="utf-8"))
        for row in report["rows"]:
            if row["collective"] == collective and row["bytes"] == bytes_of(size):
                found[SYNTHESIZED] = self.programs / row["program"]
        if SYNTHESIZED not in found:
            raise LabError(f"{self.programs}/report.json has no {collective} of {size}")
        return found

    def synthesize(self):
        folder = self.folder / "synthesized"
        shutil.rmtree(folder, ignore_errors=True)
        said = subprocess.run([self.tutti, "synth", "--topology", self.topology, "--collective", ",".join(COLLECTIVES),
                               "--size", ",".join(self.sizes), "--time", "10", "-o", folder],
                              capture_output=True, text=True)
        if said.returncode != 0:
            raise LabError(f"tutti synth: {said.stderr.strip()[-300:]}")
        return folder

    def race(self):
        for collective in COLLECTIVES:
            for size in self.sizes:
                self.race_one(collective, size)
        print(f"\nidle CPU while they ran: {statistics.median(self.job.idle):.0f} % (median), {min(self.job.idle):.0f} %"
              f" (least); the ranks used {100 * statistics.median(self.job.used):.0f} % of {os.cpu_count()} cores")

    def race_one(self, collective, size):
        runners = self.candidates(collective, size)
        times = {name: [] for name in runners}
        for number in range(self.rounds):
            for name, program in runners.items():
                times[name] += self.bench(collective, size, name, program, checks=1 if number == 0 else 0)
        medians = {name: statistics.median(each) for name, each in times.items()}
        best = min((name for name in medians if name != SYNTHESIZED), key=medians.get)
        ours = medians[SYNTHESIZED]
        print(f"\n{collective} of {size}: milliseconds, median of {2 * self.rounds}")
        for name in sorted(medians, key=medians.get):
            print(f"  {name:20} {1e3 * medians[name]:9.1f}  {medians[name] / ours:6.2f} times the synthesized")
        for name, each in times.items():
            self.times[collective, size, name] = min(each)
        self.results.add(f"{collective} of {size}: ring in rank order over synthesized", "times",
                         medians["ring"] / ours, RING_BAR, at_least=True)
        self.results.add(f"{collective} of {size}: best built-in ({best}) over synthesized", "times",
                         medians[best] / ours, BUILTIN_BAR, at_least=True)

    def bench(self, collective, size, name, program, checks):
        """Seconds of a call on the slowest rank, out of place and in place."""
        output = self.folder / "lab-bench.json"
        expected = self.predicted(collective, size, name, program) or 1
        calls = int(max(1, min(10, 1.5 / expected)))
        how = ["--program", program] if program else []
        rules = {} if program else {"TUTTI_SELECT": f"{collective}:*:{name}@{BUILTIN_TILE}"}
        self.job.run("bench", collective, "-b", size, "-e", size, "-n", calls, "-w", min(3, calls), "-c", checks, "-J",
                     output, *how, **rules)
        row = json.loads(output.read_text(encoding="utf-8"))["results"][0]
        halves = [row["out_of_place"], row["in_place"]]
        for half in halves:
            if checks and half["nwrong"] != 0:
                raise LabError(f"{name}: {half['nwrong']} wrong elements")
        return [half["time"] / 1e6 for half in halves]

    def predicted(self, collective, size, name, program=None):
        """Seconds by the simulator; None where it cannot run."""
        own = json.loads(program.read_text(encoding="utf-8")).get("tile", TILE) if program else BUILTIN_TILE
        what = [program] if program else [name, "--collective", collective]
        what += ["--tile", min(TILE, bytes_of(str(own)))]
        said = self.tell("simulate", *what, "--topology", self.topology, "--size", size, "--json")
        return json.loads(said)[0]["simulated_us"] / 1e6 if said else None

    def simulate(self):
        if not self.times:
            raise LabError("simulate needs the times of a race: --only race,simulate")
        print("\nsimulated against measured, milliseconds")
        errors = []
        for (collective, size, name), seconds in self.times.items():
            program = self.candidates(collective, size)[name]
            simulated = self.predicted(collective, size, name, program)
            errors.append(100 * (simulated / seconds - 1))
            print(f"  {collective:11} {size:>5} {name:20} {1e3 * simulated:9.1f} {1e3 * seconds:9.1f}"
                  f" {errors[-1]:+6.1f} %")
        for what, value in (("worst", max(map(abs, errors))), ("median", statistics.median(map(abs, errors)))):
            self.results.add(f"simulator against {len(errors)} measured runs, {what} error", "percent", value,
                             SIMULATION_BAR, at_least=False)


def kind_of(a, b):
    if a % 2 == b % 2:
        return "slow pair of an island" if (min(a, b), max(a, b)) == SLOW_INSIDE else "inside an island"
    return "between islands, fast" if (min(a, b), max(a, b)) in FAST_BETWEEN else "between islands, slow"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run")
    parser.add_argument("--sizes", default="512K,1M", help="bytes of vectors")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time", type=float, default=90, help="seconds for measuring")
    parser.add_argument("--within", type=float, default=10, help="percent that measured rates may be off")
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
    sys.stdout.reconfigure(line_buffering=True)
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
