#!/usr/bin/env python3
"""The agent in trouble, beside a job of two ranks: its share of a core, the lines it logs, and what the job's all_reduce
loses while it runs against while it is stopped (SIGSTOP), in turn. Prints a table and writes
BUILD/bench/monitor_agent.json. A full disk needs root.

  bench/monitor_agent.py BUILD [--quick]
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from monitor_costs import MB, Job, interval

BLOCK_SECONDS = 0.05
MOST_CPU, MOST_LINES, MOST_LOST = 0.3, 10, 0.5  # % of a core, lines per minute, % of bandwidth


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


# Each state gives the agent's options, and what is to be done once it runs.
@contextlib.contextmanager
def healthy(_):
    yield [], lambda: None


@contextlib.contextmanager
def forward_away(_):
    yield ["--forward", f"127.0.0.1:{free_port()}"], lambda: None


@contextlib.contextmanager
def disk_full(folder):
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], check=True)
    try:
        with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(b"x" * 4096)
        yield ["--events", str(disk / "events"), "--textfile", str(disk / "metrics"), "--textfile-interval",
               "1"], lambda: None
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@contextlib.contextmanager
def scrapers_hang(_):
    """Twenty that connect and say half a request, or nothing."""
    port = free_port()
    with contextlib.ExitStack() as clients:
        def hang():
            for number in range(20):
                client = clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
                if number % 2:
                    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")

        yield ["--listen", f"127.0.0.1:{port}"], hang


STATES = {"all is well": healthy, "receiver of events away": forward_away, "disk full": disk_full,
          "scrapers hang": scrapers_hang}


class Agent:
    def __init__(self, build, folder, options):
        listen = [] if "--listen" in options else ["--listen", f"127.0.0.1:{free_port()}"]
        self.log = folder / "agent.log"
        self.process = subprocess.Popen([build / "bin/tutti", "agent", *listen, *options], stderr=self.log.open("w"),
                                        env=os.environ | {"TUTTI_MONITOR_DIR": str(folder)})
        time.sleep(0.5)  # it starts

    def cpu(self):
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) * 1e-9

    def lines(self):
        return len(self.log.read_text().splitlines())

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        self.process.wait(10)


def share_and_lines(agent, job, calls, seconds):
    """While the job works."""
    cpu, lines, begun = agent.cpu(), agent.lines(), time.monotonic()
    while time.monotonic() - begun < seconds:
        job.run(MB, calls)
    took = time.monotonic() - begun
    return 100 * (agent.cpu() - cpu) / took, (agent.lines() - lines) * 60 / took


def bandwidth_lost(agent, job, calls, pairs):
    """Per cent of the time of a call, and its interval."""
    lost = []
    for _ in range(pairs):
        times = []
        for number in (signal.SIGCONT, signal.SIGSTOP, signal.SIGSTOP, signal.SIGCONT):
            agent.signal(number)
            times.append(job.run(MB, calls))
        lost.append(100 * ((times[0] + times[3]) / (times[1] + times[2]) - 1))
    agent.signal(signal.SIGCONT)
    # The median of groups, so that a hiccup of the machine does not decide.
    groups = [statistics.median(lost[i::5]) for i in range(5)]
    return interval(groups)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--quick", action="store_true", help="5 s and 20 pairs of each state")
    arguments = parser.parse_args()
    seconds, pairs = (5, 20) if arguments.quick else (20, 60)
    rows = []
    for name, state in STATES.items():
        with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
            folder = Path(place)
            folder.chmod(0o700)
            job = Job(arguments.build, {"TUTTI_MONITOR_DIR": str(folder)}, free_port())
            calls = max(1, int(BLOCK_SECONDS / job.run(MB, 20)))
            with state(folder) as (options, begin):
                agent = Agent(arguments.build, folder, options)
                begin()
                share, lines = share_and_lines(agent, job, calls, seconds)
                mean, low, high = bandwidth_lost(agent, job, calls, pairs)
                agent.end()
            job.end()
        for what, unit, measured, bar, met in (
                ("agent's CPU", "% of a core", share, MOST_CPU, share <= MOST_CPU),
                ("lines logged", "a minute", lines, MOST_LINES, lines <= MOST_LINES),
                (f"bandwidth lost [{low:.2f}, {high:.2f}]", "%", mean, MOST_LOST, low <= MOST_LOST)):
            rows.append({"what": f"{name}: {what}", "unit": unit, "measured": round(measured, 3), "bar": bar, "met": met})
            print(f"{rows[-1]['what']:52} {measured:8.3f} {unit:12} bar {bar:5g} {'met' if met else 'MISSED'}", flush=True)
    target = arguments.build / "bench/monitor_agent.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(rows, indent=1) + "\n")
    print(target)


if __name__ == "__main__":
    main()
