"""A job on hosts with two rails (lab.py), a rank each, that `tutti diagnose --watch` looks at; faults that come from
outside, and what is to be said of each.

Hosts are network namespaces of one machine, so one look reads the recordings of all of them.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections import namedtuple
from pathlib import Path

from lab import LabError

INTERVAL = 0.25  # seconds between looks
MBIT = 200       # of a rail: two cores carry all of them with time to spare
HOSTS = 8

# A verdict as it was told: seconds since 1970, class, and of each suspect the rank and the path.
Told = namedtuple("Told", "time fault suspects text")
# A verdict that is to come: its class may be one of several; the first suspect must be this one.
Expected = namedtuple("Expected", "classes rank path", defaults=(None, None))


def fits(told, expected):
    if told.fault not in expected.classes:
        return False
    first = told.suspects[0] if told.suspects else (None, None)
    return (expected.rank is None or first[0] == expected.rank) and \
        (expected.path is None or first[1] in (expected.path, None))


class LabJob:
    """Ranks that run a program, and a diagnosis, with recordings of their own. Ends with the context."""

    def __init__(self, build, rails, *program):
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti_bench.")
        self.folder = Path(self._folder.name)
        self.rails = rails
        common = dict(os.environ, TUTTI_MONITOR_DIR=str(self.folder / "recordings"), TUTTI_SIZE=str(len(rails.hosts)),
                      TUTTI_ADDRESS="198.18.0.1:29400", TUTTI_INTERFACES="rail", TUTTI_SECRET=secrets.token_hex(16))
        (self.folder / "recordings").mkdir(mode=0o700)
        self._watch = self._start(["tutti", "diagnose", "--watch", str(INTERVAL), "--json", "--record", "telemetry"],
                                  "verdicts", common, build)
        self.ranks, self.others = [], []
        for rank, host in enumerate(rails.hosts):
            own = dict(common, TUTTI_RANK=str(rank), TUTTI_HOST_ID=host)
            self.ranks.append(self._start(list(map(str, program)), f"rank{rank}", own, build, host))

    def _start(self, command, log, environment, build, host=None):
        program = [str(build / "bin" / command[0]), *command[1:]]
        if host:  # with a name of its own
            name = host.split("-")[-1]
            program = ["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c",
                       f'hostname {name}; exec "$@"', "sh", *program]
        with open(self.folder / log, "w", encoding="utf-8") as out, \
                open(self.folder / f"{log}.err", "w", encoding="utf-8") as errors:
            return subprocess.Popen(program, cwd=self.folder, env=environment, stdout=out, stderr=errors)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self._watch, *self.ranks, *self.others):
            process.terminate() if process in self.others else process.kill()
        for process in (self._watch, *self.ranks, *self.others):
            process.wait()
        self._folder.cleanup()

    def wait_until_ready(self, seconds=30):
        limit = time.monotonic() + seconds
        while self.said(0, "ready") is None:
            if time.monotonic() > limit or any(rank.poll() is not None for rank in self.ranks):
                errors = (self.folder / "rank0.err").read_text(encoding="utf-8")
                raise LabError("the job did not start: " + errors[-400:])
            time.sleep(0.02)

    def said(self, rank, word):
        """What follows a word that begins a line of the rank's output."""
        for line in (self.folder / f"rank{rank}").read_text(encoding="utf-8").splitlines():
            if line.split(" ")[0] == word:
                return line[len(word):].strip()
        return None

    def begin(self, rank):
        """The rank does from now on what its arguments say; when it first did so."""
        (self.folder / "begin").touch()
        limit = time.monotonic() + 10
        while not self.said(rank, "misbehaves"):
            if time.monotonic() > limit:
                raise LabError(f"rank {rank} did not go wrong")
            time.sleep(0.01)
        return float(self.said(rank, "misbehaves"))

    def signal(self, rank, number):
        start = time.time()
        os.kill(self.ranks[rank].pid, number)  # ip, unshare and sh have become the rank
        return start

    def told(self):
        """Verdicts that began so far."""
        lines = (self.folder / "verdicts").read_text(encoding="utf-8").splitlines(keepends=True)
        changes = [json.loads(line) for line in lines if line.endswith("\n")]
        return [Told(change["time"], change["verdict"]["class"],
                     [(suspect["rank"], suspect["path"]) for suspect in change["verdict"]["suspects"]],
                     change["verdict"]["text"])
                for change in changes if change["event"] == "began"]


class Fault:
    """`begin(job, rank, rail)` makes it and returns when; `expected(rank, rail)` is what must be said of it, in any
    order, `seconds` after it at the latest. `arguments`: of the rank that goes wrong by itself."""

    def __init__(self, name, seconds, begin, expected, arguments=None, companions=()):
        self.name, self.seconds, self.begin, self.expected = name, seconds, begin, expected
        self.arguments = arguments or (lambda rank: ())
        self.companions = companions  # classes that may be said besides, since they follow from it


def by_itself(fault, *more):
    return lambda rank: ("--fault", fault, "--rank", rank, *more)


def on_rails(job, what, rank, rail, *words):
    start = time.time()
    for each in (range(job.rails.rails) if rail is None else (rail,)):
        job.rails.do(what, rank + 1, each, *words)
    return start


def slow_everywhere(job, rail, mbit):
    start = time.time()
    for host in range(1, len(job.rails.hosts) + 1):
        job.rails.do("rate", host, rail, mbit)
    return start


def flap(job, rank, rail, times=8, seconds=0.7):
    """Down for a third of the time. Returns when it was down for the first time."""
    start = time.time()
    for _ in range(times):
        job.rails.do("port_down", rank + 1, rail)
        time.sleep(seconds / 3)
        job.rails.do("port_up", rank + 1, rail)
        time.sleep(2 * seconds / 3)
    return start


