"""Whether a job that was disturbed did what it must: what its journals say, held against what was done to it."""

from collections import Counter, namedtuple

from chaos_job import HEARTBEAT
from chaos_schedule import KINDS

WINDOW = 30  # seconds, in any of which LEAST_KINDS are active
LEAST_KINDS = 6
WARM_STEPS = 60  # that a process has done before what it holds is compared
SLACK = 1.0  # Deadlines::kSlack of chaos_rank
DEATH_KNOWN = HEARTBEAT + 10  # seconds after a kill within which its loss may be met

# What a process may hold at its last quiet point beyond what it held at its first. After a reset both ends of a session of
# the control plane may have dialed, and both connections stay; a lifeline whose other end is gone stays, too. There are
# three peers. Heaps of threads grow with what they met. A leak grows with the faults, of which there are hundreds.
Allowance = namedtuple("Allowance", "descriptors threads mappings megabytes")
ALLOWED = Allowance(descriptors=6, threads=0, mappings=20, megabytes=8)


def own_intervals(job):
    """What ranks did themselves, as (kind, begin, end), and how often."""
    kinds = {"allocate": "allocate", "deallocate": "allocate", "split": "split and abort", "abort": "split and abort"}
    done = [(line.text, line.at) for process in job.all for line in process.journal.lines if line.word == "did"]
    seconds = {(kinds[what], int(at)) for what, at in done}
    return [(kind, at, at) for kind, at in seconds], Counter(what for what, _ in done)


def least_kinds(intervals, start, end):
    """The fewest kinds that were active in any window of the run, and when that began."""
    moments = [start + step for step in range(max(1, int(end - start - WINDOW) + 1))]
    found = [(len({kind for kind, begin, over in intervals if begin <= moment + WINDOW and over >= moment}), moment)
             for moment in moments]
    return min(found)


def unjustified(job, faults):
    """Errors that nothing explains, as text."""
    kills = sorted(process.killed_at for process in job.all if process.killed_at)
    found = []
    for process in job.all:
        explained = set()
        for line in process.journal.lines:
            if line.word == "lost":
                kill = max((at for at in kills if at <= line.at), default=None)
                if kill is None or kill in explained or line.at - kill > DEATH_KNOWN:
                    found.append(f"{process.name} lost a rank that nobody killed: {line.text}")
                explained.add(kill)
            elif line.word in ("regrow", "left") and not faults.was_reset(line.at):
                found.append(f"{process.name} was not grown though no connection was reset: {line.text}")
            elif line.word == "refused" and not faults.limited(line.at):
                found.append(f"{process.name} was refused though it had descriptors: {line.text}")
            elif line.word == "late":
                found.append(f"{process.name} passed a deadline: {line.text}")
            elif line.word == "violation":
                found.append(f"{process.name}: {line.text}")
    return found


def overdue(job):
    """Of all calls the one that came nearest to its deadline, or went farthest beyond: (seconds beyond, what)."""
    found = [(-float("inf"), "no call")]
    for process in job.all:
        for line in process.journal.lines:
            if line.word in ("longest", "late"):
                what, seconds, limit = line.text.rsplit(" ", 2)
                found.append((float(seconds) - float(limit), f"{what}, {process.name}"))
    return max(found)


def longest_calls(job):
    """{what: (seconds, limit)}, the longest of each kind on any rank."""
    found = {}
    for process in job.all:
        for line in process.journal.lines:
            if line.word == "longest":
                what, seconds, limit = line.text.rsplit(" ", 2)
                found[what] = max(found.get(what, (0, 0)), (float(seconds), float(limit)))
    return found


def quiet_points(process):
    """What a process held at each, once it was warm: what it needs is touched and allocated in its first steps."""
    steps, found = 0, []
    for line in process.journal.lines:
        steps += line.word == "step"
        if line.word == "measured" and steps >= WARM_STEPS:
            found.append(list(map(int, line.text.split()))[1:])
    return found


def growth(job):
    """The most that any process held at its last quiet point beyond its first, and how many were compared."""
    points = [found for found in map(quiet_points, job.all) if len(found) > 1]
    grown = [[after - before for before, after in zip(found[0], found[-1])] for found in points]
    most = [max(values) for values in zip(*grown)] if grown else [0, 0, 0, 0]
    return Allowance(most[0], most[1], most[2], most[3] / 1024), len(points)


def row(what, unit, measured, target, met):
    return {"what": what, "unit": unit, "measured": round(measured, 3), "target": target, "met": bool(met)}


def rows_of(job, faults, start, end, broken):
    """The rows of one run, and its violations as text. `broken`: what the script met itself."""
    own, done = own_intervals(job)
    violations = broken + unjustified(job, faults)
    counts = dict(faults.counts)
    counts["allocate"] = min(done["allocate"], done["deallocate"])
    counts["split and abort"] = min(done["split"], done["abort"])
    faults.details["meetings that were reset and held again"] = max(
        sum(line.word == "regrow" for line in process.journal.lines) for process in job.all)
    rows = [row(f"{kind}: times", "times", counts.get(kind, 0), 1, counts.get(kind, 0) >= 1) for kind in KINDS]
    kinds, _ = least_kinds(faults.intervals + own, start, end)
    rows.append(row(f"kinds active in any {WINDOW} s, least", "kinds", kinds, LEAST_KINDS, kinds >= LEAST_KINDS))
    steps = max((process.journal.last_number("step", 0) for process in job.all), default=0)
    rows.append(row("steps, every result right to the bit", "steps", steps, 1, steps >= 1))
    beyond, what = overdue(job)
    rows.append(row(f"longest call beyond its deadline ({what})", "s", beyond, SLACK, beyond <= SLACK))
    grown, compared = growth(job)
    for name, value, allowed in zip(Allowance._fields, grown, ALLOWED):
        rows.append(row(f"{name} more at the end, worst of {compared} processes", name, value, allowed,
                        value <= allowed and compared > 0))
    violations += [f"{each['what']}: {each['measured']}, expected {each['target']}" for each in rows if not each["met"]]
    rows.append(row("violations", "", len(violations), 0, not violations))
    return rows, violations
