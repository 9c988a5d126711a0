#!/usr/bin/env python3
"""A job of real processes with a rank that is late: status names it at every look, what it costs adds up, and all others
are seen to wait for it.

straggler_test.py TUTTI TRAINING_RANK RANKS COLLECTIVES COMPUTE_MS DELAY_MS"""
import json
import os
import subprocess
import sys
import tempfile
import time

TUTTI, RANK = sys.argv[1:3]
RANKS, COLLECTIVES, COMPUTE, DELAY = (int(each) for each in sys.argv[3:7])
LATE = RANKS - 1
LOOKS = 10


def look(folder):
    done = subprocess.run([TUTTI, "status", "--json", "--dir", folder], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


def world(status):
    return [each for job in status["jobs"] for each in job["communicators"] if each["name"] == "training"][0]


def check_sums(ranks):
    """Waiting by rank adds up to all waiting, and that is within the time in operations. While a rank waits, what is
    pending counts by rank and not yet in the sum."""
    for rank in ranks:
        by_rank = sum(each["seconds"] for each in rank["waited_for"])
        pending = sum(each["waited_seconds"] for each in rank["pending"])
        assert abs(by_rank - pending - rank["waited_seconds"]) < 0.05, rank
        assert rank["waited_seconds"] <= rank["seconds"] * 1.001, rank


def check_shares(before, after, seconds):
    """All others wait for about as long as the rank is late; it waits for less, whatever else the cores do."""
    cost = DELAY / (COMPUTE + DELAY) * seconds
    waited = {rank["rank"]: rank["waited_seconds"] - was["waited_seconds"]
              for was, rank in zip(before["ranks"], after["ranks"])}
    least = min(of_rank for rank, of_rank in waited.items() if rank != LATE)
    assert least > 0.6 * cost, f"a rank waited for {least:.2f} s only, of {cost:.2f}"
    assert waited[LATE] < 0.75 * least, f"the late rank waited for {waited[LATE]:.2f} s, another for {least:.2f}"


def watch(folder):
    """Until status has named the late rank at LOOKS looks in a row. It names no other one, at any time; other work on the
    cores may hide a small delay for a while."""
    end, in_a_row = time.monotonic() + 60, 0
    while in_a_row < LOOKS:
        time.sleep(0.3)  # the distance of the looks, not a wait for something
        status = look(folder)
        there = world(status) if status["jobs"] else None
        named = [each["rank"] for each in there["stragglers"]] if there else []
        assert named in ([], [LATE]), f"named: {named}"
        assert time.monotonic() < end, f"rank {LATE} is named {in_a_row} times in a row only: {there}"
        in_a_row = in_a_row + 1 if named else 0
        if in_a_row == 1:
            first, begun = there, time.monotonic()
        if named:
            texts = [each["text"] for each in status["findings"]]
            assert any(f"rank {LATE} came last, and cost the others" in text for text in texts), texts
    last = world(look(folder))
    print(texts)
    check_sums(last["ranks"])
    check_shares(first, last, time.monotonic() - begun)


def main():
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti_test.") as folder:
        job = subprocess.Popen(
            [TUTTI, "run", "-n", str(RANKS), "--", RANK, str(COLLECTIVES), str(COMPUTE), str(DELAY), str(LATE), "60"],
            env={**os.environ, "TUTTI_MONITOR_DIR": folder})
        try:
            watch(folder)
            assert job.poll() is None, "the job ended by itself"
        finally:
            job.terminate()
            job.wait(20)


main()
