"""Hosts with rails that can be broken (tests/labs/rails.sh), and a job of failover_rank on them, a rank per host.

Times are seconds of the monotonic clock, which all namespaces share.
"""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections import namedtuple
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "tests/labs/rails.sh"

Operation = namedtuple("Operation", "end bytes duration")


class LabError(Exception):
    pass


class Rails:
    """The hosts and switches, for as long as the context lasts. Needs root."""

    def __init__(self, hosts=2, rails=2):
        self.rails = rails
        self._shell = subprocess.Popen(["bash", str(SCRIPT), str(hosts), str(rails)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True, bufsize=1, start_new_session=True)
        self.hosts = []
        for line in self._shell.stdout:
            words = line.split()
            if words[0] == "ready":
                return
            if words[0] != "host":
                raise LabError(line.strip())
            self.hosts.append(words[2])
        raise LabError("rails.sh ended before the rails were ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._shell.stdin.close()  # it removes everything, then ends
        self._shell.wait()

    def do(self, *words):
        """Runs a function of rails.sh; the time just before it."""
        text = " ".join(map(str, words))
        start = time.monotonic()
        self._shell.stdin.write(text + "\n")
        answer = self._shell.stdout.readline().strip()
        if answer != "done":
            raise LabError(f"{text}: {answer or 'rails.sh ended'}")
        return start

    def mend(self, mbit):
        """All ports up and whole, at this rate."""
        for host in range(1, len(self.hosts) + 1):
            for rail in range(self.rails):
                self.do("port_up", host, rail)
                self.do("heal", host, rail)
                self.do("rate", host, rail, mbit)


class BusyLoops:
    """Processes that use all the time they get. Each ends by itself after `seconds`.

    Each has a session of its own, as other users' work has. In the session of the tests they share an autogroup with
    them, and then some kernels (seen on 6.18) let that group run for up to 29 s while ksoftirqd and RCU's threads wait:
    the network stands still, and so does `ip link set`."""

    def __init__(self, count, seconds=1800):
        self._loops = [subprocess.Popen(["timeout", str(seconds), "bash", "-c", "while :; do :; done"],
                                        start_new_session=True)
                       for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for loop in self._loops:
            loop.terminate()
            loop.wait()


class Log:
    """What one rank has written so far."""

    def __init__(self, path):
        self._path, self._file, self._rest = path, None, ""
        self.operations = []

    def read(self):
        if self._file is None and self._path.exists():
            self._file = open(self._path, encoding="ascii")
        lines = (self._rest + (self._file.read() if self._file else "")).split("\n")
        self._rest = lines.pop()
        for line in lines:
            end, size, duration = map(int, line.split())
            self.operations.append(Operation(end / 1e9, size, duration / 1e9))
        return self.operations

    def close(self):
        if self._file:
            self._file.close()


class Job:
    """A rank on each host. Left by an exception, the ranks are killed; else they are stopped, and must all say that
    every result was right."""

    def __init__(self, program, rails, options, seconds=600, sharing=1, environment=None):
        """`sharing`: so many ranks in a row count as one host, which shares memory."""
        self.rails = rails
        self._folder = Path(tempfile.mkdtemp(prefix="tutti-failover-", dir="/dev/shm"))
        self._stop = self._folder / "stop"
        self.logs, self._ranks, self._errors = [], [], []
        common = dict(os.environ, TUTTI_SIZE=str(len(rails.hosts)), TUTTI_ADDRESS="198.18.0.1:29400",
                      TUTTI_INTERFACES="rail", TUTTI_SECRET=secrets.token_hex(16))
        # Faults come one after the other here: each is to be the first.
        common.setdefault("TUTTI_LANE_HOLD", "0.2")
        common.update(environment or {})
        for rank, host in enumerate(rails.hosts):
            log, errors = self._folder / f"log{rank}", self._folder / f"errors{rank}"
            self.logs.append(Log(log))
            self._errors.append(errors)
            command = ["ip", "netns", "exec", host, str(program), "--seconds", str(seconds), "--stop-file",
                       str(self._stop), "--log", str(log), *map(str, options)]
            with open(errors, "w", encoding="utf-8") as file:
                own = dict(common, TUTTI_RANK=str(rank), TUTTI_HOST_ID=rails.hosts[rank - rank % sharing])
                self._ranks.append(subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL, stderr=file))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self._stop.touch()
                self._expect_right()
        finally:
            for rank in self._ranks:
                if rank.poll() is None:
                    rank.kill()
                    rank.wait()
            for log in self.logs:
                log.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _expect_right(self):
        for number, rank in enumerate(self._ranks):
            try:
                rank.wait(timeout=30)
            except subprocess.TimeoutExpired:
                raise LabError(f"rank {number} did not stop within 30 s") from None
            if rank.returncode != 0:
                raise LabError(self._why(number))

    def _why(self, number):
        said = [line for line in self._errors[number].read_text(encoding="utf-8").splitlines() if line.strip()]
        return f"rank {number} ended: {said[-1] if said else 'without a word'}"

    def expect_alive(self):
        for number, rank in enumerate(self._ranks):
            if rank.poll() is not None:
                raise LabError(self._why(number))

    def wait_until(self, condition, seconds):
        """Whether the condition came true; LabError when a rank has ended."""
        limit = time.monotonic() + seconds
        while not condition():
            self.expect_alive()
            if time.monotonic() > limit:
                return False
            time.sleep(0.002)
        return True

    def sleep_until(self, moment):
        self.expect_alive()
        time.sleep(max(0, moment - time.monotonic()))
        self.expect_alive()

    def wait_for_operations(self, since, seconds=20):
        """Until every rank has finished one that it began after `since`."""
        def all_did():
            last = [log.read()[-1:] for log in self.logs]
            return all(done and done[0].end - done[0].duration > since for done in last)
        if not self.wait_until(all_did, seconds):
            raise LabError(f"no operation was done for {seconds} s")

    def sent(self, rank=0):
        """Bytes that a rank's host has sent on each rail."""
        found = {}
        with open(f"/proc/{self._ranks[rank].pid}/net/dev", encoding="ascii") as file:
            for line in file:
                name, _, counters = line.partition(":")
                if name.strip().startswith("rail"):
                    found[int(name.strip()[4:])] = int(counters.split()[8])
        return [found[rail] for rail in sorted(found)]

    def said(self):
        """What all ranks have logged."""
        return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in self._errors)

    def stop_for(self, rank, seconds):
        """A rank's process stands still."""
        pid = self._ranks[rank].pid  # ip netns exec has become the rank
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)

    def carrying(self, seconds=0.02, least=20000):
        """The rails on which payload moves, looking for so long."""
        before = self.sent()
        time.sleep(seconds)
        return [rail for rail, (old, new) in enumerate(zip(before, self.sent())) if new - old > least]

    def wait_for_rail(self, rail, seconds):
        return self.wait_until(lambda: rail in self.carrying(), seconds)
