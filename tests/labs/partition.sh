#!/bin/bash
# Four hosts with a rank each on one switch, which falls apart for longer than the heartbeat time-out, and heals. At most
# one part may go on; the ranks of the others must say why they do not, and nobody may hang.
# Usage: partition.sh PATH/failure_rank
set -u
program=$1

# shellcheck source=tests/labs/rails.sh
. "$(dirname "$0")/rails.sh"
folder=$(mktemp -d)
ranks=()
clean() {
  [ ${#ranks[@]} -gt 0 ] && kill "${ranks[@]}" 2>/dev/null
  rm -rf "$folder"
}
make_rails 4 1

fail() {
  echo "failed: $1"
  tail -n 20 "$folder"/said* "$folder"/errors*
  exit 1
}

# Waits until a file of every rank has a line that matches.
all_say() {
  local pattern=$1 seconds=$2 rank start=$SECONDS
  for rank in 0 1 2 3; do
    until grep -qsE "$pattern" "$folder/said$rank"; do
      [ $((SECONDS - start)) -le "$seconds" ] || fail "$what: rank $rank does not say '$pattern' within $seconds s"
      sleep 0.05
    done
  done
}

start() {
  local rank
  rm -f "$folder"/*
  mkfifo "$folder/stop"
  exec 9<>"$folder/stop"
  export TUTTI_SIZE=4 TUTTI_ADDRESS=198.18.0.1:29400 TUTTI_INTERFACES=rail TUTTI_HEARTBEAT_TIMEOUT=2
  TUTTI_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
  export TUTTI_SECRET
  for rank in 0 1 2 3; do
    TUTTI_RANK=$rank TUTTI_HOST_ID=$(host $((rank + 1))) ip netns exec "$(host $((rank + 1)))" \
      "${usual[@]}" timeout 60 "$program" --shrink --linger "$@" <&9 >"$folder/said$rank" 2>"$folder/errors$rank" 9>&- &
    ranks+=($!)
  done
}

# case WHAT "PARTS" "RANKS THAT GO ON" [OPTION]...
case_of() {
  what=$1
  local parts=$2 survivors=$3 rank count waited=0
  shift 3
  start "$@"
  all_say '^ready' 20
  # shellcheck disable=SC2086  # a word for each host
  divide 0 $parts || fail "$what: the switch cannot be divided here"
  sleep 4
  join 0
  all_say '^(shrunk|failed.*(majority|declared this one dead|presumed dead|could not agree))' 25
  # What was said first is that the call failed; what became of shrink comes after it.
  for rank in 0 1 2 3; do
    until [ "$(grep -cE '^(failed|shrunk)' "$folder/said$rank")" -ge 2 ]; do
      kill -0 "${ranks[$rank]}" 2>/dev/null || break
      [ $((waited += 1)) -le 600 ] || fail "$what: rank $rank hangs in shrink"
      sleep 0.05
    done
  done
  count=$(wc -w <<<"$survivors")
  for rank in 0 1 2 3; do
    if grep -qw "$rank" <<<"$survivors"; then
      grep -q "^shrunk $count " "$folder/said$rank" || fail "$what: rank $rank does not go on with $count ranks"
    else
      grep -q '^shrunk' "$folder/said$rank" && fail "$what: rank $rank goes on, too"
      grep -qE '^failed (no quorum|rank died|timed out).*(no majority|declared|could not agree|without this member)' \
        "$folder/said$rank" || fail "$what: rank $rank does not say why it does not go on"
    fi
  done
  sleep 1  # on a network that is whole again
  echo >&9
  for rank in 0 1 2 3; do
    wait "${ranks[$rank]}"
    local status=$?
    if grep -qw "$rank" <<<"$survivors"; then
      [ $status = 0 ] || fail "$what: rank $rank, which went on, ended with $status"
    else
      [ $status = 1 ] || fail "$what: rank $rank, which could not go on, ended with $status"
    fi
  done
  ranks=()
  exec 9>&-
  echo "$what: ${survivors:-nobody} went on"
}

case_of "2 and 2 ranks" "1 1 2 2" ""
case_of "3 and 1 ranks" "1 1 1 2" "0 1 2"
case_of "1, 1 and 2 ranks" "1 2 3 3" ""
case_of "2 and 2 ranks, those with rank 0 may go on" "1 1 2 2" "0 1" --quorum with_rank_0
