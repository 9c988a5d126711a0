#!/usr/bin/env bash
# One behaviour of `tutti trace`: trace_test.sh TUTTI TRACE_CHECK CASE
set -euo pipefail
tutti=$1
check=$2
work=$(mktemp -d)
run=
export TUTTI_MONITOR_DIR=$work/recordings
unset TUTTI_SECRET TUTTI_SECRET_FILE
cd "$work"

end_ranks() {
  [ -z "$run" ] || kill "$run" 2>/dev/null || true
  [ -z "$run" ] || wait "$run" 2>/dev/null || true
  run=
}
clean() {
  end_ranks
  rm -rf "$work"
}
trap clean EXIT

fail() {
  echo "FAILED: $*"
  for file in out err ranks; do
    if [ -f "$file" ]; then sed "s/^/  $file: /" "$file"; fi
  done
  exit 1
}

# Waits for a condition, not for a time; ctest's limit ends it when it never comes.
wait_until() {
  local deadline=$((SECONDS + 30))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || fail "not within 30 s: $*"
    sleep 0.01
  done
}

recordings() { find "$work" -name '*.rec' | sort; }
are_recorded() { [ "$(recordings | wc -l)" = "$1" ]; }

# Two ranks that reduce until they are ended; the command line of a rank is evaluated by a shell.
start_ranks() {
  "$tutti" run -n 2 --grace 1 -- sh -c "$1 exec '$tutti' bench all_reduce -b $2 -e $2 -c 0 -n 100000000 -T 0" \
    >ranks 2>&1 &
  run=$!
  wait_until are_recorded 2
}

expect_status() {
  local wanted=$1 got=0
  shift
  "$@" >out 2>err || got=$?
  [ "$got" = "$wanted" ] || fail "exit status $got, expected $wanted: $*"
}

# A trace that holds to the rules, with such events.
expect_trace() {
  local found
  found=$("$check" "$@") || fail "$found"
}

follows_ranks() {
  start_ranks "" 256K
  expect_status 0 "$tutti" trace -o job.json --seconds 1
  grep -qE '^job.json: [0-9]{2,} operations, [0-9]{2,} steps, .* of 2 ranks$' out || fail "no summary"
  expect_trace job.json X:all_reduce "X:waiting for others" X:step i:communicator_created M:process_name s:
}

shows_what_a_killed_rank_did() {
  start_ranks "" 64K
  local first second
  first=$(basename "$(recordings | head -1)")
  second=$(basename "$(recordings | tail -1)")
  kill -STOP "${second%%-*}"
  hangs() {
    sleep 0.1
    # Benches meet in barriers, too, and the other may hang in one.
    { "$tutti" status || true; } | grep -qE " ${first%%-*} .* all_reduce #[0-9]+ .* rank [01]$" &&
      "$tutti" trace -o hung.json && "$check" hung.json "X:all_reduce (under way)" "X:waiting for rank" && return
    # It was stopped elsewhere, as in a barrier.
    kill -CONT "${second%%-*}"
    sleep 0.05
    kill -STOP "${second%%-*}"
    return 1
  }
  wait_until hangs
  kill -KILL "${first%%-*}"
  is_killed() {
    "$tutti" trace -o killed.json && "$check" killed.json "X:all_reduce (killed in it)" "X:waiting for rank"
  }
  wait_until is_killed
  expect_trace killed.json
}

merges_hosts() {
  mkdir recordings
  # shellcheck disable=SC2016  # for the ranks to expand
  start_ranks 'export TUTTI_HOST_ID=host$TUTTI_RANK TUTTI_MONITOR_DIR=$TUTTI_MONITOR_DIR/$TUTTI_RANK;' 64K
  # Ranks of a bench seldom wait for one another: an arrow may take a few tries.
  has_arrows() {
    "$tutti" trace -o host1.json --seconds 1 --dir recordings/1 2>err &
    local other=$!
    "$tutti" trace -o host0.json --seconds 1 --dir recordings/0 2>err0 && wait "$other" &&
      "$tutti" trace --merge host0.json host1.json -o job.json && "$check" job.json X:all_reduce s:
  }
  wait_until has_arrows
  expect_status 0 "$tutti" trace --merge host0.json host1.json -o job.json
  grep -qx 'job.json: 2 traces as one' out || fail "no summary"
  expect_trace host0.json X:all_reduce
  [ "$("$check" job.json >/dev/null && grep -c '"process_name"' job.json)" = 2 ] || fail "not the ranks of both hosts"
}

nothing_to_trace() {
  expect_status 1 "$tutti" trace -o job.json
  grep -q "no recordings in $work/recordings" err || fail "it does not say where it looked"
  [ ! -e job.json ] || fail "a file of nothing"
  expect_status 2 "$tutti" trace
  expect_status 2 "$tutti" trace -o job.json --seconds soon
  expect_status 1 "$tutti" trace -o /no/such/folder/job.json --seconds 0.01
  echo "{}" >other.json
  expect_status 1 "$tutti" trace --merge other.json -o job.json
  grep -q "'other.json' was not written by tutti trace" err || fail "the wrong file is not named"
  expect_status 1 "$tutti" trace --merge other.json -o other.json
}

"$3"
