"""The job that bench/chaos.py disturbs: ranks of chaos_rank on hosts of lab.Rails, what they have written, and newcomers
in the place of those that were killed. See tests/labs/chaos_rank/chaos_rank.cc for the lines of their journals."""

import os
import secrets
import subprocess
import time
from collections import namedtuple

HEARTBEAT = 15  # seconds; beside busy loops the kernel may take seconds to end a silence

NOT_TAKEN_IN = 3  # kNotTakenIn of chaos_rank

Line = namedtuple("Line", "at word text")


class Journal:
    """What one process has written so far."""

    def __init__(self, path):
        self._path, self._file, self._rest = path, None, ""
        self.lines = []
        self.last = {}  # the last line of each word

    def read(self):
        """The lines that are new."""
        if self._file is None:
            if not self._path.exists():
                return []
            self._file = open(self._path, encoding="utf-8", errors="replace")
        lines = (self._rest + self._file.read()).split("\n")
        self._rest = lines.pop()
        new = []
        for line in lines:
            at, word, *text = line.split(" ", 2)
            new.append(Line(int(at) / 1e9, word, text[0] if text else ""))
        self.lines += new
        self.last.update({line.word: line for line in new})
        return new

    def last_number(self, word, index):
        """A number of the last line with this word; -1 where there is none."""
        return int(self.last[word].text.split()[index]) if word in self.last else -1

    def close(self):
        if self._file:
            self._file.close()


class Process:
    """One process of the job: the first of a rank, or one that joined in its place."""

    def __init__(self, rank, number, popen, journal, errors):
        self.rank, self.number, self.popen, self.journal, self.errors = rank, number, popen, journal, errors
        self.killed_at = None
        self.name = f"rank {rank}" + (f", replacement {number}" if number else "")

    @property
    def pid(self):
        return self.popen.pid  # ip netns exec has become the rank

    def is_running(self):
        """Otherwise its number may be another process's."""
        return self.popen.poll() is None

    def said(self):
        lines = [line for line in self.errors.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "without a word"


class Job:
    """All processes. Left, it kills those that still run."""

    def __init__(self, program, rails, hosts, seed, folder):
        self._program, self._rails, self._hosts, self._seed, self.folder = program, rails, hosts, seed, folder
        self._common = dict(os.environ, TUTTI_SIZE=str(len(hosts)), TUTTI_ADDRESS="198.18.0.1:29400",
                            TUTTI_INTERFACES="rail", TUTTI_SECRET=secrets.token_hex(16),
                            TUTTI_HEARTBEAT_TIMEOUT=str(HEARTBEAT), TUTTI_LANE_HOLD="0.5",
                            TUTTI_MONITOR_DIR=f"/dev/shm/tutti-chaos-{os.getpid()}", TUTTI_LOG="info")
        self.all = []
        self.ranks = {}  # the process that is the rank now
        self.recoveries = 0  # newcomers started
        self.measures = 0
        for rank in range(len(hosts)):
            self._start(rank)

    def _start(self, rank, *options):
        number = sum(each.rank == rank for each in self.all)
        name = f"rank{rank}.{number}"
        host = self._rails.hosts[self._hosts[rank] - 1]
        journal, errors = self.folder / f"{name}.journal", self.folder / f"{name}.errors"
        command = ["ip", "netns", "exec", host, str(self._program), "--seed", str(self._seed), "--folder",
                   str(self.folder), "--journal", str(journal), "--size", str(len(self._hosts)), *options]
        own = dict(self._common, TUTTI_RANK=str(rank), TUTTI_HOST_ID=host)
        with open(errors, "w", encoding="utf-8") as file:
            popen = subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL, stderr=file)
        process = Process(rank, number, popen, Journal(journal), errors)
        self.all.append(process)
        self.ranks[rank] = process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.all:
            if process.is_running():
                process.popen.kill()  # also one that is stopped
                process.popen.wait()
            process.journal.close()
        subprocess.run(["rm", "-rf", self._common["TUTTI_MONITOR_DIR"]], check=False)

    def read(self):
        """The lines that are new, as (process, line)."""
        return [(process, line) for process in self.all for line in process.journal.read()]

    def kill(self, rank):
        process = self.ranks[rank]
        process.killed_at = time.monotonic()
        process.popen.kill()
        process.popen.wait()

    def admit(self):
        """Starts a newcomer where the ranks have invited one since the last. One that was not taken in is lost."""
        invited = [int(path.suffix[1:]) for path in self.folder.glob("invite.*") if path.suffix != ".new"]
        if max(invited, default=0) <= self.recoveries:
            return
        self.recoveries = max(invited)
        for rank, process in self.ranks.items():
            if process.number and not process.killed_at and "whole" not in process.journal.last:
                self.kill(rank)
            if self.ranks[rank].killed_at:
                self._start(rank, "--join", str(self.folder / f"invite.{self.recoveries}"), "--wish", str(rank))
                return

    def is_whole(self):
        """Every rank is there and has said so since the last kill."""
        return all(not process.killed_at and process.journal.last_number("whole", 1) == self.recoveries
                   for process in self.ranks.values())

    def ended(self):
        """Processes that ended though nobody killed them, as text. A newcomer may leave if it was not taken in."""
        for process in self.ranks.values():
            if not process.killed_at and process.popen.poll() == NOT_TAKEN_IN:
                process.killed_at = time.monotonic()
        return [f"{process.name} ended with {process.popen.returncode}: {process.said()}" for process in self.all
                if not process.killed_at and process.popen.poll() is not None]

    def ask_to_measure(self):
        """The number under which all ranks will write what they hold."""
        (self.folder / f"measure.{self.measures}").touch()
        self.measures += 1
        return self.measures - 1

    def have_measured(self, number):
        return all(process.journal.last_number("measured", 0) == number for process in self.ranks.values())

    def ports(self):
        """Every address and port at which a rank listens."""
        found = set()
        for host in set(self._hosts):
            name = self._rails.hosts[host - 1]
            listed = subprocess.run(["ss", "-N", name, "-H", "-l", "-t", "-n"], capture_output=True, text=True, check=True)
            for line in listed.stdout.splitlines():
                address, _, port = line.split()[3].rpartition(":")
                if address in ("*", "0.0.0.0", "[::]"):
                    found |= {f"198.18.{rail}.{host}:{port}" for rail in range(self._rails.rails)}
                elif address.startswith("198.18."):
                    found.add(f"{address.split('%')[0]}:{port}")
        return sorted(found)
