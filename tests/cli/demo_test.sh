#!/usr/bin/env bash
# Scenes of `tutti demo`: demo_test.sh TUTTI CASE
set -euo pipefail
tutti=$1
# shellcheck source=tests/cli/check.sh
. "$(dirname "$0")/check.sh"

# The sentences at the end of the scene with the rails, on standard output only.
expect_story() {
  expect_line out '          rail1 down'
  expect_line out 'rail1 went down: traffic flowed again after [0-9]+ ms, over rail0 alone\.'
  expect_line out 'It came up again, .*'
  expect_line out 'Bandwidth: [0-9.]+ Gb/s before, [0-9.]+ without it, [0-9.]+ after\.'
  expect_line out "[0-9]+ $1, every result right\\."
  [ ! -s err ] || fail "something on standard error"
}

demo_simulated_rails() {
  expect_status 0 "$tutti" demo --scene rails --simulated --seconds 2
  expect_story chunks
  expect_line out 'Bandwidth: (1\.9|2\.0).* (0\.9|1\.0).* (1\.9|2\.0).* after\.'
}

demo_synthesis() {
  expect_status 0 "$tutti" demo --scene synthesis
  grep -q 'synthesized' out || fail "nothing was synthesized"
  [ "$(grep -c '^  rank ' out)" -eq 8 ] || fail "no row for each rank"
  grep -q 'verified' out || fail "it did not run"
}

demo_simulated_disturbance() {
  expect_status 0 "$tutti" demo --scene disturbance --simulated
  expect_line out 'The monitor: lane 1 dropped from (0\.9|1\.0).* to 0\.(4|5).* Gb/s \((4|5)[0-9] %\) for (19|20|21)\..* ms,'
  expect_line out 'from [01]\.[0-9] ms (before|after) the rail was made slow: the path was congested\.'
  [ ! -s err ] || fail "something on standard error"
}

demo_disturbance() {
  expect_status 0 "$tutti" demo --scene disturbance
  skip_without_rails
  expect_line out 'broadcast of 8M between two hosts \(network namespaces\) with two rails'
  expect_line out '.*rail1 slow.*as before'
  expect_line out 'The monitor.*'
}

# The rank that was stopped is named, alone; then it is over.
demo_diagnosis() {
  expect_status 0 "$tutti" demo --scene diagnosis --simulated
  expect_line out ' +[0-9.]+ s  rank 2 gets SIGSTOP'
  expect_line out ' +[0-9.]+ s  frozen: rank 2 \(pid [0-9]+ on .*\) is stopped.*'
  expect_line out ' +[0-9.]+ s  over: frozen, after .*'
  [ ! -s err ] || fail "something on standard error"
}

demo_without_root() {
  local as_nobody=()
  if [ "$(id -u)" = 0 ]; then as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups); fi
  chmod 755 "$work"
  "${as_nobody[@]}" "$tutti" version >out 2>err || { echo "skipped: others may not run $tutti"; exit 77; }
  expect_status 0 "${as_nobody[@]}" "$tutti" demo --scene rails --seconds 2
  expect_line out 'no rails of our own here \(network namespaces need root\); simulated instead'
  expect_story chunks
}

skip_without_rails() {
  if grep -q '^no rails of our own here' out; then
    echo "skipped: $(head -1 out)"
    exit 77
  fi
}

demo_rails() {
  expect_status 0 "$tutti" demo --scene rails --seconds 2
  skip_without_rails
  expect_story all-reduces
}

demo_rails_interrupted() {
  "$tutti" demo --scene rails --seconds 60 >out 2>err &
  demo=$!
  wait_until grep -q 'goes down' out
  ranks=$(cat "/proc/$demo/task/$demo/children") || true
  kill -TERM "$demo" || true
  status=0
  wait "$demo" || status=$?
  skip_without_rails
  [ "$status" -eq 143 ] || fail "exit status $status"
  [ -n "$ranks" ] || fail "no ranks were started"
  for rank in $ranks; do wait_until is_gone "$rank"; done
}

"$2"
