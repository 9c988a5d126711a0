#!/usr/bin/env python3
"""Packs benches, peers and the libraries they need into BUILD/carry and BUILD/carry.tar.gz, for a machine that has none of these and installs
nothing: x86-64, a glibc that is not older, python3. Open MPI is that machine's own, since its launcher and library must be
of one kind; MPICH, with its launcher, is packed.

  bench/carry.py BUILD [PROGRAM ...]

Packs what BUILD/bin has of the programs that are named; without names, those of the benches that need no network of
their own. There, with BUILD/carry as the build folder:

  tar xzf carry.tar.gz
  carry/bench/startup.py carry
  carry/bench/simulation.py carry --seeds 1000000
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("tutti", "tutti_startup", "openmpi_startup", "mpich_startup", "startup_simulation", "job_simulation",
            "tutti_peer", "openmpi_peer", "mpich_peer", "limit_peer", "communicators_bench", "membership_bench", "micro_bench",
            "reduce_bench", "costs_bench")
MPICH = ("mpirun.mpich", "hydra_pmi_proxy")  # the launcher looks for its helper beside itself
# The machine's own: the C library, and what belongs to its Open MPI.
LEFT_OUT = re.compile(r"^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv)\.so|libmpi\.so|libopen-(rte|pal)\.so)")


def libraries_of(program):
    """Path of each library that the program needs, by name."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", said, re.MULTILINE))
    missing = re.findall(r"^\s*(\S+) => not found", said, re.MULTILINE)
    if missing:
        sys.exit(f"carry: {program} needs {', '.join(missing)}, which this machine does not have")
    return {name: Path(path) for name, path in found.items() if not LEFT_OUT.match(name)}


def pack(program, folder):
    """Copies the program without its debug information, so that it finds its libraries beside it."""
    target = folder / "bin" / program.name
    subprocess.run(["strip", "--strip-debug", "-o", target, program.resolve()], check=True)
    # An rpath of the old kind holds for libraries of libraries, too.
    subprocess.run(["patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../lib", target], check=True)
    for name, path in libraries_of(program).items():
        library = folder / "lib" / name
        if not library.exists():
            subprocess.run(["strip", "--strip-debug", "-o", library, path.resolve()], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    arguments = parser.parse_args()
    there = arguments.build / "bin"
    names = arguments.programs or [name for name in PROGRAMS if (there / name).exists()]
    if absent := [name for name in names if not (there / name).exists()]:
        sys.exit(f"carry: {there} has no {', '.join(absent)}; build them first")
    if not names:
        sys.exit(f"carry: {there} has none of {', '.join(PROGRAMS)}; build some first")
    for tool in ("patchelf", "strip"):
        if not shutil.which(tool):
            sys.exit(f"carry: {tool} is missing; scripts/install-deps bench installs it")
    folder = arguments.build / "carry"
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("bin", "lib"):
        (folder / part).mkdir(parents=True)
    shutil.copytree(Path(__file__).parent, folder / "bench", ignore=shutil.ignore_patterns("__pycache__", "*.cc", "*.hpp"))
    launchers = [Path(shutil.which(name)) for name in MPICH if any("mpich" in each for each in names) and shutil.which(name)]
    for program in [there / name for name in names] + launchers:
        pack(program, folder)
    packed = Path(shutil.make_archive(str(folder), "gztar", arguments.build, "carry"))
    print(f"{packed}: {len(names) + len(launchers)} programs, {len(os.listdir(folder / 'lib'))} libraries, "
          f"{packed.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
