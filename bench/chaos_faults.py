"""The faults of bench/chaos_schedule.py, done to a job: each begins, most end, and all are counted."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from chaos_schedule import RAILS
from lab import BusyLoops

MBIT = 400  # of a rail: two cores carry both with time to spare
STRANGER = Path(__file__).resolve().parent / "stranger.py"


class Faults:
    """`stranger`: the number of a host that is not the job's."""

    def __init__(self, rails, job, stranger):
        self._rails, self._job, self._stranger = rails, job, stranger
        self._active = []  # (when it ends, its kind, what ends it, when it began)
        self.counts = Counter()
        self.details = Counter()
        self.intervals = []  # (kind, begin, end)
        self._kinds = {
            "port down": self._port_down, "silent loss": self._silent_loss, "reset": self._reset,
            "reset in handshake": self._reset_in_handshake, "rate": self._rate, "stop": self._stop,
            "kill and join": self._kill, "strangers": self._strangers, "descriptor limit": self._descriptor_limit,
            "busy loops": self._busy_loops}

    def may_begin(self, kind):
        """Whether the job can bear it now; otherwise it comes later."""
        return kind not in ("kill and join", "descriptor limit") or self._job.is_whole()

    def begin(self, event):
        start = time.monotonic()
        end = self._kinds[event.kind](event.seconds, *event.words)
        if callable(end):
            self._active.append((start + event.seconds, event.kind, end, start))
        elif end:
            self.intervals.append((event.kind, start, time.monotonic()))
        else:
            return  # nothing was hit
        self.counts[event.kind] += 1

    def end_due(self):
        self._end([each for each in self._active if each[0] <= time.monotonic()])

    def end_all(self):
        self._end(list(self._active))

    def next_end(self):
        return min((each[0] for each in self._active), default=float("inf"))

    def limited(self, at):
        """Whether a rank was short of descriptors at this time, or a second before."""
        under_way = [(kind, start, float("inf")) for _, kind, _, start in self._active]
        return any(kind == "descriptor limit" and start <= at <= end + 1 for kind, start, end in self.intervals + under_way)

    def was_reset(self, at):
        """Whether connections were reset before this time: a meeting does not survive that, and a rank may hear of it only
        at its deadline (kGrowSeconds of chaos_rank)."""
        return any(kind.startswith("reset") and start <= at <= end + 10 for kind, start, end in self.intervals)

    def _end(self, chosen):
        for each in sorted(chosen, key=lambda each: each[0]):
            _, kind, end, start = each
            end()
            self._active.remove(each)
            self.intervals.append((kind, start, time.monotonic()))

    # Each below returns what ends it, or whether it hit something.

    def _port_down(self, _, host, rail):
        for each in self._rails_of(rail):
            self._rails.do("port_down", host, each)
        return lambda: [self._rails.do("port_up", host, each) for each in self._rails_of(rail)]

    def _silent_loss(self, _, host, rail, direction):
        for each in self._rails_of(rail):
            self._rails.do("silent_loss", host, each, direction)
        return lambda: [self._rails.do("heal", host, each) for each in self._rails_of(rail)]

    @staticmethod
    def _rails_of(rail):
        return range(RAILS) if rail == "both" else [rail]

    def _end_connections(self, host, source):
        """How many there were."""
        ended = subprocess.run(["ss", "-N", self._rails.hosts[host - 1], "-H", "-K", "-t", "state", "established", "src",
                                source], capture_output=True, text=True, check=True)
        count = len(ended.stdout.splitlines())
        self.details["connections reset"] += count
        return count

    def _reset(self, _, host, rail):
        return self._end_connections(host, "198.18.0.0/16" if rail == "all" else f"198.18.{rail}.{host}") > 0

    def _reset_in_handshake(self, _, host, *pauses):
        """Connections that are made after the first reset are reset again, within milliseconds."""
        again = 0
        self._end_connections(host, "198.18.0.0/16")
        for pause in pauses:
            time.sleep(pause / 1000)
            again += self._end_connections(host, "198.18.0.0/16")
        self.details["young connections reset"] += again
        return again > 0

    def _rate(self, _, host, rail, mbit):
        self._rails.do("rate", host, rail, mbit)
        return lambda: self._rails.do("rate", host, rail, MBIT)

    def _stop(self, seconds, rank):
        process = self._job.ranks[rank]
        if not process.is_running():
            return False

        def go_on():
            if process.is_running():
                os.kill(process.pid, signal.SIGCONT)

        os.kill(process.pid, signal.SIGSTOP)
        # On time, too, while the kernel takes seconds to change a port.
        timer = threading.Timer(seconds, go_on)
        timer.daemon = True
        timer.start()
        return go_on

    def _kill(self, _, rank):
        """Newcomers need descriptors, and so do those that take them in."""
        self._end([each for each in self._active if each[1] == "descriptor limit"])
        self._job.kill(rank)
        return True

    def _strangers(self, seconds, rate, seed):
        ports = self._job.ports()
        if not ports:
            return False
        self.details["ports flooded, most at once"] = max(self.details["ports flooded, most at once"], len(ports))
        stranger = subprocess.Popen(["ip", "netns", "exec", self._rails.hosts[self._stranger - 1], sys.executable,
                                     str(STRANGER), str(seed), str(seconds), str(rate), *ports], stdout=subprocess.PIPE,
                                    text=True)

        def end():
            try:
                made, _ = stranger.communicate(timeout=10)
                self.details["connections of strangers"] += int(made or 0)
            except subprocess.TimeoutExpired:
                stranger.kill()
                stranger.communicate()
        return end

    def _descriptor_limit(self, _, rank, more):
        process = self._job.ranks[rank]
        if not process.is_running():
            return False
        used = len(os.listdir(f"/proc/{process.pid}/fd"))
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (used + more, hard))
        return lambda: process.is_running() and resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)

    @staticmethod
    def _busy_loops(seconds, count):
        loops = BusyLoops(count, int(seconds) + 30)
        return lambda: loops.__exit__(None, None, None)
