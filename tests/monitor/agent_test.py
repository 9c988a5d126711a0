#!/usr/bin/env python3
"""The agent as a process, with what it meets: a real Prometheus, scrapers that hang, receivers that are away, full disks.

agent_test.py TUTTI WRITER DEPLOY CASE. Exit status 77: skipped, with a line that says what is missing.
A failed test leaves what the agent logged on standard error."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from conditions import skip, wait_for

TUTTI, WRITER, DEPLOY = sys.argv[1:4]
# The bar is 0.3 % of a core; sanitizers make everything several times slower.
MOST_CPU = float(os.environ.get("TUTTI_TEST_AGENT_CPU", "0.003"))


def get(url, token=None, timeout=5):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return answer.read().decode()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def value(text, name, label=""):
    for line in text.splitlines():
        if line.startswith((name + "{", name + " ")) and label in line:
            return float(line.rsplit(" ", 1)[1])
    return None


class Job:
    """A process that writes a recording."""

    def __init__(self, folder):
        self.process = subprocess.Popen([WRITER, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def start(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def finish(self):
        assert self.process.stdout.readline() == "ok\n"

    def do(self, line):
        self.start(line)
        self.finish()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


class Agent:
    def __init__(self, folder, *options, listen=True):
        self.port = free_port() if listen else None
        where = f"127.0.0.1:{self.port}" if listen else ""
        self.log = pathlib.Path(folder) / "agent.log"
        self.process = subprocess.Popen([TUTTI, "agent", "--listen", where, *options], stderr=self.log.open("w"),
                                        env={**os.environ, "TUTTI_MONITOR_DIR": folder})
        if listen:
            wait_for("the agent", self.is_up)

    def is_up(self):
        with contextlib.suppress(OSError):
            return get(f"http://127.0.0.1:{self.port}/healthz") == "ok\n"

    def metrics(self, token=None):
        return get(f"http://127.0.0.1:{self.port}/metrics", token)

    def cpu_seconds(self):
        return int(pathlib.Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) * 1e-9

    @contextlib.contextmanager
    def stays_small(self, what):
        """What happens within takes less than its share of a core."""
        cpu, begun = self.cpu_seconds(), time.monotonic()
        yield
        share = (self.cpu_seconds() - cpu) / (time.monotonic() - begun)
        print(f"{what}: {100 * share:.3f} % of a core")
        assert share < MOST_CPU, f"{what}: the agent took {100 * share:.3f} % of a core"

    def warnings(self):
        return [line for line in self.log.read_text().splitlines() if " warn: " in line]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(10) == 0, self.log.read_text()


@contextlib.contextmanager
def host(*options, listen=True):
    """A folder of recordings, a job that writes one and an agent that reads it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti_test.") as folder:
        job = Job(folder)
        agent = Agent(folder, *options, listen=listen)
        try:
            yield folder, job, agent
            agent.stop()
        except BaseException:
            sys.stderr.write(agent.log.read_text())
            raise
        finally:
            for process in (agent.process, job.process):
                if process.poll() is None:
                    process.kill()
                process.wait()


def deploy_files():
    if shutil.which("promtool") is None:
        skip("no promtool; apt-get install prometheus")
    deploy = pathlib.Path(DEPLOY)
    subprocess.run(["promtool", "check", "config", deploy / "prometheus.yml"], check=True)
    subprocess.run(["promtool", "test", "rules", pathlib.Path(__file__).parent / "alerts_test.yml"], check=True)
    with host() as (_, job, agent):
        job.do("operations 3")
        text = agent.metrics()
        assert json.loads(get(f"http://127.0.0.1:{agent.port}/status")), "no status"
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
    # NCCL's names are what they are.
    complaints = [line for line in checked.stderr.splitlines() if not line.startswith("nccl_")]
    assert not complaints and "error" not in checked.stderr, checked.stderr
    dashboard = json.loads((deploy / "grafana-dashboard.json").read_text())
    families = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)) and dashboard["schemaVersion"] >= 30
    # Every metric that is drawn is one the agent tells.
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            for word in target["expr"].replace("{", " ").replace("(", " ").replace("[", " ").split():
                if word.startswith(("tutti_", "nccl_")):
                    assert word in families, f"{panel['title']}: {word} is not told"


