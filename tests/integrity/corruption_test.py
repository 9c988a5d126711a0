#!/usr/bin/env python3
"""Bits flipped above TCP, in real ranks: corruption_test.py TUTTI SUMMING_RANK FLIP_BITS CASE"""
import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TUTTI, RANK, FLIP_BITS, CASE = sys.argv[1:5]
BYTES = 2 << 20
PATIENCE = 60


class Job:
    """Two ranks that sum over TCP, while bits are flipped as `flips` says: name of a plan and "EVERY LIMIT"."""

    def __init__(self, checksum, flips, lanes=1):
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti_test.")
        self.work = Path(self.folder.name)
        (self.work / "flips").write_bytes(bytes(16))
        (self.work / "recordings").mkdir(mode=0o700)
        settings = {k: v for k, v in os.environ.items() if not k.startswith("TUTTI_")}
        settings |= {"TUTTI_SHM": "0", "TUTTI_TCP_LANES": str(lanes), "TUTTI_CHECKSUM": checksum,
                     "TUTTI_MONITOR_DIR": str(self.work / "recordings")}
        flipping = [f"LD_PRELOAD={FLIP_BITS}", f"TUTTI_TEST_FLIPS={self.work}/flips"]
        flipping += [f"TUTTI_TEST_FLIP_{name}={plan}" for name, plan in flips.items()]
        with (self.work / "said").open("wb") as said:
            self.process = subprocess.Popen([TUTTI, "run", "-n", "2", "env", *flipping, RANK, str(BYTES)], env=settings,
                                            cwd=self.work, stdout=said, stderr=subprocess.STDOUT)

    def said(self):
        return (self.work / "said").read_text()

    def flipped(self):
        """Chunks and headers."""
        return struct.unpack("QQ", (self.work / "flips").read_bytes())

    def look(self, command):
        """What the command says, as JSON."""
        shown = subprocess.run([TUTTI, command, "--json", "--dir", self.work / "recordings"], capture_output=True,
                               text=True, check=False)
        return json.loads(shown.stdout)

    def lanes(self):
        return [lane for process in self.look("status")["processes"] for lane in process["lanes"]]

    def verdicts(self):
        """Those on corruption. Lanes that are lost for it are told by nothing else; a busy machine may be slow."""
        all_of_them = [verdict for each in self.look("diagnose")["jobs"] for verdict in each["verdicts"]]
        classes = {verdict["class"] for verdict in all_of_them}
        assert "corrupted" in classes and not classes & {"flapping", "path_down"}, all_of_them
        return [verdict for verdict in all_of_them if verdict["class"] == "corrupted"]

    def found(self):
        return sum(lane["corrupted_chunks"] for lane in self.lanes())

    def wait_for(self, what, is_so):
        end = time.monotonic() + PATIENCE
        while not is_so():
            assert self.process.poll() is None, f"the job ended before {what}: {self.said()}"
            assert time.monotonic() < end, f"{what} takes too long: {self.flipped()} flipped; {self.said()}"
            time.sleep(0.05)

    def stop(self):
        """The elements that were wrong, by what both ranks say."""
        (self.work / "stop").touch()
        self.process.wait(PATIENCE)
        counts = [int(line.split()[-1]) for line in self.said().splitlines() if " wrong " in line]
        assert len(counts) == 2, self.said()
        return sum(counts)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.folder.cleanup()


@contextlib.contextmanager
def running(*arguments, **options):
    job = Job(*arguments, **options)
    try:
        yield job
    finally:
        job.end()


def finds_every_flip():
    """1,000 bits in payloads, one lane: each is found, the lane stays, and results are right."""
    with running("all", {"CHUNKS": "3 1000"}) as job:
        job.wait_for("1,000 flips", lambda: job.flipped()[0] == 1000)
        job.wait_for("all being found", lambda: job.found() >= 1000)
        lanes = job.lanes()
        assert job.found() == 1000, [lane["corrupted_chunks"] for lane in lanes]
        assert sum(lane["returned_chunks"] for lane in lanes) == 1000, lanes
        assert all(lane["epoch"] == 1 for lane in lanes), "no lane was lost"
        assert all(lane["checked_chunks"] > lane["corrupted_chunks"] for lane in lanes), lanes
        verdicts = job.verdicts()
        assert sum(verdict["evidence"]["chunks"] for verdict in verdicts) == 1000, verdicts
        assert job.stop() == 0, job.said()
        assert "came corrupted" in job.said(), job.said()


def survives_corrupted_headers():
    """Bits in headers: the only lane is given up and connected again, and results are right."""
    with running("sampled", {"HEADERS": "40 20"}) as job:
        job.wait_for("20 flips", lambda: job.flipped()[1] == 20)
        job.wait_for("all being found", lambda: job.found() >= 20)
        job.verdicts()
        assert job.stop() == 0, job.said()
        assert "the header of a frame came corrupted" in job.said(), job.said()


def holds_down_a_lane_that_corrupts():
    """Two lanes: those that corrupt again and again are given up, beside the other, and results are right."""
    with running("all", {"CHUNKS": "10 200"}, lanes=2) as job:
        job.wait_for("200 flips", lambda: job.flipped()[0] == 200)
        job.wait_for("a lane being given up", lambda: any(lane["epoch"] > 1 for lane in job.lanes()))
        job.verdicts()
        assert job.stop() == 0, job.said()


def is_wrong_unchecked():
    """The same flips without checksums: nobody notices, and results are wrong. So the flips are real."""
    with running("off", {"CHUNKS": "3 100"}) as job:
        job.wait_for("100 flips", lambda: job.flipped()[0] == 100)
        assert job.found() == 0
        assert job.stop() > 0, job.said()


def refuses_unknown_setting():
    with running("some", {}) as job:
        assert job.process.wait(PATIENCE) != 0
        assert "TUTTI_CHECKSUM='some' is neither off, sampled nor all" in job.said(), job.said()


globals()[CASE]()
