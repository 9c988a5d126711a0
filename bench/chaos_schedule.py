"""What bench/chaos.py does to a job, and when: a pure function of the seed and of the time to run.

A schedule leaves the job a way to go on. A host has no rail for a second at most; a rank is stopped for less than a
tenth of the heartbeat time-out; ranks are killed one at a time, and replaced; a rank that is short of descriptors is not
in the middle of taking in a newcomer. At points of calm everything is undone, so that ranks can count what they hold.
"""

import random
from collections import namedtuple

# What ranks do themselves, and log; the rest is in SCRIPTED.
OWN = ("allocate", "split and abort")

Event = namedtuple("Event", "at kind seconds words")
# How often a kind comes (seconds from the end of one to the next), how long it lasts, and how it is drawn.
Kind = namedtuple("Kind", "gap lasts draw")

RANKS = 4
RAILS = 2
FIRST_CALM = 18  # seconds; then every CALM_EVERY
CALM_EVERY = 60
AFTER_KILL = 5  # seconds without limits of descriptors,
BEFORE_KILL = 0.5  # and so many before it


def hosts_of(seed):
    """The host of each rank, numbered from 1. Two ranks of a host share memory, and the ports of the host."""
    return random.Random(f"{seed} hosts").choice(([1, 1, 2, 2], [1, 1, 2, 3], [1, 2, 3, 4]))


def draw_port_down(draw, seed):
    host = draw.choice(hosts_of(seed))
    both = draw.random() < 0.12
    return (host, "both" if both else draw.randrange(RAILS)), (0.05, 1.0) if both else None


def draw_silence(draw, seed):
    host = draw.choice(hosts_of(seed))
    if draw.random() < 0.12:
        return (host, "both", "both"), (0.1, 1.0)
    return (host, draw.randrange(RAILS), draw.choice(("in", "out", "both", "both"))), None


def draw_reset(draw, seed):
    return (draw.choice(hosts_of(seed)), draw.choice((0, 1, "all"))), None


def draw_handshake_reset(draw, seed):
    """The host, and milliseconds between one reset and the next."""
    return (draw.choice(hosts_of(seed)), *(draw.choice((1, 3, 10, 30)) for _ in range(draw.randint(2, 5)))), None


def draw_rate(draw, seed):
    return (draw.choice(hosts_of(seed)), draw.randrange(RAILS), draw.choice((20, 50, 100, 200))), None


def draw_rank(draw, _):
    return (draw.randrange(RANKS),), None


def draw_victim(draw, seed):
    """One rank is spared, so that a process lives from the first fault to the last and shows what adds up."""
    spared = random.Random(f"{seed} spared").randrange(RANKS)
    return (draw.choice([rank for rank in range(RANKS) if rank != spared]),), None


def draw_limit(draw, _):
    """The rank, and how many descriptors it may have beyond those that it has."""
    return (draw.randrange(RANKS), draw.randint(0, 4)), None


def draw_strangers(draw, _):
    """Connections to each port in each second, and the seed of what they say."""
    return (draw.choice((5, 20, 60)), draw.randrange(1 << 30)), None


def draw_loops(draw, _):
    return (draw.choice((1, 2, 4)),), None


SCRIPTED = {
    "port down": Kind((1.5, 5), (0.05, 2.5), draw_port_down),
    "silent loss": Kind((2, 6), (0.1, 2.5), draw_silence),
    "reset": Kind((1, 5), (0, 0), draw_reset),
    "reset in handshake": Kind((2, 7), (0, 0), draw_handshake_reset),
    "rate": Kind((2, 6), (1, 4), draw_rate),
    "stop": Kind((2, 6), (0.05, 1.4), draw_rank),
    "kill and join": Kind((9, 16), (0, 0), draw_victim),
    "strangers": Kind((2, 6), (1, 4), draw_strangers),
    "descriptor limit": Kind((2, 5), (0.5, 3), draw_limit),
    "busy loops": Kind((3, 7), (1, 5), draw_loops),
}
KINDS = (*SCRIPTED, *OWN)


def events_of_kind(seed, name, seconds):
    kind, draw = SCRIPTED[name], random.Random(f"{seed} {name}")
    at = draw.uniform(0.5, kind.gap[0] + 2)
    while at < seconds - 1:
        words, lasts = kind.draw(draw, seed)
        length = round(draw.uniform(*(lasts or kind.lasts)), 3)
        yield Event(round(at, 3), name, length, words)
        at += length + draw.uniform(*kind.gap)


def apart_from_kills(event, kills):
    """A limit of descriptors that lies between two kills; None if there is no room for it."""
    after = max((kill for kill in kills if kill <= event.at), default=-AFTER_KILL) + AFTER_KILL
    at = max(event.at, after)
    room = min((kill for kill in kills if kill > event.at), default=float("inf")) - BEFORE_KILL - at
    return event._replace(at=round(at, 3), seconds=round(min(event.seconds, room), 3)) if room > 0.3 else None


def without_conflicts(events):
    """One thing at a time happens to the ports of a host, to the rate of a port, to the process and to the descriptors of
    a rank."""
    kills = [event.at for event in events if event.kind == "kill and join"]
    until, kept = {}, []
    for event in events:
        if event.kind == "descriptor limit":
            event = apart_from_kills(event, kills)
            if event is None:
                continue
        keys = {"port down": event.words[:1], "silent loss": event.words[:1], "rate": event.words[:2],
                "stop": event.words[:1], "descriptor limit": event.words[:1]}
        if event.kind in keys:
            what = "port" if event.kind in ("port down", "silent loss") else event.kind
            key = (what, *keys[event.kind])
            if event.at < until.get(key, 0):
                continue
            until[key] = event.at + event.seconds + 0.3
        kept.append(event)
    return kept


def calms(seconds):
    """When the job is left alone, so that what ranks hold can be counted; the end comes besides."""
    return [at for at in range(FIRST_CALM, int(seconds) - 10, CALM_EVERY)]


def schedule(seed, seconds):
    events = [event for name in SCRIPTED for event in events_of_kind(seed, name, seconds)]
    events = without_conflicts(sorted(events))
    return sorted(events + [Event(float(at), "calm", 0, ()) for at in calms(seconds)])


def print_schedule(seed, seconds):
    print(f"seed {seed}, {seconds:g} s, ranks on hosts {' '.join(map(str, hosts_of(seed)))}")
    for event in schedule(seed, seconds):
        words = " ".join(map(str, event.words))
        lasts = f"{event.seconds:6.3f} s" if event.seconds else " " * 8
        print(f"{event.at:8.3f} s  {event.kind:20} {lasts}  {words}".rstrip())
