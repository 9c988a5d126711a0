#!/usr/bin/env python3
"""A process that does not belong to the job and connects to its ports: says nothing or garbage, stays for a while or
leaves at once, with a reset or in order. At most RATE connections a second to each port, 400 open at a time. Prints how
many connections were made.

  stranger.py SEED SECONDS RATE ADDRESS:PORT...
"""

import errno
import random
import select
import socket
import struct
import sys
import time

MOST_OPEN = 400
STEP = 0.05


def knock(draw, target):
    """A connection under way."""
    host, _, port = target.rpartition(":")
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.setblocking(False)
    if draw.random() < 0.5:  # ends by a reset
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if connection.connect_ex((host, int(port))) not in (0, errno.EINPROGRESS):
        connection.close()
        return None
    return connection


def say(draw, connection):
    words = draw.choice((b"", b"", b"let me in\r\n", b"GET / HTTP/1.1\r\n\r\n", draw.randbytes(64), draw.randbytes(4096)))
    try:
        if words:
            connection.send(words)
    except OSError:
        pass  # refused, or turned away


def main():
    draw = random.Random(int(sys.argv[1]))
    end, rate, targets = time.monotonic() + float(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
    made, owed, open_until = 0, 0.0, {}
    while (now := time.monotonic()) < end:
        owed += rate * STEP * len(targets)
        fresh = []
        while owed >= 1 and len(open_until) < MOST_OPEN:
            owed -= 1
            if connection := knock(draw, draw.choice(targets)):
                fresh.append(connection)
                open_until[connection] = now + draw.choice((0.05, 0.2, 1.0, 3.0))
        owed = min(owed, MOST_OPEN)
        _, ready, _ = select.select([], fresh, [], STEP)
        for connection in ready:
            made += connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            say(draw, connection)
        for connection in [each for each, until in open_until.items() if until < now]:
            del open_until[connection]
            connection.close()
        time.sleep(max(0, now + STEP - time.monotonic()))
    print(made)


if __name__ == "__main__":
    main()
