#!/usr/bin/env python3
"""How long a job takes to start: 2, 16, 64, 256 and 1,024 processes on one machine, through tutti, Open MPI and MPICH
(these up to 256), in turn, round after round. Prints a table and writes BUILD/bench/startup.json (the targets) and
BUILD/bench/startup-rows.json (every run).

  bench/startup.py BUILD [--quick] [--sizes 2,16,...] [--libraries tutti,...] [--rounds N]

Two times are taken, with the same clock on all processes, each in runs of its own:

  create  All processes have been started and wait at a gate. From its opening until the last one has left its first
          barrier: Communicator::create_from_environment() and barrier(), or MPI_Init() and MPI_Barrier().
  launch  From the start of the launcher (tutti run, mpirun.openmpi, mpirun.mpich) until the last process has left its
          first barrier. Nobody waits for anybody but by the library.

All are confined to the same cores (--cores). SETTINGS says what each is told. The minimum over all rounds is what is
compared: whatever else the machine does only adds. Costs that fit the runs of 16, 64 and 256 processes go into an event
simulation (bench/startup/startup_simulation.cc), which predicts 1,024 processes, and then 100,000 ranks.
"""

import argparse
import json
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import startup_model
from launch import mpirun
from results import Results
from run import Progress

SIZES = (2, 16, 64, 256, 1024)
LARGEST_OF_PEERS = 256
LIBRARIES = ("tutti", "openmpi", "mpich")
MODES = ("create", "launch")
SETTINGS = {
    "tutti": "defaults",
    "openmpi": "--oversubscribe --bind-to none, pml ob1, btl vader and self, yield when idle",
    "mpich": "-bind-to none, ch4:ucx, shared memory, yield after every poll",
}
RATIO_TARGET = 0.7  # of the faster peer's time, at 256 processes

PAGE, TIMES = struct.Struct("IIqII"), struct.Struct("qqqqq")  # bench/startup/start.hpp


class StartError(Exception):
    pass


