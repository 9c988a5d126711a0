#!/usr/bin/env python3
"""A collector and the agents of three hosts, each a network namespace with two ranks of one job, and what goes wrong.

collector_test.py TUTTI RANK WRITER CASE. RANK is diagnosed_rank, WRITER recording_writer. Exit status 77: skipped, with
a line that says what is missing. A failed test leaves what the collector and the agents logged on standard error."""
import contextlib
import http.server
import json
import os
import pathlib
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
import lab  # noqa: E402
from conditions import skip, wait_for  # noqa: E402

TUTTI, RANK, WRITER = map(os.path.abspath, sys.argv[1:4])
HOSTS, RANKS_OF_HOST = 3, 2
# Seconds that a verdict may take: a look, a judgement, and what these two cores do besides.
SOON = float(os.environ.get("TUTTI_TEST_COLLECTOR_SECONDS", "10"))


def make_rails():
    if os.geteuid() != 0:
        skip("needs root to make network namespaces; run it with sudo")
    try:
        return lab.Rails(hosts=HOSTS, rails=1)
    except lab.LabError as why:
        skip(str(why).removeprefix("skipped: "))


class Cluster:
    """The hosts with an agent each, a collector on the first, and a job."""

    def __init__(self, rails):
        self.rails = rails
        self.where = "198.18.0.1:9470"
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti_test.")
        self.folder = pathlib.Path(self._folder.name)
        self.token = self.folder / "token"
        self.token.write_text(secrets.token_hex(16) + "\n")
        self.events, self.store = self.folder / "events", self.folder / "verdicts.db"
        self.processes, self.logs = [], []

    def begin(self, job):
        """`job`: arguments of all ranks."""
        for host in range(HOSTS):
            (self.folder / f"recordings{host}").mkdir(mode=0o700)
        self.collector = self.start_collector()
        self.agents = [self.start_agent(host) for host in range(HOSTS)]
        secret = secrets.token_hex(16)
        self.ranks = [self.start_rank(rank, secret, job) for rank in range(HOSTS * RANKS_OF_HOST)]

    def start(self, host, name, command, environment=None):
        log = self.folder / f"{name}.{len(self.processes)}.log"
        self.logs.append(log)
        # Each host has a name of its own.
        wrapped = ["ip", "netns", "exec", self.rails.hosts[host], "unshare", "--uts", "sh", "-c",
                   f'hostname node{host}; exec "$@"', "sh", *map(str, command)]
        with log.open("w") as file:
            process = subprocess.Popen(wrapped, cwd=self.folder, stdout=file, stderr=subprocess.STDOUT,
                                       env={**os.environ, **(environment or {})})
        self.processes.append(process)
        process.log = log
        return process

    def start_collector(self):
        collector = self.start(0, "collector", [TUTTI, "collector", "--listen", self.where, "--token-file", self.token,
                                                "--events", self.events, "--store", self.store])
        wait_for("the collector", lambda: "collecting on" in collector.log.read_text())
        return collector

    def start_agent(self, host, token=None):
        return self.start(host, f"agent{host}",
                          [TUTTI, "agent", "--listen", "", "--collector", self.where, "--token-file", token or self.token],
                          {"TUTTI_MONITOR_DIR": str(self.folder / f"recordings{host}")})

    def start_rank(self, rank, secret, job):
        host = rank // RANKS_OF_HOST
        return self.start(host, f"rank{rank}", [RANK, *job], {
            "TUTTI_MONITOR_DIR": str(self.folder / f"recordings{host}"), "TUTTI_RANK": str(rank),
            "TUTTI_SIZE": str(HOSTS * RANKS_OF_HOST), "TUTTI_ADDRESS": "198.18.0.1:29400", "TUTTI_INTERFACES": "rail",
            "TUTTI_SECRET": secret, "TUTTI_HOST_ID": self.rails.hosts[host]})

    def ask(self, command, *options):
        """What a person sees who asks the collector, and the exit status."""
        done = subprocess.run(["ip", "netns", "exec", self.rails.hosts[1], TUTTI, command, "--collector", self.where,
                               "--token-file", str(self.token), *options], capture_output=True, text=True, timeout=30)
        assert done.returncode in (0, 1), done
        return done.stdout, done.returncode

    def wait_until_ready(self):
        """All ranks work, and the collector knows all of them."""
        wait_for("the job", lambda: "ready" in self.ranks[0].log.read_text(), 30)

        def known():
            jobs = json.loads(self.ask("status", "--json")[0])["jobs"]
            return len(jobs) == 1 and len(jobs[0]["processes"]) == len(self.ranks) and not jobs[0]["verdicts"]

        wait_for("the collector to know all ranks", known, 30)

    def told(self, event="began"):
        """Classes, first ranks and hosts of verdicts, in the order in which they were told."""
        if not self.events.exists():
            return []
        lines = [json.loads(line) for line in self.events.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [(line["verdict"]["class"], line["verdict"]["suspects"][0]["rank"], line["verdict"]["suspects"][0]["host"])
                for line in lines if line["event"] == event]

    def done(self):
        """Operations of the slowest rank."""
        return min(process["operations_done"] for process in
                   json.loads(self.ask("status", "--json")[0])["jobs"][0]["processes"])

    def expect_the_job_works(self):
        assert all(rank.poll() is None for rank in self.ranks), "a rank has ended"
        assert not any("failed" in rank.log.read_text() for rank in self.ranks)

    def warnings(self, process):
        return [line for line in process.log.read_text().splitlines() if " warn: " in line]

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self._folder.cleanup()


@contextlib.contextmanager
def cluster(*job):
    rails = make_rails()
    with rails:
        made = Cluster(rails)
        try:
            made.begin(job)
            made.wait_until_ready()
            yield made
        except BaseException:
            for log in made.logs:
                sys.stderr.write(f"== {log.name}\n{log.read_text()[-2000:]}\n")
            if made.events.exists():
                sys.stderr.write(f"== events\n{made.events.read_text()[-4000:]}\n")
            raise
        finally:
            made.close()


@contextlib.contextmanager
def takes(what, seconds):
    begun = time.monotonic()
    yield
    taken = time.monotonic() - begun
    print(f"{what}: {taken:.1f} s")
    assert taken < seconds, f"{what}: {taken:.1f} s; expected {seconds} s at most"


def stopped_rank():
    with cluster() as job:
        os.kill(job.ranks[3].pid, signal.SIGSTOP)
        with takes("a rank was stopped, and named", SOON):
            wait_for("the verdict", lambda: ("frozen", 3, "node1") in job.told(), SOON)
        text, status = job.ask("diagnose")
        assert status == 1 and "frozen: rank 3" in text and "on node1" in text, text
        text, status = job.ask("status")
        assert status == 1 and all(f"node{host}" in text for host in range(HOSTS)), text
        assert "is stopped" in text and "3 agents" in text, text
        assert "rank 3 (node1)" in text, f"nobody waits for rank 3:\n{text}"
        text, _ = job.ask("top", "--once", "--interval", "0.3")
        assert "done/s" in text and "node2" in text, text
        os.kill(job.ranks[3].pid, signal.SIGCONT)
        wait_for("the end of the verdict", lambda: ("frozen", 3, "node1") in job.told("ended"), SOON)
        assert [each for each in job.told() if each[0] not in ("frozen", "straggler", "starved")] == [], job.told()
        with contextlib.closing(sqlite3.connect(job.store)) as store:
            rows = store.execute("SELECT host, rank, ended > began FROM verdicts WHERE class = 'frozen'").fetchall()
        assert rows == [("node1", 3, 1)], rows
        job.expect_the_job_works()


def straggler():
    with cluster("--fault", "late", "--rank", "4", "--step", "-1", "--late", "40") as job:
        (job.folder / "begin").touch()
        with takes("a rank of another host was late, and named", 4 * SOON):
            wait_for("the verdict", lambda: ("straggler", 4, "node2") in job.told(), 4 * SOON)
        wrong = [each for each in job.told() if each[0] == "straggler" and each[1] != 4]
        assert not wrong, wrong


def agent_killed():
    with cluster() as job:
        before = job.done()
        job.agents[2].kill()
        job.agents[2].wait()
        with takes("an agent was killed, and its host is unobserved", SOON):
            wait_for("the verdict", lambda: ("unobserved", 4, "node2") in job.told(), SOON)
        text, _ = job.ask("status")
        assert "agent does not answer" in text and "does not answer" in text, text
        job.expect_the_job_works()
        # Those whose agents answer go on, and nobody is called dead.
        alive = wait_for("operations of ranks of other hosts", lambda: [
            each for each in json.loads(job.ask("status", "--json")[0])["jobs"][0]["processes"]
            if each["host"] != "node2" and each["operations_done"] > before])
        assert len(alive) == 4, alive
        assert {each[0] for each in job.told()} <= {"unobserved", "straggler", "starved"}, job.told()
        job.agents[2] = job.start_agent(2)
        with takes("the agent was started again, and its host is known", 5):
            wait_for("the end of the verdict", lambda: ("unobserved", 4, "node2") in job.told("ended"), 5)
        os.kill(job.ranks[5].pid, signal.SIGSTOP)
        wait_for("a verdict on that host", lambda: ("frozen", 5, "node2") in job.told(), SOON)
        job.expect_the_job_works()


def collector_killed():
    with cluster() as job:
        job.collector.kill()
        job.collector.wait()
        os.kill(job.ranks[1].pid, signal.SIGSTOP)
        time.sleep(3)  # agents look for the collector, with pauses that grow
        job.collector = job.start_collector()
        with takes("the collector was started again, and named a stopped rank", 5):
            wait_for("the verdict", lambda: ("frozen", 1, "node0") in job.told(), 5)
        os.kill(job.ranks[1].pid, signal.SIGCONT)
        wait_for("its end", lambda: ("frozen", 1, "node0") in job.told("ended"), SOON)
        assert not [each for each in job.told() if each[0] in ("crashed", "unobserved")], job.told()
        job.expect_the_job_works()


def wrong_token():
    with cluster() as job:
        (job.folder / "wrong").write_text("not the token of this collector\n")
        stranger = job.start_agent(1, job.folder / "wrong")
        wait_for("the collector to refuse it", lambda: len(job.warnings(job.collector)) >= 1)
        wait_for("the agent to say so", lambda: len(job.warnings(stranger)) >= 1)
        time.sleep(4)  # several attempts
        assert len(job.warnings(stranger)) == 1, job.warnings(stranger)
        assert job.token.read_text().strip() not in job.collector.log.read_text()
        # One line for each attempt at most, and attempts have pauses.
        assert 1 <= len(job.warnings(job.collector)) <= 6, job.warnings(job.collector)
        agents = json.loads(job.ask("status", "--json")[0])["agents"]
        assert len(agents) == HOSTS and all(agent["answers"] for agent in agents), agents


FLOOD = """
import os, socket, sys, time
held = []
while True:
    try:
        each = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1)
        each.send(os.urandom(len(held) % 300))
        held.append(each)
        if len(held) > 200:
            held.pop(0).close()
    except OSError:
        time.sleep(0.005)
"""


def flood():
    with cluster() as job:
        flooding = job.start(2, "flood", [sys.executable, "-c", FLOOD, *job.where.split(":")])
        time.sleep(2)
        assert flooding.poll() is None
        os.kill(job.ranks[2].pid, signal.SIGSTOP)
        with takes("a rank was stopped in a flood of garbage, and named", SOON):
            wait_for("the verdict", lambda: ("frozen", 2, "node1") in job.told(), SOON)
        # It is told of, though not each time.
        assert 1 <= len(job.warnings(job.collector)) <= 60, len(job.warnings(job.collector))
        assert not [each for each in job.told() if each[0] in ("crashed", "unobserved")], job.told()


class Hook(http.server.BaseHTTPRequestHandler):
    posted = []

    def do_POST(self):
        Hook.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Loopback:
    """A collector and an agent of this user, without namespaces. The secret of the user serves as a token."""

    def __init__(self, folder, stack, *options):
        self.environment, self.stack = {**os.environ, "TUTTI_MONITOR_DIR": folder}, stack
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.where = f"127.0.0.1:{listener.getsockname()[1]}"
        self.start(TUTTI, "collector", "--listen", self.where, *options)
        self.agent = self.start(TUTTI, "agent", "--listen", "", "--collector", self.where)

    def start(self, *command, **options):
        process = subprocess.Popen(command, env=self.environment, text=True, **options)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def agents(self):
        done = subprocess.run([TUTTI, "status", "--json", "--collector", self.where], capture_output=True, text=True)
        return [agent for agent in json.loads(done.stdout)["agents"] if agent["answers"]] if done.returncode == 0 else []


def webhook():
    """A process is killed, and a web server is told."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti_test.") as folder, contextlib.ExitStack() as stack:
        refused = subprocess.run([TUTTI, "collector", "--webhook", "https://alerts.example/"], capture_output=True, text=True)
        assert refused.returncode == 2 and "put a proxy" in refused.stderr, refused
        refused = subprocess.run([TUTTI, "collector", "--listen", "0.0.0.0:0"], capture_output=True, text=True)
        assert refused.returncode == 2 and "--token-file" in refused.stderr, refused
        server = stack.enter_context(http.server.HTTPServer(("127.0.0.1", 0), Hook))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        host = Loopback(folder, stack, "--webhook", f"http://127.0.0.1:{server.server_address[1]}/verdicts")
        writer = host.start(WRITER, folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert writer.stdout.readline() == "ready\n"
        writer.stdin.write("operations 20\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "ok\n"
        wait_for("the agent to tell of the job", lambda: [agent for agent in host.agents() if agent["jobs"]])
        writer.kill()
        [post] = wait_for("the post", lambda: list(Hook.posted), 20)
        assert post["event"] == "began" and post["verdict"]["class"] == "crashed", post
        assert post["verdict"]["suspects"][0]["pid"] == writer.pid, post


def idle():
    """Nothing happens: the agent of a collector stays as small as one without."""
    most = float(os.environ.get("TUTTI_TEST_AGENT_CPU", "0.003"))  # sanitizers make everything several times slower
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti_test.") as folder, contextlib.ExitStack() as stack:
        host = Loopback(folder, stack)
        wait_for("the agent", host.agents)

        def cpu_seconds():
            return int(pathlib.Path(f"/proc/{host.agent.pid}/schedstat").read_text().split()[0]) * 1e-9

        cpu, begun = cpu_seconds(), time.monotonic()
        time.sleep(5)
        share = (cpu_seconds() - cpu) / (time.monotonic() - begun)
        print(f"nothing happens: {100 * share:.3f} % of a core")
        assert share < most, f"the agent took {100 * share:.3f} % of a core; expected {100 * most} % at most"


CASES = [stopped_rank, straggler, agent_killed, collector_killed, wrong_token, flood, webhook, idle]

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[sys.argv[4]]()
