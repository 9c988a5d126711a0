#!/bin/bash
# What is left when not all rails carry: a spare that is used only while the first rail is down, a port that is the only
# one and comes back with another address, and no rail at all, until the deadline.
# Usage: spare.sh PATH/failover_rank
set -u
program=$1

# shellcheck source=tests/labs/rails.sh
. "$(dirname "$0")/rails.sh"
# shellcheck source=tests/labs/ranks.sh
. "$(dirname "$0")/ranks.sh"
make_rails 2

sent() { ip -n "$(host 1)" -s link show "rail$1" | awk '/TX:/ { getline; print $1 }'; }

# Which rail carries now: more than the control plane would.
carries() {
  local before
  before=$(sent "$1")
  flows "$2"
  [ $(($(sent "$1") - before)) -gt 1000000 ]
}

until_carries() {
  local try
  for try in $(seq 30); do
    carries "$1" "$2 ($try)" >/dev/null && return
    sleep 0.1
  done
  fail "$2: rail $1 does not carry"
}

backup() {
  export TUTTI_LANES=backup TUTTI_INTERFACES=rail
  start_ranks "$program" a b
  flows "a spare rail"
  carries 1 "the spare is idle" && fail "the spare carries while the first rail is up"
  port_down 1 0
  until_carries 1 "the spare is used"  # a few operations may be small ones
  port_up 1 0
  until_carries 0 "the first rail is back"
  stop_ranks || exit
}

only_port() {
  export TUTTI_LANES=spread TUTTI_INTERFACES=rail0
  start_ranks "$program" a b
  flows "one rail"
  change_address 2 0 77
  flows "the only port has another address"
  stop_ranks || exit
  change_address 2 0 2
}

no_rail() {
  local rank
  export TUTTI_INTERFACES=rail
  deadline=2
  start_ranks "$program" a b
  flows "two rails"
  port_down 1 0
  port_down 1 1
  for rank in 0 1; do
    wait "${ranks[$rank]}" && fail "rank $rank went on without a rail"
  done
  ranks=()
  grep -h 'no progress' "$folder"/errors* | head -2
  grep -Eq 'lanes from rank [01] to rank [01]: lane 0 .* for [0-9.]+ s: .*, lane 1 .* for' "$folder"/errors* ||
    fail "no error names both ranks and all lanes"
}

backup
only_port
no_rail
