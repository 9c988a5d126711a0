#!/usr/bin/env python3
"""What checksums of chunks cost, and what they find: ranks of two processes over TCP on one host. Prints a table and
writes BUILD/bench/checksum.json.

Cost: three jobs of two ranks on the same two cores, alike but for TUTTI_CHECKSUM, run blocks of all_reduce of 2 MB in
turn, off sampled all all sampled off; each such six is a pair for `sampled` and one for `all`. Jobs are started anew for
every set. A row's `measured` is the mean over sets of the median difference within a set, in percent of the time, `low`
and `high` its 95 % interval; a target is missed only where `low` lies above it.

Found: bits are flipped in what readv() delivers, one per chunk at most (tests/integrity/flip_bits.c): 1,000 where every
chunk is checked, SAMPLED_FLIPS where one in 64 is.

  bench/checksum.py BUILD [--quick] [--sets N] [--pairs N] [--only cost,found]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from monitor_costs import MB, Job, interval

MODES = ("off", "sampled", "all")
TARGETS = {"sampled": 0.5, "all": 10.0}  # percent
BLOCK_SECONDS = 0.02
SAMPLED_FLIPS = 6400
SAMPLE = 64
PATIENCE = 60  # seconds


def differences(jobs, pairs):
    """Relative cost of each mode but off, one value for each pair."""
    calls = 3
    for _ in range(2):
        calls = max(1, int(BLOCK_SECONDS * calls / (jobs["off"].run(2 * MB, calls) * calls)))
    found = {mode: [] for mode in TARGETS}
    for _ in range(pairs):
        times = {mode: 0.0 for mode in MODES}
        for mode in (*MODES, *reversed(MODES)):
            times[mode] += jobs[mode].run(2 * MB, calls)
        for mode, costs in found.items():
            costs.append(100 * (times[mode] / times["off"] - 1))
    return found


def measure_cost(arguments):
    sets = {mode: [] for mode in TARGETS}
    for number in range(arguments.sets):
        settings = {"TUTTI_SHM": "0", "TUTTI_SECRET": "what checksums cost"}
        jobs = {mode: Job(arguments.build, settings | {"TUTTI_CHECKSUM": mode}, arguments.port + i)
                for i, mode in enumerate(MODES)}
        for mode, costs in differences(jobs, arguments.pairs).items():
            sets[mode].append(statistics.median(costs))
        for job in jobs.values():
            job.end()
        print(f"[{number + 1}/{arguments.sets}] " + "  ".join(f"{mode} {values[-1]:+.2f} %"
                                                             for mode, values in sets.items()), file=sys.stderr)
    rows = []
    for mode, target in TARGETS.items():
        mean, low, high = interval(sets[mode])
        rows.append({"what": f"all_reduce of 2 MB, 2 ranks, TCP: {mode} against off", "unit": "% time",
                     "measured": round(mean, 3), "low": round(low, 3), "high": round(high, 3), "target": target,
                     "met": low <= target})
    return rows


def corrupted_chunks(build, folder):
    shown = subprocess.run([build / "bin/tutti", "status", "--json", "--dir", folder], capture_output=True, text=True,
                           check=False)
    return sum(lane["corrupted_chunks"] for process in json.loads(shown.stdout)["processes"] for lane in process["lanes"])


def count_found(build, mode, flips):
    """How many of so many flips were found, and how many elements of results were wrong."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti_test.") as name:
        work = Path(name)
        (work / "flips").write_bytes(bytes(16))
        recordings = work / "recordings"
        recordings.mkdir(mode=0o700)
        settings = {k: v for k, v in os.environ.items() if not k.startswith("TUTTI_")}
        settings |= {"TUTTI_SHM": "0", "TUTTI_TCP_LANES": "1", "TUTTI_CHECKSUM": mode,
                     "TUTTI_MONITOR_DIR": str(recordings), "TUTTI_LOG": "error"}
        flipping = [f"LD_PRELOAD={build.resolve()}/lib/libflip_bits.so", f"TUTTI_TEST_FLIPS={work}/flips",
                    f"TUTTI_TEST_FLIP_CHUNKS=3 {flips}"]
        ranks = subprocess.Popen([build.resolve() / "bin/tutti", "run", "-n", "2", "env", *flipping,
                                  build.resolve() / "bin/summing_rank", str(2 * MB)], env=settings, cwd=work,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        end = time.monotonic() + PATIENCE
        while int.from_bytes((work / "flips").read_bytes()[:8], "little") < flips and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.5)  # the last one may be on its way
        found = corrupted_chunks(build, recordings)
        (work / "stop").touch()
        said, _ = ranks.communicate(timeout=PATIENCE)
        return found, sum(int(line.split()[-1]) for line in said.splitlines() if " wrong " in line)


def measure_found(build):
    found, wrong = count_found(build, "all", 1000)
    share, _ = count_found(build, "sampled", SAMPLED_FLIPS)
    expected = SAMPLED_FLIPS / SAMPLE
    return [{"what": "1,000 bits flipped above TCP, every chunk checked: found", "unit": "flips", "measured": found,
             "target": 1000, "met": found == 1000},
            {"what": "wrong elements in the results of that job", "unit": "elements", "measured": wrong, "target": 0,
             "met": wrong == 0},
            {"what": f"{SAMPLED_FLIPS:,} bits flipped, one chunk in {SAMPLE} checked: found / expected", "unit": "ratio",
             "measured": round(share / expected, 3), "target": 1.0, "met": abs(share / expected - 1) < 0.4}]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="2 sets of 5 pairs")
    parser.add_argument("--sets", type=int)
    parser.add_argument("--pairs", type=int, help="in a set")
    parser.add_argument("--only", default="cost,found", help="parts")
    parser.add_argument("--port", type=int, default=29881)
    arguments = parser.parse_args()
    arguments.sets = arguments.sets or (2 if arguments.quick else 10)
    arguments.pairs = arguments.pairs or (5 if arguments.quick else 40)
    parts = arguments.only.split(",")
    rows = measure_cost(arguments) if "cost" in parts else []
    rows += measure_found(arguments.build) if "found" in parts else []
    for row in rows:
        interval_text = f" ({row['low']} to {row['high']})" if "low" in row else ""
        print(f"{row['what']:72} {row['measured']:9}{interval_text:20} {row['unit']:9} {row['target']:6}  "
              f"{'yes' if row['met'] else 'NO'}")
    path = arguments.build / "bench/checksum.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"\ntargets: {sum(row['met'] for row in rows)} of {len(rows)} met; {path}")


if __name__ == "__main__":
    main()
