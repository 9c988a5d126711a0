"""Costs of a start-up, found in runs of 16, 64 and 256 processes on one machine, and what startup_simulation makes of
them for other sizes."""

import itertools
import subprocess

FITTED = (16, 64, 256)
PREDICTED = 1024
# Of the job that is simulated beyond this machine.
RANKS, RANKS_PER_HOST, CORES_PER_HOST, LATENCY, BANDWIDTH, FAN_OUT = 100_000, 8, 8, 50e-6, 12.5e9, 16
ASSUMPTIONS = (f"{RANKS_PER_HOST} ranks and {CORES_PER_HOST} cores a host, {LATENCY * 1e6:.0f} us between hosts, "
               f"{BANDWIDTH * 8 / 1e9:.0f} Gb/s a port, the store on the host of rank 0; costs as on this machine")


def degree(size):
    """Of the control plane's overlay (src/control/world/overlay.hpp)."""
    neighbours = set()
    distance = 1
    while distance < size:
        neighbours |= {distance % size, (size - distance) % size}
        distance *= 2
    return len(neighbours - {0})


def terms(size):
    """How often each cost occurs: processes, ends of connections (two more to the store), entries of tables."""
    return [size, size * (degree(size) + 2), size * size]


def solve(rows, values):
    """Least squares of relative errors, by normal equations; None if they have no solution."""
    weighted = [[term / value for term in row] for row, value in zip(rows, values)]
    count = len(rows[0])
    matrix = [[sum(row[i] * row[j] for row in weighted) for j in range(count)] + [sum(row[i] for row in weighted)]
              for i in range(count)]
    for i in range(count):
        pivot = max(range(i, count), key=lambda r: abs(matrix[r][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        if matrix[i][i] == 0:
            return None
        for r in range(count):
            if r != i:
                factor = matrix[r][i] / matrix[i][i]
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[i])]
    return [matrix[i][count] / matrix[i][i] for i in range(count)]


def fit(seconds, cores):
    """{size: seconds} to (process, connection, entry) in seconds of a core, none of them negative: the best fit with
    any of the three. On a machine whose cores are all busy, a run costs its time on all of them."""
    best = None
    for used in itertools.chain.from_iterable(itertools.combinations(range(3), count) for count in (1, 2, 3)):
        rows = [[terms(size)[i] for i in used] for size in FITTED]
        values = [seconds[size] * cores for size in FITTED]
        found = solve(rows, values)
        if found is None or min(found) < 0:
            continue
        error = sum((sum(f * t for f, t in zip(found, row)) / value - 1) ** 2 for row, value in zip(rows, values))
        costs = [0.0, 0.0, 0.0]
        for i, cost in zip(used, found):
            costs[i] = cost
        if best is None or error < best[0]:
            best = (error, costs)
    return best[1]


def simulate(build, costs, ranks, ranks_per_host, cores, *network):
    command = [build / "bin/startup_simulation", ranks, ranks_per_host, cores, *costs, *network]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True, timeout=600)
    return float(done.stdout)


def judge(build, seconds, cores, results, simulate_large=True):
    """Adds the rows of the prediction; `seconds`: {size: measured}."""
    prediction = f"{PREDICTED} processes, simulated from {', '.join(map(str, FITTED))}, apart from what was measured"
    if any(size not in seconds for size in FITTED):
        return results.add_failed(prediction, "ratio", 0.25, "not all sizes were measured")
    costs = fit(seconds, cores)
    print(f"\ncosts: {costs[0] * 1e3:.3f} ms a process, {costs[1] * 1e6:.1f} us an end of a connection, "
          f"{costs[2] * 1e6:.2f} us an entry of a table")
    for size in (*FITTED, PREDICTED):
        found = simulate(build, costs, size, size, cores)
        measured = f"measured {seconds[size]:8.3f} s" if size in seconds else "not measured"
        print(f"{size:7} processes: simulated {found:8.3f} s, {measured}")
    if PREDICTED in seconds:
        results.add(prediction, "ratio", [abs(found / seconds[PREDICTED] - 1)], 0.25)
    else:
        results.add_failed(prediction, "ratio", 0.25, "no run to compare with")
    if not simulate_large:
        return None
    large = simulate(build, costs, RANKS, RANKS_PER_HOST, CORES_PER_HOST, LATENCY, BANDWIDTH)
    tree = simulate(build, costs, RANKS, RANKS_PER_HOST, CORES_PER_HOST, LATENCY, BANDWIDTH, FAN_OUT)
    print(f"{RANKS} ranks: {ASSUMPTIONS}\n  as it is: {large:.1f} s; if each host asked the store once, and the table "
          f"went along a tree of hosts: {tree:.1f} s")
    return results.add(f"{RANKS} ranks, simulated start-up", "s", [large], 10.0)