def prometheus():
    if shutil.which("prometheus") is None:
        skip("no Prometheus; apt-get install prometheus")
    with host() as (folder, job, agent):
        port = free_port()
        config = pathlib.Path(folder) / "prometheus.yml"
        config.write_text("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
                          f"rule_files: ['{pathlib.Path(DEPLOY).resolve()}/alerts.yml']\n"
                          "scrape_configs:\n  - job_name: tutti\n    static_configs:\n"
                          f"      - targets: ['127.0.0.1:{agent.port}']\n")
        log = pathlib.Path(folder) / "prometheus.log"
        server = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                                   f"--web.listen-address=127.0.0.1:{port}"], stdout=log.open("w"), stderr=subprocess.STDOUT)

        def ask(expression):
            """The values by their rank or state; nothing while Prometheus has none."""
            with contextlib.suppress(OSError):
                query = urllib.parse.urlencode({"query": expression})
                answer = json.loads(get(f"http://127.0.0.1:{port}/api/v1/query?{query}"))
                return [(each["metric"], float(each["value"][1])) for each in answer["data"]["result"]]

        try:
            job.do("operations 10")
            total = 'tutti_operations_total{collective="all_reduce"}'
            wait_for("the first operations", lambda: [v for _, v in ask(total) or []] == [10])
            job.do("operations 30")
            wait_for("operations that came later", lambda: [v for _, v in ask(total)] == [40])
            [(labels, bandwidth)] = ask("nccl_bus_bandwidth_gbs")
            assert 0.9 < bandwidth < 1.1, bandwidth  # 1 MB in 1 ms, times 2 (n - 1) / n with two ranks
            assert labels["collective"] == "AllReduce" and labels["message_size"] == "256KB-1MB", labels
            assert labels["algo_proto"] == "ring" and labels["nranks"] == "2", labels
            [(_, waited)] = ask("tutti_operations_waited_seconds_total / tutti_operations_seconds_total")
            assert 0.24 < waited < 0.26, waited
            job.do("event 6")
            wait_for("an event", lambda: [v for _, v in ask('tutti_events_total{kind="lane_dropped",cause="path_congested"}')] == [1])
            job.do("break")
            wait_for("the alert of a broken communicator",
                     lambda: ask('ALERTS{alertname="TuttiCommunicatorBroken",alertstate="firing"}'))
            [(_, up)] = ask('up{job="tutti"}')
            assert up == 1
        except BaseException:
            sys.stderr.write(log.read_text())
            raise
        finally:
            server.terminate()
            server.wait()


def hanging_scrapers():
    with host() as (_, job, agent):
        job.do("operations 100")
        agent.metrics()
        silent = [socket.create_connection(("127.0.0.1", agent.port)) for _ in range(100)]
        for each in silent[::2]:
            each.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        deaf = socket.create_connection(("127.0.0.1", agent.port))
        deaf.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        with agent.stays_small("scrapers that hang"):
            slowest = 0
            for _ in range(5):
                begun = time.monotonic()
                assert value(agent.metrics(), "tutti_operations_total") == 100
                slowest = max(slowest, time.monotonic() - begun)
                time.sleep(1)
        assert slowest < 1, slowest
        # The deadline of those that hang: their connections end, though they do nothing.
        for each in silent:
            each.settimeout(20)
            with contextlib.suppress(ConnectionResetError):
                while each.recv(4096):
                    pass


def scrape_storm():
    with host() as (_, job, agent):
        job.do("operations 100")
        begun = time.monotonic()
        read = {value(agent.metrics(), "tutti_agent_cpu_seconds_total") for _ in range(200)}
        # All answers within a second come from what one has read.
        assert len(read) <= 2 + time.monotonic() - begun, f"200 scrapes read the recordings {len(read)} times"


def token():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("0123456789abcdef0123\n")
        file.flush()
        with host("--token-file", file.name) as (_, _, agent):
            assert "tutti_agent_info" in agent.metrics("0123456789abcdef0123")
            for wrong in (None, "0123456789abcdef0124", "0"):
                try:
                    agent.metrics(wrong)
                    raise AssertionError(f"{wrong} was taken for the token")
                except urllib.error.HTTPError as refused:
                    assert refused.code == 401
    refused = subprocess.run([TUTTI, "agent", "--listen", "0.0.0.0:0"], capture_output=True, text=True)
    assert refused.returncode == 2 and "--token-file" in refused.stderr, refused


