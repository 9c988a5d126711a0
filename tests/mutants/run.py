#!/usr/bin/env python3
"""Tests of the tests: seeds each fault of a suite into a copy of its file, links the suite's tests with it, and runs
them until one fails. Prints a table; fails if a mutant survives, or its text is gone from the file.

  tests/mutants/run.py BUILD [--suite links|defects|jobs] [--only TEXT] [--jobs N] [--seeds N]
  tests/mutants/run.py BUILD --apply     only checks that the texts of all suites are still in their files

BUILD is a Ninja build with the tests in it: everything but the files that a mutant changes is taken from there.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import job_mutants
import link_mutants

SOURCES = Path(__file__).resolve().parents[2] / "src"
RUNS = 3000  # of lane_failures_test
SEEDS = 10000  # of job_simulation
SOUND_SEEDS = 500  # of the same, without a mutant
FIRST_SEED = 1_000_000  # not those on which the simulation itself runs in `make test`


class Test(NamedTuple):
    program: str
    limit: int = 30  # seconds of the CPU; one that hangs has noticed something. Others may use the machine, too
    latest: int = 150  # seconds


class Suite(NamedTuple):
    mutants: list
    sources: Path
    tests: tuple  # quick ones first


SIMULATION = Test("job_simulation", 3000, 3000)
SUITES = {
    "links": Suite(link_mutants.MUTANTS, SOURCES / "transport",
                   (Test("link_test"), Test("lane_cases_test"), Test("lane_failures_test"), Test("fake_lanes_test"),
                    Test("lane_orders_test"))),
    # What a review found is for the simulation to find.
    "defects": Suite(job_mutants.DEFECTS, SOURCES, (SIMULATION,)),
    "jobs": Suite(job_mutants.MUTANTS, SOURCES, (Test("agreement_test"), SIMULATION, Test("control_test", 100, 600))),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--suite", choices=SUITES, default="links")
    parser.add_argument("--apply", action="store_true", help="run nothing: does each mutant apply?")
    parser.add_argument("--only", default="", help="mutants with this text in what they break")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (2)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"simulated jobs at most for a mutant ({SEEDS})")
    return parser.parse_args()


def count_of_text(edit, sources):
    return (sources / edit.file).read_text().count(edit.text)


def check_texts():
    """Prints the mutants of all suites that apply no more. Returns how many there are."""
    lost = 0
    for name, suite in SUITES.items():
        for mutant in suite.mutants:
            for edit in mutant.edits():
                if (count := count_of_text(edit, suite.sources)) != 1:
                    lost += 1
                    print(f"{name}: {mutant.breaks}: its text stands {count} times in {edit.file}")
    return lost


class Build:
    """How the build folder compiles and links, with some objects replaced."""

    def __init__(self, folder, suite):
        self.folder = folder.resolve()
        self.suite = suite
        commands = json.loads((self.folder / "compile_commands.json").read_text())
        self.compile_commands = {}
        for each in commands:  # the library's own comes first
            self.compile_commands.setdefault(each["file"], shlex.split(each["command"]))
        self.link_commands = {test.program: self.link_command(test.program) for test in suite.tests}

    def link_command(self, test):
        commands = subprocess.run(["ninja", "-t", "commands", f"bin/{test}"], cwd=self.folder, check=True,
                                  capture_output=True, text=True).stdout
        words = shlex.split(commands.splitlines()[-1])
        return words[words.index("&&") + 1:-2]  # ": && link && :"

    def sources_including(self, header):
        """The sources of the library that a changed header is compiled into."""
        dependencies = subprocess.run(["ninja", "-t", "deps"], cwd=self.folder, check=True, capture_output=True,
                                      text=True).stdout
        found = []
        for entry in dependencies.split("\n\n"):
            lines = [line.strip() for line in entry.splitlines()]
            paths = [str((self.folder / line).resolve()) for line in lines[1:]]
            if str(header) in paths and "CMakeFiles/tutti_" in lines[0] and paths[0].startswith(str(SOURCES)):
                found.append(paths[0])
        return sorted(set(found))

    def compile(self, original, source, folder, object_file):
        words = list(self.compile_commands[str(original)])
        words[words.index("-c") + 1] = str(source)
        words[words.index("-o") + 1] = str(object_file)
        self.call([words[0], *words[1:2], f"-I{folder}", *words[2:], "-O1", "-g0", "-w"])

    def link(self, test, replaced, program):
        """`replaced`: objects by the sources that they are compiled from."""
        # The linker takes the archive's members of the same names only for what is missing: nothing.
        own = tuple(f"/{Path(source).relative_to(SOURCES)}.o" for source in replaced)
        words = [word for word in self.link_commands[test] if not own or not word.endswith(own)]
        output = words.index("-o")
        words[output + 1] = str(program)
        words[output:output] = [str(each) for each in replaced.values()]
        self.call(words)

    def call(self, words):
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{shlex.join(words)}\n{done.stderr}")


def run_test(test, program, seeds):
    """Whether it passes, and what it printed."""
    environment = dict(os.environ, TUTTI_RUNS=str(RUNS), GTEST_FAIL_FAST="1")
    arguments = [str(program)]
    if test == SIMULATION:
        arguments += ["--first", str(FIRST_SEED), "--count", str(seeds), "--stop", "--jobs", "1"]
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as process:
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (test.limit, test.limit))
        try:
            said, _ = process.communicate(timeout=test.latest)
            return process.returncode == 0, said
        except subprocess.TimeoutExpired:
            process.kill()
            # Of simulated jobs one that hangs ends by itself: the machine was too slow.
            if test == SIMULATION:
                raise TimeoutError(f"no verdict within {test.latest} s") from None
            return False, ""


def first_failure(build, folder, replaced, seeds):
    """The test that fails, how long that took and what it said; None: all pass."""
    for test in build.suite.tests:
        program = folder / test.program
        build.link(test.program, replaced, program)
        start = time.monotonic()
        passed, said = run_test(test, program, seeds)
        if not passed:
            violation = next((line for line in said.splitlines() if line.startswith("seed ")), "")
            return test.program, time.monotonic() - start, violation
    return None


def build_mutant(build, mutant, folder):
    """The objects that replace the library's, by source."""
    compiled = {}
    for edit in mutant.edits():
        original = build.suite.sources / edit.file
        changed = folder / original.relative_to(SOURCES)
        text = (changed if changed.exists() else original).read_text()
        if text.count(edit.text) != 1:
            raise LookupError(f"its text stands {text.count(edit.text)} times in {edit.file}")
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_text(text.replace(edit.text, edit.replacement))
        for source in [str(original)] if edit.file.endswith(".cc") else build.sources_including(original):
            compiled[source] = None
    for number, original in enumerate(compiled):
        changed = folder / Path(original).relative_to(SOURCES)
        compiled[original] = folder / f"mutant{number}.o"
        build.compile(original, changed if changed.exists() else original, folder, compiled[original])
    return compiled


