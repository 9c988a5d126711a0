#!/usr/bin/env bash
# What `tutti diagnose` says of real ranks that go wrong: diagnose_test.sh TUTTI DIAGNOSED_RANK CASE
set -euo pipefail
tutti=$1
rank=$2
# shellcheck source=tests/cli/check.sh
. "$(dirname "$0")/check.sh"
TUTTI_MONITOR_DIR=$(mktemp -d /dev/shm/tutti_test.XXXXXX)
export TUTTI_MONITOR_DIR
job=
watch=
ranks=
trap 'for process in $job $watch $ranks; do kill "$process" 2>/dev/null || true; wait "$process" 2>/dev/null || true; done
  rm -rf "$work" "$TUTTI_MONITOR_DIR"' EXIT

# Four ranks in a training loop; the arguments say what goes wrong.
start_job() {
  "$tutti" run -n 4 --grace 1 --keep-going "$rank" "$@" >job 2>&1 &
  job=$!
  wait_until grep -q ready job
}

# Diagnoses until the class is among the verdicts. The verdict is left in `verdict`, as JSON.
finds() {
  "$tutti" diagnose --json >out 2>err || true
  python3 - "$1" <<'EOS'
import json, sys
verdicts = [verdict for job in json.load(open("out"))["jobs"] for verdict in job["verdicts"]]
found = [verdict for verdict in verdicts if verdict["class"] == sys.argv[1]]
json.dump({"found": found, "others": [v["text"] for v in verdicts if v not in found]}, open("verdict", "w"))
sys.exit(0 if found else 1)
EOS
}

# names CLASS RANK [any-host]: one verdict of this class, which names this rank, and no other verdict.
names() {
  wait_until finds "$1"
  python3 - "$@" <<'EOS' || fail "the verdict: $(cat verdict)"
import json, sys
verdict = json.load(open("verdict"))
assert len(verdict["found"]) == 1 and not verdict["others"], "one verdict"
found = verdict["found"][0]
assert [suspect["rank"] for suspect in found["suspects"]] == [int(sys.argv[2])], "the rank"
assert (found["suspects"][0]["host"] or "any-host" in sys.argv) and found["confidence"] >= (0.5 if "any-host" in sys.argv else 0.6) and found["text"], "whole"
EOS
  expect_status 1 "$tutti" diagnose
}

works() {
  start_job
  for _ in 1 2 3; do expect_status 0 "$tutti" diagnose; done
  expect_line out 'nothing is wrong: 1 job, 4 processes'
  touch stop
  wait "$job" || fail "the job failed"
  job=
  expect_status 0 "$tutti" diagnose
  grep -q "^no recordings in $TUTTI_MONITOR_DIR: " out || fail "nothing said"
}

killed_rank() {
  start_job --fault die --rank 2
  names crashed 2
  # Nobody is left: the recordings still tell.
  kill "$job"
  wait "$job" || true
  job=
  names crashed 2
  grep -qE 'rank 2 \(pid [0-9]+ on .*\) died.*; 3 others saw it' out || fail "what the others saw"
}

stopped_rank() {
  start_job --fault freeze --rank 3
  names frozen 3
}

missing_rank() {
  start_job --fault sit-out --rank 1
  names not_entered 1
  grep -qE 'rank 1 .* has not entered all_reduce #[0-9]+ of .* \(alive, last done #[0-9]+' out || fail "what it has done"
}

# start_rank RANK of four, without a launcher; all meet at port $port.
start_rank() {
  TUTTI_RANK=$1 TUTTI_SIZE=4 TUTTI_ADDRESS=127.0.0.1:$port "$rank" >"rank$1" 2>&1 &
  ranks+=" $!"
}

is_waited_for() {
  "$tutti" status --json >out 2>err || true
  grep -q "making a communicator.*rank[s]* $1 ha" out
}

rank_that_never_starts() {
  local missing present
  for missing in 3 0; do
    port=$("$tutti" run -n 1 -- printenv TUTTI_ADDRESS | sed 's/.*://')
    ranks=
    present="0 1 2 3"
    for each in ${present/$missing/}; do start_rank "$each"; done
    wait_until is_waited_for "$missing"
    names missing_at_start "$missing" any-host
    grep -qE "3 of 4 ranks have waited for .* to make a communicator; rank $missing is (missing|not seen here)" out ||
      fail "the text"
    start_rank "$missing"
    wait_until grep -q ready rank0
    expect_status 0 "$tutti" diagnose
    touch stop
    for each in $ranks; do wait "$each" || fail "rank $each failed"; done
    ranks=
    rm stop
  done
}

straggler() {
  start_job --fault late --rank 2 --step 0
  names straggler 2
}

wrong_call() {
  start_job --fault wrong-call --rank 1
  names mismatched_call 1
  grep -q 'the count differs' out || fail "what differs"
}

recorded() {
  start_job --fault sit-out --rank 1
  wait_until finds not_entered
  expect_status 1 "$tutti" diagnose --record incident.jsonl
  cp out live
  touch stop
  wait "$job" || true
  job=
  expect_status 1 "$tutti" diagnose --replay incident.jsonl
  diff live out >err || fail "the replay says something else"
  expect_status 1 "$tutti" diagnose --replay incident.jsonl --watch --json
  python3 -c 'import json; assert json.loads(open("out").read())["event"] == "began"' || fail "the change"
}

watched() {
  "$tutti" diagnose --watch 0.2 >changes 2>&1 &
  watch=$!
  start_job --fault sit-out --rank 1 --step 5
  wait_until grep -qE '^[0-9:]+ not_entered: rank 1 ' changes
  touch stop
  wait "$job" || true
  job=
  wait_until grep -qE '^[0-9:]+ over after .*: not_entered: rank 1 ' changes
  [ "$(grep -c 'not_entered' changes)" -eq 2 ] || fail "it is told once: $(cat changes)"
  kill -INT "$watch"
  local status=0
  wait "$watch" || status=$?
  watch=
  [ "$status" -eq 130 ] || fail "exit status $status"
}

usage() {
  expect_status 2 "$tutti" diagnose --watch never
  expect_status 2 "$tutti" diagnose --replay ./not-there.jsonl
  echo '{"telemetry": 9}' >strange.jsonl
  expect_status 2 "$tutti" diagnose --replay strange.jsonl
  grep -q 'strange.jsonl, moment 1: line 1: telemetry: version 9 is not known' err || fail "the version"
  : >empty.jsonl
  expect_status 2 "$tutti" diagnose --replay empty.jsonl
  expect_status 2 "$tutti" diagnose --record /nonexistent/file
  expect_status 2 "$tutti" diagnose --replay empty.jsonl --record other.jsonl
}

"$3"
