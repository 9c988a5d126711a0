#!/usr/bin/env python3
"""Tests of the tests: seeds each fault of link_mutants.py into a copy of its file, links the tests of lanes and links
with it, and runs them until one fails. Prints a table; fails where a mutant survives, or its text is gone from the file.

  tests/mutants/run.py BUILD [--only TEXT] [--jobs N]

BUILD is a Ninja build with the tests in it: everything but the one file is taken from there.
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

from link_mutants import MUTANTS

SOURCES = Path(__file__).resolve().parents[2] / "src" / "transport"
TESTS = ("link_test", "lane_cases_test", "lane_failures_test", "fake_lanes_test", "lane_orders_test")  # quick ones first
RUNS = 3000  # of lane_failures_test
LIMIT = 30  # seconds of the CPU for a test; one that hangs has noticed something. Others may use the machine, too
LATEST = 150  # seconds


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--only", default="", help="mutants with this text in what they break")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (2)")
    return parser.parse_args()


class Build:
    """How the build folder compiles and links, with one object of the link module replaced."""

    def __init__(self, folder):
        self.folder = folder.resolve()
        commands = json.loads((self.folder / "compile_commands.json").read_text())
        self.compile_commands = {each["file"]: shlex.split(each["command"]) for each in commands}
        self.link_commands = {test: self.link_command(test) for test in TESTS}

    def link_command(self, test):
        commands = subprocess.run(["ninja", "-t", "commands", f"bin/{test}"], cwd=self.folder, check=True,
                                  capture_output=True, text=True).stdout
        words = shlex.split(commands.splitlines()[-1])
        return words[words.index("&&") + 1:-2]  # ": && link && :"

    def compile(self, file, source, object_file):
        words = list(self.compile_commands[str(SOURCES / file)])
        words[words.index("-c") + 1] = str(source)
        words[words.index("-o") + 1] = str(object_file)
        self.call([*words, "-O1", "-g0", "-w"])

    def link(self, test, object_file, program):
        # The linker takes the archive's member of the same name only for what is missing: nothing.
        words = list(self.link_commands[test])
        output = words.index("-o")
        words[output + 1] = str(program)
        if object_file:
            words.insert(output, str(object_file))
        self.call(words)

    def call(self, words):
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{shlex.join(words)}\n{done.stderr}")


def passes(program):
    environment = dict(os.environ, TUTTI_RUNS=str(RUNS), GTEST_FAIL_FAST="1")
    with subprocess.Popen([program], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (LIMIT, LIMIT))
        try:
            return process.wait(timeout=LATEST) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            return False


def first_failure(build, folder, object_file):
    """The test that fails and its seconds, or None."""
    for test in TESTS:
        program = folder / test
        build.link(test, object_file, program)
        start = time.monotonic()
        if not passes(program):
            return test, time.monotonic() - start
    return None


def try_mutant(build, mutant):
    text = (SOURCES / mutant.file).read_text()
    if text.count(mutant.text) != 1:
        return False, f"its text stands {text.count(mutant.text)} times in {mutant.file}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / mutant.file).write_text(text.replace(mutant.text, mutant.replacement))
        build.compile(mutant.file, folder / mutant.file, folder / "mutant.o")
        failure = first_failure(build, folder, folder / "mutant.o")
    if failure is None:
        return False, "SURVIVED"
    return True, f"{failure[0]}, {failure[1]:.1f} s"


def main():
    arguments = parse_arguments()
    build = Build(arguments.build)
    chosen = [mutant for mutant in MUTANTS if arguments.only in mutant.breaks]
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(arguments.jobs) as pool:
        sound = pool.submit(first_failure, build, Path(name), None)
        bad = 0
        for mutant, (caught, how) in zip(chosen, pool.map(lambda each: try_mutant(build, each), chosen)):
            bad += not caught
            print(f"{mutant.breaks:74} {how}", flush=True)
        if sound.result() is not None:
            print(f"{sound.result()[0]} fails without any mutant: the table means nothing")
            return 1
    print(f"{len(chosen) - bad} of {len(chosen)} mutants caught, {time.monotonic() - start:.0f} s")
    return 0 if bad == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