def try_mutant(build, mutant, seeds):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            replaced = build_mutant(build, mutant, folder)
            failure = first_failure(build, folder, replaced, seeds)
        except (LookupError, TimeoutError) as error:
            return False, str(error)
    if failure is None:
        return False, "SURVIVED"
    test, seconds, violation = failure
    return True, f"{test}, {seconds:.1f} s{': ' if violation else ''}{violation}"


def main():
    arguments = parse_arguments()
    if arguments.apply:
        return 1 if check_texts() else 0
    suite = SUITES[arguments.suite]
    build = Build(arguments.build, suite)
    chosen = [mutant for mutant in suite.mutants if arguments.only in mutant.breaks]
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(arguments.jobs) as pool:
        sound = pool.submit(first_failure, build, Path(name), {}, min(arguments.seeds, SOUND_SEEDS))
        bad = 0
        tries = pool.map(lambda each: try_mutant(build, each, arguments.seeds), chosen)
        for mutant, (caught, how) in zip(chosen, tries):
            bad += not caught
            print(f"{mutant.breaks:74} {how}", flush=True)
        if sound.result() is not None:
            print(f"{sound.result()[0]} fails without any mutant: the table means nothing")
            return 1
    print(f"{len(chosen) - bad} of {len(chosen)} mutants caught, {time.monotonic() - start:.0f} s")
    return 0 if bad == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
