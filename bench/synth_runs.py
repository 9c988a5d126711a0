"""Runs of `tutti synth`, `simulate`, `topo` and `program` as processes, one after the other: what they answered, and
what they took (wall clock, processor time, peak memory), by the kernel's own account of the process."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
# Bars are in GB/s and GB as vendors count.
GIGA = 1e9
MOST_RANKS_TO_CHECK = 80


class Failed(Exception):
    """A command that did not do what it was asked for; the message is what it said."""


@dataclass
class Machine:
    """A topology as the commands name it."""

    topology: str
    nodes: int = 0
    ranks: int = 0
    sketch: str = ""

    @property
    def name(self):
        stem = Path(self.topology).stem.replace("topo-", "")
        name = f"{stem} x{self.nodes}" if self.nodes else stem.replace("torus2d:", "torus ")
        return f"{name}, {Path(self.sketch).stem}" if self.sketch else name

    def options(self):
        return ["--topology", self.topology, *self.extent(), *(["--sketch", self.sketch] if self.sketch else [])]

    def extent(self):
        return ["--nodes", str(self.nodes)] if self.nodes else []


@dataclass
class Cost:
    wall: float
    cpu: float  # user and system
    peak: float  # bytes

    def best(self, other):
        return Cost(min(self.wall, other.wall), min(self.cpu, other.cpu), max(self.peak, other.peak))


@dataclass
class Outcome:
    """What `tutti synth` wrote."""

    machine: Machine
    folder: Path
    cost: Cost
    rows: list  # of report.json

    def row(self, size):
        return next(row for row in self.rows if row["bytes"] == size)


@dataclass
class Tally:
    """What was checked again, by commands that share nothing with the search."""

    right: int = 0
    wrong: list = field(default_factory=list)


class Runs:
    def __init__(self, build, repeats):
        self.tutti = build / "bin/tutti"
        self.repeats = repeats
        self.folder = Path(tempfile.mkdtemp(prefix="tutti-synth-"))
        self.certificates, self.programs = Tally(), Tally()
        self.notes = []

    def close(self):
        shutil.rmtree(self.folder)

    def run(self, *arguments):
        """Its output, and its cost."""
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            begin = time.monotonic()
            process = subprocess.Popen([self.tutti, *arguments], stdout=output, stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.monotonic() - begin
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0), errors.seek(0)
            if process.returncode != 0:
                raise Failed((errors.read().strip().splitlines() or [f"exit status {process.returncode}"])[-1])
            return output.read(), Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * KB)

    def synth(self, machine, collective, sizes, timed=False, options=()):
        """Synthesizes, several times where time counts, and has everything it wrote checked again."""
        folder = self.folder / f"{machine.name} {collective} {' '.join(options)}".replace(" ", "_").replace("/", "_")
        command = ["synth", *machine.options(), "--collective", collective, "--quiet", "-o", str(folder), "--size",
                   ",".join(str(size) for size in sizes), *options]
        cost = None
        for _ in range(self.repeats if timed else 1):
            once = self.run(*command)[1]
            cost = cost.best(once) if cost else once
        rows = json.loads((folder / "report.json").read_text())["rows"]
        outcome = Outcome(machine, folder, cost, rows)
        self.check(outcome)
        return outcome

    def check(self, outcome):
        topology = outcome.folder / "topology.json"
        for certificate in sorted((outcome.folder / "bounds").iterdir()):
            self.judge(self.certificates, outcome, "topo", "check", certificate, topology)
        if outcome.rows[0]["ranks"] <= MOST_RANKS_TO_CHECK:
            for program in sorted({row["program"] for row in outcome.rows} - {""}):
                self.judge(self.programs, outcome, "program", "check", outcome.folder / program)

    def judge(self, tally, outcome, *command):
        try:
            self.run(*map(str, command))
            tally.right += 1
        except Failed as failure:
            tally.wrong.append(f"{outcome.machine.name}, {command[2].name}: {failure}")

    def simulate(self, program, machine, collective, sizes):
        """Seconds by size; None where the program does not exist for this collective or topology."""
        try:
            text, _ = self.run("simulate", program, *machine.options(), "--collective", collective, "--json", "--size",
                               ",".join(str(size) for size in sizes))
        except Failed:
            return None
        return {row["bytes"]: row["simulated_us"] / 1e6 for row in json.loads(text)}