def forward_away():
    port = free_port()
    with host("--forward", f"127.0.0.1:{port}") as (_, job, agent):
        for _ in range(5):
            job.do("event 3")
        with agent.stays_small("a receiver that is away"):
            time.sleep(4)
        assert len(agent.warnings()) == 1, agent.warnings()
        with socket.create_server(("127.0.0.1", port)) as listener:
            listener.settimeout(20)
            connection, _ = listener.accept()
            lines = connection.makefile()
            connection.settimeout(20)
            for _ in range(5):
                event = json.loads(lines.readline())
                assert event["kind"] == "rank_late" and event["pid"] == job.process.pid, event
            job.do("event 4")
            assert json.loads(lines.readline())["kind"] == "lane_up"
            # Gone again, without a word.
            connection.close()
            lines.close()
        wait_for("the agent to notice", lambda: value(agent.metrics(), "tutti_agent_forward_connected") == 0)


@contextlib.contextmanager
def full_disk():
    if os.geteuid() != 0:
        skip("a full disk is a small tmpfs, which only root can mount; run this test as root")
    with tempfile.TemporaryDirectory(prefix="tutti_test.") as disk:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True).returncode != 0:
            skip("mount is not allowed here, not even as root")
        try:
            yield pathlib.Path(disk)
        finally:
            subprocess.run(["umount", "-l", disk], check=True)


def disk_full():
    with full_disk() as disk:
        events, textfile = disk / "events.jsonl", disk / "tutti.prom"
        with host("--events", str(events), "--textfile", str(textfile), "--textfile-interval", "1") as (_, job, agent):
            wait_for("the first metrics", textfile.exists)
            # What fills it is found full when the events come.
            with open(disk / "ballast", "wb", buffering=0) as ballast, contextlib.suppress(OSError):
                while True:
                    ballast.write(bytes(4096))
            old = textfile.read_text()
            for _ in range(400):
                job.do("event 6")
            wait_for("a write to fail", lambda: value(agent.metrics(), "tutti_agent_write_failures_total"))
            with agent.stays_small("a disk that is full"):
                time.sleep(5)
            assert len(agent.warnings()) <= 2, agent.warnings()  # one of each file
            assert textfile.read_text() == old
            (disk / "ballast").unlink()
            wait_for("new metrics", lambda: textfile.read_text() != old, 60)

            def all_lines():
                with contextlib.suppress(ValueError):  # the last may be half written
                    lines = [json.loads(line) for line in events.read_text().splitlines()]
                    return len(lines) == 400 and lines

            lines = wait_for("events", all_lines, 60)
            assert [line["index"] for line in lines] == list(range(400)), "events are not in order"


def event_storm():
    with tempfile.TemporaryDirectory(prefix="tutti_test.") as folder:
        events = pathlib.Path(folder) / "events.jsonl"
        with host("--events", str(events)) as (_, job, agent):
            job.start("storm 5000 6")
            time.sleep(1)
            with agent.stays_small("a storm of events"):
                time.sleep(5)
            job.finish()
            told = value(agent.metrics(), "tutti_process_events_total")

            def accounted():
                lines = [json.loads(line) for line in events.read_text().splitlines()]
                return sum(1 + line["missed"] for line in lines) >= value(agent.metrics(), "tutti_process_events_total")

            wait_for(f"{told} events written or counted as missed", accounted, 30)


def idle():
    with host("--events", "/dev/null", "--forward", f"127.0.0.1:{free_port()}") as (_, _, agent):
        with agent.stays_small("nothing happens"):
            time.sleep(5)


def process_killed():
    with tempfile.TemporaryDirectory(prefix="tutti_test.") as folder:
        events = pathlib.Path(folder) / "events.jsonl"
        with host("--events", str(events)) as (recordings, job, agent):
            job.do("event 3")
            wait_for("the event", lambda: events.exists() and "rank_late" in events.read_text())
            job.process.kill()
            job.process.wait()
            wait_for("its death", lambda: "process_killed" in events.read_text())
            wait_for("its death as a metric", lambda: value(agent.metrics(), "tutti_process_killed") == 1)
            # What `tutti events` shows of the dead.
            shown = subprocess.run([TUTTI, "events", "--kind", "rank_late", "--text"], capture_output=True, text=True,
                                   env={**os.environ, "TUTTI_MONITOR_DIR": recordings}, check=True).stdout
            assert "rank_late rank 0 peer 1" in shown, shown


CASES = [deploy_files, prometheus, hanging_scrapers, scrape_storm, token, forward_away, disk_full, event_storm, idle,
         process_killed]

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[sys.argv[4]]()
