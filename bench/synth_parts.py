"""The parts of the synthesis bench: each measures some bars and yields their rows."""

import json
from pathlib import Path

from synth_runs import GB, GIGA, KB, MB, Failed, Machine

EIGHTY = [Machine("ndv2", 10, 80), Machine("dgx-a100", 10, 80), Machine("torus2d:8x10", ranks=80)]
IRREGULAR = Machine("examples/topologies/irregular80.json", ranks=80)
UNEVEN = [Machine("mesh:8x10", ranks=80), IRREGULAR]
THOUSAND = [Machine("dgx-a100", 128, 1024), Machine("torus2d:32x32", ranks=1024)]
SYMMETRIC = [Machine("dgx-a100", 2048, 16384), Machine("torus2d:128x128", ranks=16384)]
NDV2, NDV2_FOUR, DGX2 = Machine("ndv2", 2, 16), Machine("ndv2", 4, 32), Machine("dgx2", 2, 32)
COPIES_AND_SUMS = ["all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce"]
COMMON = ["all_gather", "all_to_all", "all_reduce"]
OF_THE_LIBRARY = ["ring", "double_tree", "recursive_doubling"]
MOST_MB_OF_FILE = 64  # what the reader takes
TACCL_MODEL = "taccl, its model"  # among the rivals of its generator
OF_NCCL = ["nccl_ring", "nccl_tree", "nccl_direct"]


def row(what, unit, measured, at_most=None, at_least=None, **context):
    """One figure; without a bar it is there to be read."""
    met = (at_most is None or measured <= at_most) and (at_least is None or measured >= at_least)
    bar = at_most if at_least is None else at_least
    sense = "" if bar is None else "at most" if at_least is None else "at least"
    return {"what": what, "unit": unit, "measured": round(measured, 4) + 0.0, "bar": bar, "sense": sense, "met": met, **context}


def lost(what, unit, bar, why):
    return {"what": what, "unit": unit, "measured": None, "bar": bar, "sense": "", "met": False, "why": str(why)}


def size_text(size):
    for unit, scale in (("GB", GB), ("MB", MB), ("KB", KB)):
        if size >= scale:
            return f"{size / scale:g} {unit}"
    return f"{size} B"


def powers(first, last, factor):
    sizes = []
    while first < last:
        sizes.append(first)
        first *= factor
    return [*sizes, last]


def time_and_gap(runs, machine, collective, seconds, per_cent, gigabytes=None):
    """The rows of one synthesis of 1 GB."""
    what = f"{machine.name}, {collective}, 1 GB"
    try:
        made = runs.synth(machine, collective, [GB], timed=True)
    except Failed as failure:
        return [lost(what, "s", seconds, failure)]
    found, cost = made.row(GB), made.cost
    rows = [row(what, "s", cost.wall, at_most=seconds, cpu_seconds=round(cost.cpu, 3), search_seconds=found["seconds"],
                peak_gb=round(cost.peak / GIGA, 3)),
            row(what, "% gap", 100 * found["gap"], at_most=per_cent, generator=found["generator"])]
    if gigabytes is not None:
        rows.append(row(what, "GB memory", cost.peak / GIGA, at_most=gigabytes))
        rows.append(program_size(made, found, what))
    return rows


def program_size(made, found, what):
    """Of the file, which must be there, and small enough to be read."""
    if not found["program"]:
        return lost(what, "MB file", MOST_MB_OF_FILE, "no program was written")
    return row(what, "MB file", (made.folder / found["program"]).stat().st_size / MB, at_most=MOST_MB_OF_FILE)


def eighty(runs, quick):
    """80 GPUs: copies and sums."""
    for machine in EIGHTY:
        for collective in COPIES_AND_SUMS:
            yield from time_and_gap(runs, machine, collective, 3, 3)


def exchange(runs, quick):
    """80 GPUs: all-to-all."""
    for machine in [*EIGHTY, IRREGULAR]:
        if machine.nodes == 0 and ":" not in machine.topology and not Path(machine.topology).exists():
            runs.notes.append(f"{machine.name} left out: there is no {machine.topology}")
            continue
        yield from time_and_gap(runs, machine, "all_to_all", 5, 5)


def uneven(runs, quick):
    """80 GPUs without translations: all-reduce."""
    for machine in UNEVEN:
        yield from time_and_gap(runs, machine, "all_reduce", 10, 5)


def two_nodes(runs, quick):
    """What TACCL and TE-CCL publish a figure for."""
    made = runs.synth(NDV2, "all_gather", [GB])
    found = made.row(GB)
    yield row("ndv2 x2, all_gather, 1 GB", "GB/s", GB / found["simulated_us"] / 1e3, at_least=24,
              generator=found["generator"], bound=round(GB / found["bound_us"] / 1e3, 3), taccl=20.5, te_ccl=22.9)


def thousand(runs, quick):
    """1,024 GPUs."""
    for machine in THOUSAND:
        for collective in ["all_gather"] if quick else [*COPIES_AND_SUMS, "all_to_all"]:
            yield from time_and_gap(runs, machine, collective, 60, 8, gigabytes=4)


def symmetric(runs, quick):
    """16,384 GPUs."""
    for machine in SYMMETRIC:
        what = f"{machine.name}, bound and trees of all_gather"
        try:
            _, cost = runs.run("topo", "trees", machine.topology, *machine.extent())
        except Failed as failure:
            yield lost(what, "s", 10, failure)
            continue
        yield row(what, "s", cost.wall, at_most=10, cpu_seconds=round(cost.cpu, 3), peak_gb=round(cost.peak / GIGA, 3))


