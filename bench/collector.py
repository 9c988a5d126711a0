#!/usr/bin/env python3
"""What a collector takes that is fed by simulated agents: CPU time, memory and traffic, by what the job does.

bench/collector.py BUILD [--ranks N] [--seconds N]. Agents run on the same machine; their CPU time is not counted."""
import argparse
import json
import pathlib
import secrets
import socket
import subprocess
import sys
import tempfile
import time

STATES = {"still": "nothing moves", "moving": "all hosts move at each look", "hung": "a rank died, all others wait"}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def cpu_seconds(pid):
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) * 1e-9


def megabytes(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1000
    raise ValueError(field)


def measure(build, ranks, state, seconds):
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti_bench.") as folder:
        folder = pathlib.Path(folder)
        token, port, events = secrets.token_hex(16), free_port(), folder / "events"
        (folder / "token").write_text(token + "\n")
        with open(folder / "log", "w") as log:
            collector = subprocess.Popen([build / "bin/tutti", "collector", "--listen", f"127.0.0.1:{port}", "--token-file",
                                          folder / "token", "--events", events, "--store", folder / "db"], stderr=log)
        feed = subprocess.Popen([build / "bin/collector_feed", f"127.0.0.1:{port}", token, str(ranks), state,
                                 str(seconds + 60)], stdout=subprocess.PIPE, text=True)
        try:
            for line in feed.stdout:  # until all are connected, and some seconds more
                if json.loads(line)["connected"] == ranks // 8:
                    break
            else:
                sys.exit("the agents ended before all were connected")
            for _ in range(5):
                feed.stdout.readline()
            before = len(events.read_text().splitlines()) if events.exists() else 0
            begun, cpu, sent = time.monotonic(), cpu_seconds(collector.pid), 0
            for _ in range(seconds):
                sent += json.loads(feed.stdout.readline())["bytes"]
            elapsed = time.monotonic() - begun
            told = [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
            return {"state": state, "ranks": ranks, "hosts": ranks // 8,
                    "cpu_percent": 100 * (cpu_seconds(collector.pid) - cpu) / elapsed,
                    "memory_mb": megabytes(collector.pid, "VmRSS"), "peak_mb": megabytes(collector.pid, "VmHWM"),
                    "kb_per_second": sent / elapsed / 1000, "verdicts": [line["verdict"]["class"] for line in told if line["event"] == "began"],
                    "verdicts_later": len(told) - before}
        finally:
            for process in (feed, collector):
                process.kill()
                process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=10240)
    parser.add_argument("--seconds", type=int, default=20)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    rows = [measure(build, arguments.ranks, state, arguments.seconds) for state in STATES]
    print(f"{arguments.ranks} ranks on {arguments.ranks // 8} hosts, a collector on this machine")
    print("| what the job does | of a core | memory | at most | traffic | verdicts |\n|---|---:|---:|---:|---:|---|")
    for row in rows:
        print(f"| {STATES[row['state']]} | {row['cpu_percent']:.1f} % | {row['memory_mb']:.0f} MB | {row['peak_mb']:.0f} MB "
              f"| {row['kb_per_second']:.0f} kB/s | {', '.join(sorted(set(row['verdicts']))) or 'none'} |")
    out = build / "bench"
    out.mkdir(exist_ok=True)
    (out / "collector.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
