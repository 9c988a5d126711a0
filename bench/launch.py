"""Starts one library's loop on the ranks of a scenario and returns its rows.

Every library runs on the same cores, with the settings a user who knows it would choose; SETTINGS states them.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

LIBRARIES = ("tutti", "tutti/allocated", "limit", "limit/streamed", "openmpi", "mpich", "gloo")
PEERS = ("openmpi", "mpich", "gloo")

SETTINGS = {
    "tutti": "defaults",
    "openmpi": "pml ob1, btl vader (cma single copy); more ranks than cores: yield when idle; network: btl tcp",
    "mpich": "ch4:ucx defaults; more ranks than cores: yield after every poll; network: UCX_TLS=tcp",
    "gloo": "tcp, not pinned; all_reduce by halving and doubling below 1 MB, ring above",
}


@dataclass
class Scenario:
    name: str  # of files
    title: str
    ranks: int
    largest: int
    network: bool = False
    collectives: tuple = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
    libraries: tuple = LIBRARIES
    hosts: list = field(default_factory=list)  # network: a Host per rank


@dataclass
class Host:
    namespace: str
    address: str
    interface: str


def mpirun(binaries, library):
    """Returns the launcher of this MPI, or None: one that was packed beside the programs (carry.py), Debian's by its name, or
    the machine's only one, if it is Open MPI's."""
    packed = Path(binaries) / f"mpirun.{library}"
    if packed.exists():
        return str(packed)
    found = shutil.which(f"mpirun.{library}")
    if found is None and library == "openmpi" and shutil.which("mpirun"):
        said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout
        found = shutil.which("mpirun") if "Open MPI" in said else None
    return found


class Network:
    """Two network namespaces joined by a veth pair, for as long as the context lasts. Needs root."""

    def __init__(self):
        tag = os.getpid() % 10000
        self.hosts = [Host(f"bench{tag}-{i}", f"198.18.77.{i + 1}", f"bv{tag}-{i}") for i in range(2)]

    def __enter__(self):
        a, b = self.hosts
        self._ip("link", "add", a.interface, "type", "veth", "peer", "name", b.interface)
        for host in self.hosts:
            self._ip("netns", "add", host.namespace)
            self._ip("link", "set", host.interface, "netns", host.namespace)
            self._ip("-n", host.namespace, "address", "add", host.address + "/24", "dev", host.interface)
            self._ip("-n", host.namespace, "link", "set", host.interface, "up")
            self._ip("-n", host.namespace, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            subprocess.run(["ip", "netns", "delete", host.namespace], check=False, stderr=subprocess.DEVNULL)

    @staticmethod
    def _ip(*arguments):
        subprocess.run(["ip", *arguments], check=True)


class LaunchError(Exception):
    pass


class Launcher:
    def __init__(self, binaries, cores, overrides=None):
        self.binaries = Path(binaries)
        self.cores = cores
        self.overrides = overrides or {}  # the programs of libraries that are not in `binaries`
        self.folder = Path(tempfile.mkdtemp(prefix="tutti-bench-", dir="/dev/shm"))

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def available(self, library):
        if not self.program(library).exists():
            return False
        return library not in ("openmpi", "mpich") or mpirun(self.binaries, library) is not None

    def program(self, library):
        name = library.split("/")[0]
        return Path(self.overrides.get(name, self.binaries / f"{name}_peer"))

    def run(self, library, scenario, options, timeout):
        """All rows of one start of the library; LaunchError when it fails or takes too long."""
        meeting = self.folder / f"meeting-{random.getrandbits(32):08x}"
        meeting.touch()
        environment = dict(os.environ, BENCH_MEETING=str(meeting))
        arguments = self._arguments(library, scenario, options)
        try:
            if library.split("/")[0] in ("openmpi", "mpich"):
                commands = [self._mpi(library, scenario, arguments, environment)]
            else:
                commands = self._one_each(library, scenario, arguments, environment)
            return self._collect(library, commands, timeout)
        finally:
            for left in self.folder.glob(meeting.name + "*"):
                shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()

    def _arguments(self, library, scenario, options):
        memory = {"allocated": "allocated", "streamed": "streamed"}.get(library.partition("/")[2], "ordinary")
        return [
            str(self.program(library)),
            "--collectives", ",".join(scenario.collectives),
            "--largest", str(scenario.largest),
            "--ranks", str(scenario.ranks),
            "--cores", ",".join(map(str, self.cores)),
            "--pin", "0" if library == "gloo" else "1",
            "--memory", memory,
            "--label", library,
            *options,
        ]

    def _confined(self, command):
        return ["taskset", "-c", ",".join(map(str, self.cores)), *command]

    def _one_each(self, library, scenario, arguments, environment):
        """A process per rank, for libraries that bring no launcher."""
        address = scenario.hosts[0].address if scenario.network else "127.0.0.1"
        port = random.randrange(20000, 30000)
        commands = []
        for rank in range(scenario.ranks):
            own = dict(environment, BENCH_RANK=str(rank), TUTTI_RANK=str(rank), TUTTI_SIZE=str(scenario.ranks),
                       TUTTI_ADDRESS=f"{address}:{port}", TUTTI_SECRET="bench")
            if library.endswith("/one lane"):
                own["TUTTI_TCP_LANES"] = "1"
            command = arguments
            if scenario.network:
                host = scenario.hosts[rank]
                own.update(BENCH_INTERFACE=host.interface, TUTTI_HOST_ID=host.namespace)
                command = ["ip", "netns", "exec", host.namespace, *arguments]
            commands.append((self._confined(command), own))
        return commands

    def _mpi(self, library, scenario, arguments, environment):
        openmpi = library == "openmpi"
        command = [mpirun(self.binaries, library), "-np", str(scenario.ranks)]
        crowded = scenario.ranks > len(self.cores)
        if openmpi:
            command += ["--bind-to", "none", "--oversubscribe"]
            if os.geteuid() == 0:
                command.append("--allow-run-as-root")
            mca = {"pml": "ob1", "btl": "tcp,self" if scenario.network else "vader,self",
                   "mpi_yield_when_idle": "1" if crowded else "0"}
            if scenario.network:
                mca["btl_tcp_if_include"] = mca["oob_tcp_if_include"] = "198.18.77.0/24"
                mca["plm_rsh_agent"] = str(self._agent(scenario))
            else:
                mca["btl_vader_single_copy_mechanism"] = "cma"
            for name, value in mca.items():
                command += ["--mca", name, value]
        else:
            command += ["-bind-to", "none"]
            if crowded:
                environment["MPIR_CVAR_POLLS_BEFORE_YIELD"] = "1"
        if scenario.network:
            return self._mpi_across(library, scenario, command, arguments, environment)
        return self._confined(command + arguments), environment

    def _mpi_across(self, library, scenario, command, arguments, environment):
        """Each namespace is a host to the launcher, which starts its daemon there through our agent."""
        hosts = ",".join(host.address for host in scenario.hosts)
        if library == "openmpi":
            command += ["--host", hosts, "-x", "BENCH_MEETING"]
        else:
            command += ["-launcher", "rsh", "-launcher-exec", str(self._agent(scenario)), "-hosts", hosts, "-ppn", "1",
                        "-iface", scenario.hosts[0].interface]
            environment.update(UCX_TLS="tcp,self")
        inside = ["ip", "netns", "exec", scenario.hosts[0].namespace]
        return self._confined(inside + command + arguments), environment

    def _agent(self, scenario):
        """What an MPI launcher calls in place of ssh: agent [options] address command..."""
        script = self.folder / "agent"
        cases = "\n".join(f'    {h.address}) shift; exec ip netns exec {h.namespace} sh -c "$*" ;;'
                          for h in scenario.hosts)
        script.write_text(f'#!/bin/sh\nwhile [ $# -gt 0 ]; do\n  case "$1" in\n{cases}\n    *) shift ;;\n  esac\ndone\n')
        script.chmod(0o700)
        return script

    def _collect(self, library, commands, timeout):
        processes = []
        with tempfile.TemporaryFile("w+") as errors:
            try:
                for command, environment in commands:
                    processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors,
                                                      text=True, start_new_session=True))
                text = processes[0].communicate(timeout=timeout)[0]
                for process in processes[1:]:
                    process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                raise LaunchError(f"{library}: no end within {timeout:.0f} s") from None
            finally:
                for process in processes:
                    if process.poll() is None:
                        os.killpg(process.pid, signal.SIGKILL)
                        process.wait()
            failed = [process.returncode for process in processes if process.returncode != 0]
            if failed:
                errors.seek(0)
                said = [line for line in errors.read().splitlines() if line.strip()]
                raise LaunchError(f"{library}: exit {failed[0]}: {' / '.join(said[:3])[:400]}")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def iperf_bytes_per_second(network, cores, seconds=2):
    """One TCP stream between the namespaces, as iperf3 drives it; None where it is not installed."""
    if shutil.which("iperf3") is None:
        return None
    server, client = network.hosts
    listening = subprocess.Popen(["ip", "netns", "exec", server.namespace, "taskset", "-c", str(cores[0]), "iperf3",
                                  "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, text=True)
    try:
        for line in listening.stdout:
            if "listening" in line:
                break
        answer = subprocess.run(["ip", "netns", "exec", client.namespace, "taskset", "-c", str(cores[-1]), "iperf3", "-J",
                                 "-l", "1M", "-c", server.address, "-t", str(seconds)], capture_output=True, text=True,
                                timeout=seconds + 20, check=False)
        return json.loads(answer.stdout)["end"]["sum_received"]["bits_per_second"] / 8
    except (KeyError, ValueError, subprocess.TimeoutExpired):
        return None
    finally:
        listening.kill()
        listening.wait()
