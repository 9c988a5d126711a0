"""The alerts of deploy/alerts.yml about a job of real processes, told by a real Prometheus: each names the culprit, once,
and a job that is cancelled raises none. A case of agent_test.py; its ranges and times are shortened."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

import agent_test as kit

RANKS, LATE = 4, 3


def shortened_rules(folder):
    """The rules as they are shipped, but for their times."""
    rules = (pathlib.Path(kit.DEPLOY) / "alerts.yml").read_text()
    for pattern, short in ((r"\[\d+m\]", "[8s]"), (r"for: \d+[ms]", "for: 2s"), (r"(tutti_blocking_rank{[^}]*}) > 10", r"\1 > 2")):
        rules, count = re.subn(pattern, short, rules)
        assert count > 0, f"no {pattern} in alerts.yml"
    path = pathlib.Path(folder) / "alerts.yml"
    path.write_text(rules)
    return path


class Prometheus:
    def __init__(self, folder, agent_port):
        self.port = kit.free_port()
        config = pathlib.Path(folder) / "prometheus.yml"
        config.write_text("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
                          f"rule_files: ['{shortened_rules(folder)}']\n"
                          "scrape_configs:\n  - job_name: tutti\n    static_configs:\n"
                          f"      - targets: ['127.0.0.1:{agent_port}']\n")
        self.log = pathlib.Path(folder) / "prometheus.log"
        self.process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                                         f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self.log.open("w"),
                                        stderr=subprocess.STDOUT)

    def ask(self, path):
        with contextlib.suppress(OSError):
            return json.loads(kit.get(f"http://127.0.0.1:{self.port}/api/v1/{path}"))["data"]
        return {}

    def firing(self, name=""):
        """Labels and summaries of the alerts that fire now."""
        return [(each["labels"], each["annotations"]["summary"]) for each in self.ask("alerts").get("alerts", [])
                if each["state"] == "firing" and each["labels"]["alertname"].startswith(name)]

    def ever_fired(self, names, seconds):
        query = urllib.parse.urlencode({"query": f'max_over_time(ALERTS{{alertname=~"{names}",alertstate="firing"}}[{seconds}s])'})
        return [each["metric"] for each in self.ask(f"query?{query}").get("result", [])]

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Training:
    """A job, in a session of its own, so that signals can be sent to all of it."""

    def __init__(self, folder, delay):
        rank = [sys.argv[5], "3", "5", str(delay), str(LATE), "60"]
        self.folder = folder
        self.process = subprocess.Popen([kit.TUTTI, "run", "-n", str(RANKS), "--", *rank], stderr=subprocess.DEVNULL,
                                        env={**os.environ, "TUTTI_MONITOR_DIR": folder})
        kit.wait_for("all ranks", lambda: len(self.pids()) == RANKS)

    def status(self):
        shown = subprocess.run([kit.TUTTI, "status", "--json", "--dir", self.folder], capture_output=True, text=True,
                               check=False)
        return shown.returncode, json.loads(shown.stdout)

    def pids(self):
        """By rank, of those that live."""
        return {rank["rank"]: rank["pid"] for job in self.status()[1]["jobs"] for each in job["communicators"]
                if each["name"] == "training" for rank in each["ranks"] if rank["alive"] and rank["done"] > 10}

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(20)


def expect_straggler(prometheus, job):
    wanted = (rf"training: rank {LATE} \(pid {job.pids()[LATE]} on .+\) comes last, "
              r"and costs the others [6-9]\d[.\d]*% of the time")

    def told():
        """The one alert, once it counts over all of its range."""
        alerts = prometheus.firing("TuttiStraggler")
        assert all(labels["rank"] == str(LATE) for labels, _ in alerts) and len(alerts) < 2, alerts
        return [text for _, text in alerts if re.fullmatch(wanted, text)]

    print(kit.wait_for("the alert on the straggler", told, 40)[0])


def expect_culprit(prometheus, job):
    culprit = job.pids()[2]
    os.kill(culprit, signal.SIGSTOP)
    try:
        alerts = kit.wait_for("the alert on the rank that was stopped", lambda: prometheus.firing("TuttiRankHoldsUp"), 15)
        assert len(alerts) == 1, alerts
        print(alerts[0][1])
        assert re.fullmatch(rf"training: rank 2 \(pid {culprit} on .+\) holds up ranks 0-1, 3 for [\d.]+s", alerts[0][1]), alerts
    finally:
        os.kill(culprit, signal.SIGCONT)


def expect_silence(prometheus, job):
    """A job that is cancelled is no alert, and status finds nothing wrong."""
    job.stop()
    time.sleep(4)  # what must not happen has no moment to wait for: several scrapes and evaluations
    fired = prometheus.ever_fired("TuttiProcessKilled|TuttiCommunicatorBroken", 60)
    assert not fired, fired
    code, status = job.status()
    assert code == 0 and not status["findings"], status["findings"]
    for each in status["jobs"][0]["communicators"]:
        assert each["state"] == "closed", each["state"]


def expect_death(prometheus, job):
    killed = job.pids()[1]
    os.kill(killed, signal.SIGKILL)
    alerts = kit.wait_for("the alert on the rank that was killed", lambda: prometheus.firing("TuttiProcessKilled"), 15)
    job.process.wait(20)
    time.sleep(2)  # scrapes in which others could be told, too
    alerts = prometheus.firing("TuttiProcessKilled")
    assert [labels["pid"] for labels, _ in alerts] == [str(killed)], alerts
    print(alerts[0][1])
    assert re.fullmatch(rf"training_rank \(pid {killed}\) was killed on .+", alerts[0][1]), alerts


def live_alerts():
    if shutil.which("prometheus") is None:
        kit.skip("no Prometheus; apt-get install prometheus")
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti_test.") as folder:
        with tempfile.TemporaryDirectory(prefix="tutti_test.") as work:
            agent = kit.Agent(folder)
            prometheus = Prometheus(work, agent.port)
            jobs = []
            try:
                jobs.append(Training(folder, 30))
                expect_straggler(prometheus, jobs[-1])
                expect_culprit(prometheus, jobs[-1])
                expect_silence(prometheus, jobs[-1])
                jobs.append(Training(folder, 0))
                expect_death(prometheus, jobs[-1])
                agent.stop()
            except BaseException:
                sys.stderr.write(prometheus.log.read_text()[-4000:])
                raise
            finally:
                for job in jobs:
                    job.stop()
                prometheus.stop()
                if agent.process.poll() is None:
                    agent.process.kill()


if __name__ == "__main__":
    live_alerts()