def starve(job, rank):
    """Other work on the one core that the rank may use."""
    core = str(max(os.sched_getaffinity(0)))
    subprocess.run(["taskset", "-a", "-p", "-c", core, str(job.ranks[rank].pid)], check=True, stdout=subprocess.DEVNULL)
    start = time.time()
    job.others += [subprocess.Popen(["taskset", "-c", core, "timeout", "60", "bash", "-c", "while :; do :; done"],
                                    start_new_session=True) for _ in range(6)]
    return start


def at_port(*classes):
    """One port of the rank's host."""
    return lambda rank, rail: [Expected(classes, rank, rail)]


def at_rank(*classes):
    return lambda rank, rail: [Expected(classes, rank)]


# Seconds are those of the goal table: a crash, a freeze, ...; where that counts steps, of 100 ms.
FAULTS = [
    Fault("crash", 0.5, lambda job, rank, rail: job.signal(rank, signal.SIGKILL), at_rank("crashed")),
    Fault("freeze", 2, lambda job, rank, rail: job.signal(rank, signal.SIGSTOP), at_rank("frozen")),
    Fault("never enters", 2.5, lambda job, rank, rail: job.begin(rank), at_rank("not_entered"), by_itself("sit-out")),
    Fault("wrong call", 1, lambda job, rank, rail: job.begin(rank), at_rank("mismatched_call"),
          by_itself("wrong-call")),
    Fault("host cut off", 2, lambda job, rank, rail: on_rails(job, "silent_loss", rank, None),
          at_rank("transfer_stuck", "path_down"), companions=("path_down", "transfer_stuck")),
    Fault("port at 1/3", 3, lambda job, rank, rail: on_rails(job, "rate", rank, rail, MBIT // 3),
          at_port("slow_sender", "slow_receiver")),
    Fault("host at 1/3", 3, lambda job, rank, rail: on_rails(job, "rate", rank, None, MBIT // 3),
          at_rank("slow_sender", "slow_receiver")),
    Fault("rail at 1/3", 3, lambda job, rank, rail: slow_everywhere(job, rail, MBIT // 3),
          lambda rank, rail: [Expected(("slow_path",), None, rail)]),
    Fault("port at 0.7", 30, lambda job, rank, rail: on_rails(job, "rate", rank, rail, MBIT * 7 // 10),
          at_port("slow_sender", "slow_receiver")),
    Fault("straggler 30 ms", 10, lambda job, rank, rail: job.begin(rank), at_rank("straggler"),
          by_itself("late", "--late", 30)),
    Fault("straggler 10 ms", 10, lambda job, rank, rail: job.begin(rank), at_rank("straggler"),
          by_itself("late", "--late", 10)),
    Fault("straggler, and port at 1/3", 30,
          lambda job, rank, rail: max(on_rails(job, "rate", (rank + 3) % HOSTS, rail, MBIT // 3), job.begin(rank)),
          lambda rank, rail: [Expected(("straggler",), rank),
                              Expected(("slow_sender", "slow_receiver"), (rank + 3) % HOSTS, rail)],
          by_itself("late", "--late", 30)),
    Fault("port down", 3, lambda job, rank, rail: on_rails(job, "port_down", rank, rail), at_port("path_down")),
    Fault("port silent", 3, lambda job, rank, rail: on_rails(job, "silent_loss", rank, rail), at_port("path_down")),
    Fault("port flaps", 7, flap, at_port("flapping"), companions=("path_down",)),
    Fault("no core", 10, lambda job, rank, rail: starve(job, rank), at_rank("starved")),
    Fault("nothing", 20, lambda job, rank, rail: time.time(), lambda rank, rail: []),
]


def run(build, rails, fault, random, keep):
    """One run, as a dictionary: when it was right, and what else was said. What was judged is kept as the file `keep` if
    that was not right."""
    rank, rail = random.randrange(len(rails.hosts)), random.randrange(rails.rails)
    rails.mend(MBIT)
    with LabJob(build, rails, "diagnosed_rank", "--training", "--step", "-1", *fault.arguments(rank)) as job:
        job.wait_until_ready()
        time.sleep(random.uniform(2, 3))  # in which it works
        before = job.told()
        cpu = cpu_times()
        start = fault.begin(job, rank, rail)
        open_ones = fault.expected(rank, rail)
        limit = time.time() + max(fault.seconds, 5) + 1 if open_ones else time.time() + fault.seconds
        right, wrong = [], [f"before it: {each.text}" for each in before]
        seen = len(before)
        while time.time() < limit and (open_ones or not fault.expected(rank, rail)):
            for each in job.told()[seen:]:
                seen += 1
                match = next((expected for expected in open_ones if fits(each, expected)), None)
                if match:
                    open_ones.remove(match)
                    right.append(each.time - start)
                elif each.fault not in fault.companions:
                    wrong.append(f"{each.fault}: {each.text}")
            time.sleep(0.05)
        idle = idle_share(cpu, cpu_times())
        if open_ones or wrong:
            shutil.copy(job.folder / "telemetry", keep)
    return {"rank": rank, "rail": rail, "seconds": None if open_ones else max(right, default=0), "right": len(right),
            "wrong": wrong, "idle": round(idle, 2)}


def cpu_times():
    with open("/proc/stat", encoding="ascii") as file:
        return list(map(int, file.readline().split()[1:]))


def idle_share(before, after):
    spent = [new - old for old, new in zip(before, after)]
    return (spent[3] + spent[4]) / max(1, sum(spent))