class Starter:
    """Starts one library's processes and returns how long that took."""

    def __init__(self, build, cores):
        self.build, self.cores = build, cores

    def available(self, library):
        return (self.build / f"bin/{library}_startup").exists() and (
            library == "tutti" or mpirun(self.build / "bin", library) is not None)

    def run(self, library, size, mode, timeout=120):
        with tempfile.NamedTemporaryFile(prefix="tutti-startup-", dir="/dev/shm") as page:
            page.truncate(PAGE.size + size * TIMES.size)
            environment = dict(os.environ, BENCH_START=page.name, BENCH_GATE="1" if mode == "create" else "0")
            command = self._command(library, size, environment)
            launched = time.monotonic_ns()
            self._wait(library, subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                                 stderr=subprocess.PIPE, text=True, start_new_session=True), timeout)
            over = time.monotonic_ns()
            data = Path(page.name).read_bytes()
        arrived, _, opened, _, _ = PAGE.unpack_from(data)
        times = list(TIMES.iter_unpack(data[PAGE.size:]))
        if arrived != size or min(each[3] for each in times) == 0:
            raise StartError(f"{library}: {arrived} of {size} processes came")
        begin = opened if mode == "create" else launched
        return {"library": library, "size": size, "mode": mode,
                "seconds": (max(each[3] for each in times) - begin) / 1e9,
                "created": (max(each[2] for each in times) - begin) / 1e9,
                "started": (max(each[0] for each in times) - launched) / 1e9,
                "cpu": sum(each[4] for each in times) / 1e9,
                "whole": (over - launched) / 1e9}

    def _command(self, library, size, environment):
        program = [str(self.build / f"bin/{library}_startup"), str(size)]
        if library == "tutti":
            command = [str(self.build / "bin/tutti"), "run", "-n", str(size), "--"]
        elif library == "openmpi":
            command = [mpirun(self.build / "bin", library), "-np", str(size), "--oversubscribe", "--bind-to", "none"]
            if os.geteuid() == 0:
                command.append("--allow-run-as-root")
            mca = {"pml": "ob1", "btl": "vader,self", "mpi_yield_when_idle": "1"}
            for name, value in mca.items():
                command += ["--mca", name, value]
        else:
            command = [mpirun(self.build / "bin", library), "-np", str(size), "-bind-to", "none"]
            environment.update(MPIR_CVAR_POLLS_BEFORE_YIELD="1", UCX_TLS="sm,self")
        return ["taskset", "-c", ",".join(map(str, self.cores)), *command, *program]

    @staticmethod
    def _wait(library, process, timeout):
        try:
            said = process.communicate(timeout=timeout)[1]
        except subprocess.TimeoutExpired:
            raise StartError(f"{library}: no end within {timeout:.0f} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)  # launchers end what they have started
                try:
                    process.communicate(timeout=5)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.communicate()
        if process.returncode != 0:
            lines = [line for line in said.splitlines() if line.strip()]
            raise StartError(f"{library}: exit {process.returncode}: {' / '.join(lines[:3])[:400]}")


def measure(starter, libraries, sizes, rounds):
    """Every library at every size in both modes, once a round. One that fails is named and left out from then on."""
    plan = [(size, library, mode) for size in sizes for library in libraries for mode in MODES
            if library == "tutti" or size <= LARGEST_OF_PEERS]
    progress = Progress(len(plan) * rounds)
    rows, broken = [], set()
    for number in range(rounds):
        for size, library, mode in plan:
            progress.step(f"round {number + 1} of {rounds}: {size} processes, {library}, {mode}")
            if (size, library) in broken:
                continue
            try:
                rows.append(dict(starter.run(library, size, mode), round=number))
            except StartError as error:
                broken.add((size, library))
                progress.note(f"bench: {size} processes: {error}")
    progress.end()
    return rows, progress


def best(rows, library, size, mode, value="seconds"):
    found = [row[value] for row in rows if (row["library"], row["size"], row["mode"]) == (library, size, mode)]
    return min(found) if found else None


def print_times(rows, sizes, libraries):
    print(f"\n{'':22}" + "".join(f"{library:>22}" for library in libraries) + f"{'ratio':>10}")
    print(f"{'seconds':22}" + f"{'min':>12}{'median':>10}" * len(libraries))
    for mode in MODES:
        for size in sizes:
            cells, minima = "", {}
            for library in libraries:
                found = [row["seconds"] for row in rows
                         if (row["library"], row["size"], row["mode"]) == (library, size, mode)]
                cells += f"{min(found):12.3f}{statistics.median(found):10.3f}" if found else f"{'-':>12}{'-':>10}"
                minima.update({library: min(found)} if found else {})
            peers = [value for library, value in minima.items() if library != "tutti"]
            ratio = f"{minima['tutti'] / min(peers):10.2f}" if peers and "tutti" in minima else ""
            print(f"{mode + ', ' + str(size):22}{cells}{ratio}")
    print("ratio: of tutti's minimum to that of the faster peer")
    for library in libraries:
        print(f"{library}: {SETTINGS[library]}")


def judge_peers(rows, results, size=LARGEST_OF_PEERS):
    for mode, what in (("create", "create and first barrier"), ("launch", "launcher, create and first barrier")):
        ours = best(rows, "tutti", size, mode)
        theirs = [value for value in (best(rows, peer, size, mode) for peer in LIBRARIES[1:]) if value]
        name = f"{size} processes, {what}, of the faster peer's time"
        if ours and theirs:
            results.add(name, "ratio", [ours / min(theirs)], RATIO_TARGET)
        else:
            results.add_failed(name, "ratio", RATIO_TARGET, "not measured")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", default="0,1", help="that all run on")
    arguments = parser.parse_args()
    starter = Starter(arguments.build, [int(core) for core in arguments.cores.split(",")])
    libraries = arguments.libraries.split(",")
    for library in list(libraries):
        if not starter.available(library):
            print(f"bench: no {library}_startup, or no launcher: {library} is left out", file=sys.stderr)
            libraries.remove(library)
    sizes = [int(size) for size in arguments.sizes.split(",")]
    rows, progress = measure(starter, libraries, sizes, 1 if arguments.quick else arguments.rounds)
    folder = arguments.build / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "startup-rows.json").write_text(json.dumps(rows, indent=1) + "\n")
    print_times(rows, sizes, libraries)
    results = Results(progress, width=84)
    judge_peers(rows, results)
    seconds = {size: best(rows, "tutti", size, "create") for size in sizes if best(rows, "tutti", size, "create")}
    startup_model.judge(arguments.build, seconds, len(starter.cores), results, not arguments.quick)
    results.print_and_write(folder / "startup.json")


if __name__ == "__main__":
    main()
