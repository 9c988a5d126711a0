#!/bin/bash
# Two hosts of two ranks, each rank with a network port of its own. A rank whose port is down goes on by way of the
# other one of its host, for longer than a silent rank may live, and nobody counts it as dead.
# Usage: relay.sh PATH/failover_rank
set -u
down=5         # seconds
pause_ms=4000  # the longest that operations may pause; most of it is for busy machines

# shellcheck source=tests/labs/rails.sh
. "$(dirname "$0")/rails.sh"
# shellcheck source=tests/labs/ranks.sh
. "$(dirname "$0")/ranks.sh"
make_rails 4 1

# The longest time, in milliseconds, between two operations of a rank from a line of its log on.
longest_pause() {
  tail -n "+$2" "$folder/log$1" | awk 'NR > 1 && $1 - last > most { most = $1 - last } { last = $1 }
    END { printf "%d\n", most / 1e6 }'
}

# Of the given ranks. The last one's operations are looked at. With `in_turn` operations go on between one and the next.
without_ports() {
  local rank what="ports of ranks $*${in_turn:+, one after the other,}" from end paused
  for rank in "$@"; do
    [ -z "${in_turn:-}" ] || flows "$what about to go down" >/dev/null
    port_down $((rank + 1)) 0
  done
  from=$(wc -l <"$folder/log$rank")
  end=$(($(milliseconds) + 1000 * down))
  while [ "$(milliseconds)" -lt $end ]; do flows "$what down" >/dev/null; done
  for rank in "$@"; do port_up $((rank + 1)) 0; done
  flows "$what up again"
  paused=$(longest_pause "$rank" "$from")
  echo "$what down for $down s: operations paused for $paused ms at most"
  [ "$paused" -le $((pause_ms + between_ms)) ] || fail "rank $rank paused for $paused ms"
}

export TUTTI_HEARTBEAT_TIMEOUT=2
start_ranks "$1" a a b b
flows "all well"
in_turn=yes without_ports 0 3  # one passes a connection on already when the way behind it goes silent
without_ports 0    # it dials the others,
without_ports 3    # they dial this one,
without_ports 0 3  # and here two pass it on
flows "the end"
end_ranks
