#!/usr/bin/env python3
"""Signals that end a process: those by which people and launchers end jobs leave a recording that says so and nothing
to worry about; the others are deaths. The process itself ends as it would without tutti.

endings_test.py TUTTI TRAINING_RANK"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

TUTTI, RANK = sys.argv[1:3]
TOLD = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


def look(folder):
    shown = subprocess.run([TUTTI, "status", "--json", "--dir", folder], capture_output=True, text=True, check=False)
    return shown.returncode, json.loads(shown.stdout)


def rank_of(status):
    return [rank for job in status["jobs"] for each in job["communicators"] for rank in each["ranks"]
            if each["name"] == "training"]


def status_after(number, folder, *arguments):
    """The exit status of a rank that gets the signal after it has worked for a moment."""
    settings = {"TUTTI_RANK": "0", "TUTTI_SIZE": "1", "TUTTI_ADDRESS": "127.0.0.1:1", "TUTTI_MONITOR_DIR": folder}
    # A shell that starts jobs in the background has them ignore SIGINT, and so may whoever runs this test.
    process = subprocess.Popen([RANK, "1", "1", "0", "0", "60", *arguments], env={**os.environ, **settings},
                               preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL) for each in TOLD])
    try:
        end = time.monotonic() + 20
        while not (ranks := rank_of(look(folder)[1])) or ranks[0]["done"] < 3:
            assert time.monotonic() < end and process.poll() is None, "the rank does not run"
            time.sleep(0.01)
        process.send_signal(number)
        return process.wait(20)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def ends_by(number, folder):
    ended = status_after(number, folder)
    assert ended == -number, f"{number.name}: the process ended with {ended}"
    code, status = look(folder)
    rank = rank_of(status)[0]
    told = number in TOLD
    assert rank["told_to_end"] == (int(number) if told else None), rank["told_to_end"]
    assert rank["ended"] == told and code == (0 if told else 1), (number, code, status["findings"])
    text = subprocess.run([TUTTI, "status", "--dir", folder], capture_output=True, text=True, check=False).stdout
    assert (f"was ended by {number.name}" if told else "was killed") in text, text


for each in (*sorted(TOLD), signal.SIGKILL, signal.SIGSEGV):
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti_test.") as place:
        ends_by(each, place)

# A handler that the program sets later, and that calls the one before it: the program ends its step, in order.
with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti_test.") as place:
    chained = status_after(signal.SIGINT, place, "chain")
    assert chained == 0, f"a rank with a handler of its own ended with {chained}"
    assert look(place)[0] == 0 and not rank_of(look(place)[1]), "it left in order, and its recording with it"
