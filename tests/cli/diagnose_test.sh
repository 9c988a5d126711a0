#!/usr/bin/env bash
# What `tutti diagnose` says of real ranks that go wrong: diagnose_test.sh TUTTI DIAGNOSED_RANK CASE [FAKE_NVML]
set -euo pipefail
tutti=$1
rank=$2
fake=${4:-}
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

# A fake NVML with a GPU for each rank, of which that of rank 2 is described by the arguments, a line each.
write_gpus() {
  local pids each
  pids=$(python3 -c 'import json, sys
for job in json.load(sys.stdin)["jobs"]:
  for world in job["communicators"]:
    if len(world["ranks"]) == 4:
      print(*(rank["pid"] for rank in sorted(world["ranks"], key=lambda rank: rank["rank"])))
      sys.exit()' <<<"$("$tutti" status --json || true)")
  local rank=0
  for each in $pids; do
    printf 'gpu\nname Fake GPU\npids %s\n' "$each"
    [ "$rank" -ne 2 ] || printf '%s\n' "$@"
    rank=$((rank + 1))
  done >gpus.next
  [ "$rank" -eq 4 ] || fail "the ranks' pids: $pids"
  mv gpus.next gpus
}

# Whether the verdict's sentence has this text.
says() {
  finds "$1" && grep -qF "$2" verdict
}

throttled_gpu() {
  export TUTTI_NVML=$fake FAKE_NVML_STATE=$PWD/gpus
  start_job --fault late --rank 2 --step 0
  write_gpus 'clock 1980'
  names straggler 2
  ! grep -q GPU verdict || fail "its GPU is well: $(cat verdict)"
  write_gpus 'clock 1005' 'throttle 0x48'
  wait_until says straggler 'its GPU 2 runs at 1,005 of 1,980 MHz, hardware thermal slowdown'
  names straggler 2
  python3 - <<'EOS' || fail "the evidence: $(cat verdict)"
import json
found = json.load(open("verdict"))["found"][0]
assert found["evidence"]["gpu"] == 2 and found["evidence"]["gpu_clock_mhz"] == 1005 and found["confidence"] == 0.99
EOS
  "$tutti" doctor >out || true  # what it says of this machine otherwise is not the point
  grep -qE 'warn  GPU 2 .* 1005 of 1980 MHz.*; held back by hardware thermal slowdown' out || fail "what doctor says"
}

lost_gpu() {
  export TUTTI_NVML=$fake FAKE_NVML_STATE=$PWD/gpus
  start_job --fault die --rank 2 --step -1
  write_gpus
  "$tutti" diagnose --watch 0.1 --record looks >changes 2>&1 &
  watch=$!
  wait_until grep -q '"gpus":' looks
  write_gpus 'lost' 'xid 2 79'
  wait_until grep -q '"xids":' looks
  touch begin
  wait_until grep -q 'crashed: rank 2 .*; its GPU 2 reported XID 79 (it has fallen off the bus)' changes
}

broken_nvml() {
  export TUTTI_NVML=$fake FAKE_NVML_STATE=$PWD/gpus
  echo 'init 9' >gpus
  start_job
  expect_status 0 "$tutti" diagnose
  [ "$(grep -c 'warning: .*NVML error 9' err)" -eq 1 ] || fail "it is said once: $(cat err)"
  TUTTI_NVML=none expect_status 0 "$tutti" diagnose
  [ ! -s err ] || fail "nobody asked: $(cat err)"
  touch stop
  wait "$job" || true
  job=
}

# Ranks are stages of a pipeline, which send and receive.
start_stages() {
  "$tutti" diagnose --watch 0.3 >changes 2>&1 &
  watch=$!
  start_job --pipeline 8 --milliseconds 5 --step 0 "$@"
}

slow_stage() {
  start_stages --fault late --rank 2 --late 5
  wait_until grep -qE '^[0-9:]+ straggler: rank 2 ' changes
  sleep 3
  [ "$(grep -c straggler changes)" -eq 1 ] || fail "it alone is told: $(cat changes)"
}

even_stages() {
  start_stages
  sleep 10
  ! grep -q . changes || fail "nothing is wrong: $(cat changes)"
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