def worst(what, ratios):
    """The row of the size where the best rival comes nearest to us, or passes us."""
    ratio, size, rival, generator = max(ratios)
    return row(f"{what}: our time / the best rival's, at worst", "ratio", ratio, at_most=1, size=size_text(size),
               rival=rival, generator=generator)


def small(runs, quick):
    """1 KB to 1 MB against algorithms that know no topology, and TACCL's result."""
    sizes = powers(KB, MB, 32 if quick else 4)
    for machine in [NDV2] if quick else [NDV2, DGX2]:
        for collective in COMMON:
            rivals = {name: runs.simulate(name, machine, collective, sizes) for name in OF_THE_LIBRARY}
            made = runs.synth(machine, collective, sizes)
            ratios = [(made.row(size)["simulated_us"] / 1e6 / seconds[size], size, name, made.row(size)["generator"])
                      for name, seconds in rivals.items() if seconds for size in sizes]
            if ratios:
                yield worst(f"{machine.name}, {collective}, 1 KB to 1 MB", ratios)
    for topology, sketch in taccl_cases():
        if "n2" in sketch.stem.split("-") and not quick:
            yield from against_taccl(runs, Machine(str(topology), sketch=str(sketch)))


def against_taccl(runs, machine):
    """On the machine of a sketch, at the size its profile was made with, and what comes next."""
    first = json.loads(Path(machine.topology).read_text())["chunk_bytes"]
    sizes = [size for size in (first, 8 * first) if size <= MB]
    for collective in COMMON:
        try:
            made = runs.synth(machine, collective, sizes, options=("--time", "9"))
            theirs = runs.synth(machine, collective, sizes, options=("--time", "18", "--method", "taccl"))
        except Failed as failure:
            yield lost(f"{machine.name}, {collective}", "ratio", 1, failure)
            continue
        yield worst(f"{machine.name}, {collective}",
                    [(made.row(size)["simulated_us"] / theirs.row(size)["simulated_us"], size, "taccl",
                      made.row(size)["generator"]) for size in sizes])


def nccl(runs, quick):
    """Against what NCCL would run, by size, in the same simulator."""
    sizes = powers(KB, GB, 32 if quick else 4)
    ratios = []
    for machine in [NDV2] if quick else [NDV2, NDV2_FOUR, DGX2]:
        for collective in COMMON:
            theirs = {name: runs.simulate(name, machine, collective, sizes) for name in OF_NCCL}
            theirs = {name: seconds for name, seconds in theirs.items() if seconds}
            made = runs.synth(machine, collective, sizes)
            for size in sizes:
                name, seconds = min(((name, each[size]) for name, each in theirs.items()), key=lambda one: one[1])
                ours = made.row(size)["simulated_us"] / 1e6
                ratios.append((seconds / ours, f"{machine.name}, {collective}, {size_text(size)}"))
                yield row(f"{ratios[-1][1]}: NCCL's best / ours", "ratio", ratios[-1][0], best_of_nccl=name,
                          ours_us=round(ours * 1e6, 2), generator=made.row(size)["generator"],
                          **{f"{one}_us": round(each[size] * 1e6, 2) for one, each in theirs.items()})
    yield row("NCCL's best / ours, where most is gained", "ratio", max(ratios)[0], at_least=3, where=max(ratios)[1])


def taccl_cases():
    """(topology, sketch) of the files that belong together, by their machine's name."""
    for sketch in sorted(Path("examples/sketches").glob("*.json")):
        for topology in sorted(Path("examples/topologies/taccl").glob("*.json")):
            if topology.stem.split("-")[1] in sketch.stem.split("-"):
                yield topology, sketch


def taccl(runs, quick):
    """Everything TACCL ships: its topologies, sketches and collectives."""
    for topology, sketch in list(taccl_cases())[::10 if quick else 1]:
        profile, plan = json.loads(topology.read_text()), json.loads(sketch.read_text())
        ranks = profile["gpus_per_node"] * plan["nnodes"]
        size = ranks * plan["hyperparameters"]["input_chunkup"] * profile["chunk_bytes"]
        machine = Machine(str(topology), ranks=ranks, sketch=str(sketch))
        for collective in ["all_gather"] if quick else [*COMMON, "reduce_scatter"]:
            yield from taccl_case(runs, machine, collective, size)


def taccl_case(runs, machine, collective, size):
    what = f"{machine.name}, {collective}, {size_text(size)}"
    try:
        made = runs.synth(machine, collective, [size], options=("--time", "9"))
        theirs = runs.synth(machine, collective, [size], options=("--time", "9", "--method", "taccl"))
    except Failed as failure:
        yield lost(what, "s", 10, failure)
        return
    found, other = made.row(size), theirs.row(size)
    yield row(what, "s", made.cost.wall, at_most=10, cpu_seconds=round(made.cost.cpu, 3), gap=found["gap"],
              simulated_us=found["simulated_us"], generator=found["generator"])
    yield row(f"{what}: our time / TACCL's model's", "ratio", found["simulated_us"] / other["rivals_us"][TACCL_MODEL],
              at_most=1, model_us=other["rivals_us"][TACCL_MODEL], taccl_simulated_us=other["simulated_us"],
              taccl_seconds=other["seconds"])


PARTS = {"eighty": eighty, "exchange": exchange, "uneven": uneven, "two_nodes": two_nodes, "thousand": thousand,
         "symmetric": symmetric, "small": small, "nccl": nccl, "taccl": taccl}
