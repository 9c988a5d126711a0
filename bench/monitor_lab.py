"""A job of monitor_rank on hosts with shaped rails (lab.py), what its recordings tell (monitor_follow), and changes of a
rail's rate at a known time. Times are seconds of the monotonic clock.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from lab import LabError

PACKET = 16384  # bytes that the kernel hands down at once, at most: with larger ones a small bucket costs too much CPU
SHAPE = "burst 32kb limit 256kb"


class Shaper:
    """Sets the rate at which a host sends on its rails. One tc, which obeys at once: starting one takes milliseconds."""

    def __init__(self, namespace, rails):
        self._tc = subprocess.Popen(["tc", "-n", namespace, "-batch", "-"], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True, bufsize=1)
        for rail in range(rails):
            subprocess.run(["ip", "-n", namespace, "link", "set", f"rail{rail}", "gso_max_size", str(PACKET)], check=True)
            subprocess.run(["tc", "-n", namespace, "qdisc", "replace", "dev", f"rail{rail}", "root", "tbf", "rate",
                            "1gbit", *SHAPE.split()], check=True)

    def set(self, rail, mbit):
        """When it was asked, and when it was seen to be so."""
        asked = time.monotonic()
        self._tc.stdin.write(f"qdisc change dev rail{rail} root tbf rate {mbit}mbit {SHAPE}\nqdisc show dev rail{rail}\n")
        if not self._tc.stdout.readline():
            raise LabError("tc ended")
        return asked, time.monotonic()

    def close(self):
        self._tc.stdin.close()
        self._tc.wait()


class Watched:
    """The ranks, one on each host, and what they record; for as long as the context lasts."""

    def __init__(self, build, rails, options=(), **environment):
        self._folder = Path(tempfile.mkdtemp(prefix="tutti-monitor-", dir="/dev/shm"))
        self._stop = self._folder / "stop"
        self.chunks, self.events = [], []
        common = dict(os.environ, TUTTI_SIZE=str(len(rails.hosts)), TUTTI_ADDRESS="198.18.0.1:29400",
                      TUTTI_INTERFACES="rail", TUTTI_SECRET=secrets.token_hex(16), TUTTI_MONITOR_DIR=str(self._folder),
                      TUTTI_SPIN_US="0", TUTTI_YIELD_US="0",  # cores are the network, too
                      **environment)
        self.ranks = []
        for rank, host in enumerate(rails.hosts):
            command = ["ip", "netns", "exec", host, str(build / "bin/monitor_rank"), "--stop-file", str(self._stop),
                       *map(str, options)]
            own = dict(common, TUTTI_RANK=str(rank), TUTTI_HOST_ID=host)
            self.ranks.append(subprocess.Popen(command, env=own))
        self._follower = subprocess.Popen([str(build / "bin/monitor_follow"), str(self._folder)], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self._follower.stdout:
            found = json.loads(line)
            (self.chunks if "chunk" in found else self.events).append(found)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self._stop.touch()
            for number, rank in enumerate(self.ranks):
                rank.send_signal(signal.SIGCONT)
                if rank.wait(timeout=30) != 0 and kind is None:
                    raise LabError(f"rank {number} failed")
        except subprocess.TimeoutExpired:
            raise LabError("a rank did not stop within 30 s") from None
        finally:
            for rank in self.ranks:
                if rank.poll() is None:
                    rank.kill()
                    rank.wait()
            self._follower.stdin.close()
            self._follower.wait()
            self._reader.join()
            shutil.rmtree(self._folder, ignore_errors=True)

    def sleep(self, seconds):
        time.sleep(seconds)
        for number, rank in enumerate(self.ranks):
            if rank.poll() is not None:
                raise LabError(f"rank {number} has ended")

    def await_operation(self):
        """Until rank 0 has begun another operation."""
        def latest():
            return max((chunk["operation"] for chunk in self.chunks[-64:] if chunk["pid"] == self.ranks[0].pid), default=-1)
        now, deadline = latest(), time.monotonic() + 5
        while latest() == now:
            if time.monotonic() > deadline:
                raise LabError("no operation began within 5 s")
            time.sleep(0.002)

    def events_of(self, rank, kinds, start, end):
        """What a rank has told of lanes, of a time that touches start to end."""
        pid = self.ranks[rank].pid
        return [event for event in list(self.events) if event["pid"] == pid and event["event"] in kinds and
                event["at"] >= start and event["began"] <= end]
