#!/usr/bin/env bash
# One behaviour of the tutti command: run_test.sh TUTTI CASE
set -euo pipefail
tutti=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset TUTTI_SECRET TUTTI_SECRET_FILE

fail() {
  echo "FAILED: $*" >&2
  for file in out err; do
    if [ -f "$file" ]; then sed "s/^/  $file: /" "$file" >&2; fi
  done
  exit 1
}

# expect_status WANTED COMMAND...: runs it with its output in out and err.
expect_status() {
  local wanted=$1 got=0
  shift
  "$@" >out 2>err || got=$?
  [ "$got" -eq "$wanted" ] || fail "exit status $got, expected $wanted: $*"
}

expect_line() {
  grep -qxE -- "$2" "$1" || fail "no line '$2' in $1"
}

# Waits for a condition, not for a time; ctest's limit ends it when it never comes.
wait_until() {
  until "$@" 2>/dev/null; do sleep 0.01; done
}

is_gone() {
  [ ! -d "/proc/$1" ] || grep -q '^State:[[:space:]]*Z' "/proc/$1/status"
}

numbers_ranks() {
  expect_status 0 "$tutti" run -n 3 -- sh -c \
    'echo "$TUTTI_RANK of $TUTTI_SIZE, local $TUTTI_LOCAL_RANK of $TUTTI_LOCAL_SIZE at $TUTTI_ADDRESS"'
  for rank in 0 1 2; do
    expect_line out "\[$rank\] $rank of 3, local $rank of 3 at 127\.0\.0\.1:[0-9]+"
  done
  [ "$(grep -oE '127[0-9.:]+' out | sort -u | wc -l)" -eq 1 ] || fail "ranks disagree on the address"
}

prefixes_lines() {
  expect_status 0 "$tutti" run -n 11 sh -c 'printf "a\nno end"; printf "oops\n" >&2'
  expect_line out '\[ 3\] a'
  expect_line out '\[10\] no end'
  expect_line err '\[ 0\] oops'
  # Long lines written in pieces by several ranks at once stay whole.
  expect_status 0 "$tutti" run -n 4 bash -c 'for i in $(seq 200); do printf "%s" aaaa; printf "%s\n" "$TUTTI_RANK-end"; done'
  [ "$(grep -cxE '\[([0-3])\] aaaa\1-end' out)" -eq 800 ] || fail "lines were mixed"
}

plain_lines() {
  expect_status 0 "$tutti" run -n 2 --no-prefix echo hello
  [ "$(cat out)" = $'hello\nhello' ] || fail "not two plain lines"
}

names_killed_rank() {
  expect_status 137 "$tutti" run -n 3 sh -c 'if [ "$TUTTI_RANK" = 2 ]; then kill -9 $$; fi; exec sleep 60'
  expect_line err 'tutti run: rank 2 \(pid [0-9]+\) was killed by signal 9 \(Killed\); ending the others'
  [ "$(wc -l <err)" -eq 1 ] || fail "the others, ended by us, are not failures of their own"
}

first_failure() {
  expect_status 3 "$tutti" run -n 3 sh -c 'if [ "$TUTTI_RANK" = 1 ]; then exit 3; fi; exec sleep 60'
  expect_line err 'tutti run: rank 1 \(pid [0-9]+\) exited with status 3; ending the others'
}

keep_going() {
  mkfifo gate
  # Rank 0 ends only after rank 1 has failed: it is not ended for it.
  "$tutti" run -n 2 --keep-going sh -c \
    'if [ "$TUTTI_RANK" = 1 ]; then exit 5; fi; read line <gate; echo "still here"' >out 2>err &
  launcher=$!
  wait_until grep -q 'rank 1 .* exited with status 5' err
  echo go >gate
  status=0
  wait "$launcher" || status=$?
  [ "$status" -eq 5 ] || fail "exit status $status, expected 5"
  expect_line out '\[0\] still here'
  expect_line err 'tutti run: rank 0 \(pid [0-9]+\) exited with status 0'
}

both_ready() {
  [ "$(grep -c ready out)" = 2 ]
}

forwards_signals() {
  for signal in USR1 USR2 HUP TERM INT; do
    rm -f out err  # what the signal before left must not count as ready
    # A background job of a script ignores SIGINT, and what it starts too; a trap cannot undo that, env can.
    env --default-signal=INT "$tutti" run -n 2 bash -c \
      'trap "echo got '$signal'; exit 0" '$signal'; echo ready; while :; do sleep 0.02; done' >out 2>err &
    launcher=$!
    wait_until both_ready
    kill -"$signal" "$launcher"
    status=0
    wait "$launcher" || status=$?
    [ "$status" -eq 0 ] || fail "$signal: exit status $status"
    expect_line out "\[0\] got $signal"
    expect_line out "\[1\] got $signal"
  done
}

kills_after_grace() {
  expect_status 4 "$tutti" run -n 2 --grace 0.2 bash -c \
    'if [ "$TUTTI_RANK" = 0 ]; then until [ -e deaf ]; do sleep 0.01; done; exit 4; fi
     trap "" TERM; touch deaf; while :; do sleep 0.02; done'
  expect_line err 'tutti run: one rank is still there after 0.2 s; killing it'
}

# Starts a job of $1 ranks that nothing but SIGKILL ends, with the options that follow; waits until it is deaf.
start_deaf() {
  local ranks=$1
  shift
  # A background job of a script ignores SIGINT; env undoes that.
  env --default-signal=INT "$tutti" run -n "$ranks" "$@" bash -c \
    'trap "" TERM INT; echo ready; while :; do sleep 0.02; done' >out 2>err &
  launcher=$!
  wait_until sh -c "[ \$(grep -c ready out) = $ranks ]"
}

# expect_end STATUS: how the launcher ends.
expect_end() {
  local status=0
  wait "$launcher" || status=$?
  [ "$status" -eq "$1" ] || fail "exit status $status, expected $1"
}

stops_when_told() {
  "$tutti" run -n 3 sh -c 'echo ready; exec sleep 60' >out 2>err &
  launcher=$!
  wait_until sh -c '[ $(grep -c ready out) = 3 ]'
  kill "$launcher"
  expect_end 143
  expect_line err 'tutti run: told to stop by SIGTERM; ending 3 ranks'
  [ "$(wc -l <err)" -eq 1 ] || fail "ranks are blamed for what the launcher was told"
}

kills_after_grace_when_told() {
  start_deaf 2 --grace 0.3
  kill "$launcher"
  expect_end 143
  expect_line err 'tutti run: told to stop by SIGTERM; ending 2 ranks'
  expect_line err 'tutti run: ranks are still there after 0.3 s; killing them'
}

kills_when_told_twice() {
  start_deaf 2 --grace 600
  kill -INT "$launcher"
  wait_until grep -q 'Ctrl-C again to kill' err
  kill -INT "$launcher"
  expect_end 130
  expect_line err 'tutti run: told to stop by SIGINT; ending 2 ranks \(Ctrl-C again to kill\)'
}

ends_what_ranks_started() {
  expect_status 6 "$tutti" run -n 2 --grace 1 bash -c \
    'if [ "$TUTTI_RANK" = 1 ]; then until [ -s pid ]; do sleep 0.01; done; exit 6; fi; sleep 60 & echo $! >pid; wait'
  wait_until is_gone "$(cat pid)"
}

no_orphans() {
  "$tutti" run -n 2 sh -c 'echo $$ >"pid.$TUTTI_RANK"; exec sleep 60' >out 2>err &
  launcher=$!
  wait_until test -s pid.0
  wait_until test -s pid.1
  kill -9 "$launcher"
  wait "$launcher" 2>/dev/null || true
  wait_until is_gone "$(cat pid.0)"
  wait_until is_gone "$(cat pid.1)"
}

input_to_rank_zero() {
  echo words | "$tutti" run -n 3 cat >out 2>err || fail "exit status $?"
  [ "$(cat out)" = "[0] words" ] || fail "standard input did not go to rank 0 alone"
}

bad_usage() {
  expect_status 2 "$tutti" run -n 0 true
  grep -q '0 not in range' err || fail "the bad value is not named"
  expect_status 2 "$tutti" run -n 2
  grep -q 'no program given' err || fail "no word about the missing program"
  expect_status 127 "$tutti" run -n 2 ./not-there
  expect_line err "tutti run: cannot run './not-there': No such file or directory"
  expect_status 2 "$tutti" bench all_reduce -b 12X
  grep -q "'12X' is not a size" err || fail "the bad size is not named"
  expect_status 2 "$tutti" bench all_reduce -d float99
  grep -q "'float99' is not known" err || fail "the bad type is not named"
  expect_status 2 "$tutti" bench all_reduce -b 4K -e 1K
  expect_status 2 "$tutti" nonsense
}

secret_is_fresh() {
  expect_status 0 "$tutti" run -n 2 --no-prefix sh -c 'echo "$TUTTI_SECRET"'
  [ "$(sort -u out | wc -l)" -eq 1 ] || fail "ranks have different secrets"
  expect_line out '[0-9a-f]{64}'
  cp out first
  expect_status 0 "$tutti" run -n 2 --no-prefix sh -c 'echo "$TUTTI_SECRET"'
  ! cmp -s out first || fail "two jobs have the same secret"
  TUTTI_SECRET=given expect_status 0 "$tutti" run -n 1 --no-prefix sh -c 'echo "$TUTTI_SECRET"'
  expect_line out given
}

# A file that was named must give a secret, and a poor secret is warned of.
judges_secrets() {
  local run=("$tutti" run -n 2 --no-prefix -- "$tutti" bench all_reduce -b 8 -e 8 -n 1)
  expect_status 1 env TUTTI_SECRET_FILE=./not-there "${run[@]}"
  grep -q "TUTTI_SECRET_FILE='./not-there' cannot be read: No such file or directory" err || fail "no word of the file"
  (umask 077 && : >empty)
  expect_status 1 env TUTTI_SECRET_FILE=empty "${run[@]}"
  grep -q "TUTTI_SECRET_FILE='empty' holds no secret" err || fail "no word of the empty file"
  expect_status 1 env TUTTI_SECRET_FILE=empty "$tutti" env
  (umask 022 && echo 0123456789abcdef0123456789abcdef >open)
  expect_status 0 env TUTTI_SECRET_FILE=open "${run[@]}"
  grep -q "can be read or written by other users (mode 644)" err || fail "a file that all can read was not warned of"
  chmod 600 open
  expect_status 0 env TUTTI_SECRET_FILE=open "${run[@]}"
  ! grep -q secret err || fail "a good file was warned of"
  expect_status 0 env TUTTI_SECRET=short "${run[@]}"
  grep -q 'fewer than 16 can be guessed' err || fail "a short secret was not warned of"
  # Reports are shared: what is secret does not go into them.
  expect_status 0 env TUTTI_SECRET=a-long-enough-secret TUTTI_UNIQUE_ID=holds-a-secret TUTTI_SPIN_US=21 \
    "$tutti" bench all_reduce -t 2 -b 8 -e 8 -n 1 -J report.json
  grep -q TUTTI_SPIN_US=21 report.json || fail "no environment in the report"
  ! grep -q -e a-long-enough-secret -e holds-a-secret report.json || fail "a secret in the report"
}

# With the same launcher, a rank that has another secret is told at once.
refuses_wrong_secret() {
  local port
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID=test
  RANK=0 LOCAL_RANK=0 TUTTI_SECRET=0123456789abcdef0123456789abcdef TUTTI_JOIN_TIMEOUT=110 \
    "$tutti" bench all_reduce -b 8 -e 8 -n 1 >out.0 2>err.0 &
  local first=$!
  expect_status 1 env RANK=1 LOCAL_RANK=1 TUTTI_SECRET=fedcba9876543210fedcba9876543210 TUTTI_JOIN_TIMEOUT=110 \
    timeout 60 "$tutti" bench all_reduce -b 8 -e 8 -n 1
  grep -q 'turned us away: it has a different secret' err || fail "no word of the secret"
  kill "$first"
  wait "$first" || true
  [ "$(wc -l <err.0)" -le 2 ] || fail "more than a line a second at rank 0: $(cat err.0)"
}

binds_cores() {
  expect_status 0 "$tutti" run -n 2 --bind --no-prefix sh -c 'nproc'
  [ "$(sort -u out)" = 1 ] || fail "ranks are not pinned to one core each"
}

other_commands() {
  expect_status 0 "$tutti" version
  expect_line out 'tutti [0-9]+\.[0-9]+\.[0-9]+'
  expect_status 0 env TUTTI_LOG=info "$tutti" env
  grep -qE '^TUTTI_LOG +info .*\(default: warn\)' out || fail "tutti env does not show a changed value"
  expect_status 1 env TUTTI_SPIN_US=many TUTTI_SPINN_US=1 "$tutti" env
  grep -q "TUTTI_SPIN_US='many' cannot be read" out || fail "tutti env hides a bad value"
  grep -q 'did you mean TUTTI_SPIN_US' out || fail "tutti env hides an unknown name"
  expect_status 0 "$tutti" doctor --json
  grep -q '"cross-memory attach"' out || fail "tutti doctor --json lacks a topic"
  expect_status 1 "$tutti" program check ./not-there.json
  grep -q 'not-there.json' err || fail "the missing file is not named"
}

synthesis() {
  expect_status 0 "$tutti" synth --topology ndv2 --nodes 2 --collective all_gather,all_to_all --size 1K..1M --step 1024 \
    --time 5 --quiet -o plans
  expect_line out "all_gather .* size +simulated us .*"
  for file in topology.json report.json report.html all_gather.0.json all_gather.0.xml bounds/all_gather.0.json; do
    [ -s "plans/$file" ] || fail "no $file"
  done
  "$tutti" topo check plans/bounds/all_gather.0.json plans/topology.json >/dev/null || fail "a bound that is none"
  "$tutti" program check plans/all_gather.0.xml >/dev/null || fail "the XML is wrong"
  grep -q '"generator"' plans/report.json || fail "no rows in the report"

  expect_status 2 "$tutti" synth --topology ndv2 --collective all_gahter
  expect_line err ".*'all_gahter' is no collective; expected all, or .*"
  expect_status 2 "$tutti" synth --topology ndv2 --collective all_gather --size 1M..1K
  expect_line err ".*'1M\.\.1K' goes downwards"
  expect_status 1 "$tutti" synth --topology ndv2 --collective all_gather --size 1M -o /proc/nowhere
  expect_line err ".*/proc/nowhere: cannot be made: .*"
  expect_status 1 "$tutti" synth --topology ndv2 --collective all_gather --sketch sketch.json
  expect_line err ".*--sketch goes with a topology file of TACCL's.*"
  expect_status 1 "$tutti" synth --topology ndv2 --collective all_gather --method magic --size 1M
  expect_line err ".*'magic' is no method; there are .*"
}

# What is wrong with a file is told with its line and why.
synthesis_of_wrong_files() {
  local examples
  examples=$(dirname "$0")/../../examples
  "$tutti" topo show ring:4 --json >ring.json
  sed 's/"25 GB\/s"/"0 GB\/s"/' ring.json >idle.json
  expect_status 1 "$tutti" synth --topology idle.json --collective all_gather
  expect_line err ".*idle\.json: line [0-9]+: links\[0\]\.bandwidth: is 0; .*"
  local at
  at=$(sed -n 's/.*idle\.json: line \([0-9]*\):.*/\1/p' err)
  sed -n "${at}p" idle.json | grep -q '"0 GB/s"' || fail "line $at is another"
  python3 - <<'END'
import json
ring = json.load(open("ring.json"))
ring["links"] = [link for link in ring["links"] if "gpu3" not in (link["from"], link["to"])]
json.dump(ring, open("apart.json", "w"), indent=1)
END
  expect_status 1 "$tutti" synth --topology apart.json --collective all_gather
  expect_line err ".*apart\.json: line [0-9]+: vertices\[3\]: disconnected: no path .* GPU 3 \('gpu3'\)"
  sed 's/"0": \[1\]/"9": [1]/' "$examples/sketches/sk1-ndv2-n2.json" >sketch.json
  expect_status 1 "$tutti" synth --topology "$examples/topologies/taccl/topo-ndv2-1MB.json" --sketch sketch.json \
    --collective all_gather
  expect_line err ".*sketch\.json: line 4: internode_sketch\.internode_conn\.9: GPU 9 is out of range; the node has 8"
}

# A thousand ranks that differ by a translation: one part stands for all, in the file as in the simulator.
synthesis_of_many_ranks() {
  expect_status 0 "$tutti" synth --topology torus2d:32x32 --collective all_gather --size 1G --quiet -o plans
  local told
  told=$(awk '$1 == 1 && $2 == "GB" { print $3 }' out)
  [ -n "$told" ] || fail "no time was told"
  grep -q '"moved_by": \[\[1, 32\], \[32, 32\]\]' plans/all_gather.0.json || fail "every rank has its own part"
  expect_status 0 "$tutti" simulate plans/all_gather.0.json --topology torus2d:32x32 --size 1G
  [ "$(awk '$1 == 1 && $2 == "GB" { print $3 }' out)" = "$told" ] || fail "the file takes another time than $told us"
}

# Ranks run what a folder of plans holds, and notice when theirs differ.
plans() {
  expect_status 0 "$tutti" synth --topology ring:size=4 --collective all_gather --size 1M --method trees --quiet -o plans
  export TUTTI_MONITOR_DIR=$work/recordings
  TUTTI_PLANS=$work/plans "$tutti" bench all_gather -N 4 -b 1M -e 1M -n 100000000 -w 1 >out 2>err &
  local bench=$!
  wait_until sh -c "'$tutti' status --json | grep -q packed_trees"
  kill "$bench"
  wait "$bench" || true

  expect_status 1 "$tutti" run -n 4 sh -c '
    if [ "$TUTTI_RANK" = 2 ]; then unset TUTTI_PLANS; else export TUTTI_PLANS='"$work"'/plans; fi
    exec '"$tutti"' bench all_gather -b 1M -e 1M -n 1'
  grep -q 'files of TUTTI_PLANS' err || fail "different plans were not noticed"
}

# What is found before an interrupt is kept.
synthesis_interrupted() {
  "$tutti" synth --topology dgx-a100 --nodes 4 --collective all_reduce --size 1K,64K --gap 0 --time 60 -o plans \
    >out 2>err &
  local synth=$!
  wait_until grep -q 'takes' err
  kill -INT "$synth"
  local status=0
  wait "$synth" || status=$?
  [ "$status" -eq 130 ] || fail "exit status $status, expected 130"
  grep -q 'the best so far is kept' err || fail "nothing was said of the interrupt"
  [ -s plans/all_reduce.0.json ] || fail "no program was kept"
}

topologies() {
  expect_status 0 "$tutti" topo list
  expect_line out 'dgx-a100 .*'
  expect_status 0 "$tutti" topo show ndv2 --nodes 2 --json -o ndv2.json
  expect_status 0 "$tutti" topo show ndv2.json -o ndv2.svg
  grep -q '<svg' ndv2.svg || fail "no picture was drawn"
  expect_status 0 "$tutti" topo bound ndv2 --nodes 2 -o proofs
  expect_line out 'all_gather .* 25\.000'
  # What was proven of the builtin is proven of its file, and of nothing else.
  expect_status 0 "$tutti" topo check proofs/all_gather.0.json ndv2.json
  expect_line out 'proven: all_gather .* B / 25 GB/s'
  expect_status 1 "$tutti" topo check proofs/all_gather.0.json dgx-a100 --nodes 2
  grep -q 'rejected' err || fail "a certificate of another topology was taken"
  sed 's/"rate": "0.00000000004"/"rate": "0.00000000005"/' proofs/all_gather.0.json >tampered.json
  expect_status 1 "$tutti" topo check tampered.json ndv2.json
  grep -q 'claims 0.00000000005 seconds per byte' err || fail "a tampered certificate was taken"
  expect_status 0 "$tutti" topo trees torus2d:size=8x8 -o trees.json
  expect_line out '64 ranks, 1 of them stand for all'
  grep -q '"tutti trees 1"' trees.json || fail "no trees were written"
  expect_status 1 "$tutti" topo show no-such-topology
  grep -q 'no-such-topology' err || fail "the missing topology is not named"
}

measures_topology() {
  expect_status 0 "$tutti" topo measure -n 3 --time 3 -o machine.json
  for pair in '0 +1' '1 +0' '0 +2' '2 +0' '1 +2' '2 +1'; do expect_line out " *$pair +[0-9.]+ .*"; done
  grep -q 'ports towards ranks of the same host' out || fail "nothing is said of ports"
  [ "$(grep -c '"gpu"' machine.json)" -eq 3 ] || fail "not three ranks"
  # What is written is a topology that other commands take, with figures that a machine can have.
  expect_status 0 "$tutti" topo bound machine.json --collective all_gather --size 1M
  awk '$1 == "all_gather" { seen = 1; exit !($2 > 1 && $2 < 1e6) } END { if (!seen) exit 1 }' out ||
    fail "1 MB among three ranks of a machine in no time, or in more than a second"
  # In a job, as its ranks; measurements as JSON on standard output.
  expect_status 0 "$tutti" run --no-prefix -n 2 -- "$tutti" topo measure --time 2 --sizes 8,64K,1M --json
  grep -q '"format": "tutti measurements 1"' out || fail "no measurements"
  [ "$(grep -c '"bytes": 65536' out)" -ge 2 ] || fail "not every pair at every size"
  expect_status 2 "$tutti" topo measure -n 2 --sizes 8
  grep -q 'two sizes' err || fail "one size was taken"
  expect_status 2 "$tutti" topo measure -n 1
}

simulations() {
  # A ring of 8: seven rounds of 0.7 us and an eighth of the vector at 25 GB/s.
  expect_status 0 "$tutti" simulate ring --collective all_gather --topology ring:8 --size 8000,1G
  expect_line out ' *7.81 KB +5\.18 .*'
  expect_line out ' *1 GB +37585\..* 100\.0 % +56'
  expect_line out ' *100\.0 %  gpu0 -> gpu1 \(link\)'
  expect_status 0 "$tutti" simulate ring --collective all_gather --topology ring:8 --size 1M -o line.svg --trace line.json
  grep -q '<svg' line.svg || fail "no timeline was drawn"
  [ "$(python3 -c 'import json; print(sum(e["ph"] == "X" for e in json.load(open("line.json"))["traceEvents"]))')" = 56 ] ||
    fail "not a slice for each piece"
  expect_status 0 "$tutti" simulate ring --collective all_gather --topology ring:8 --size 1M --json
  python3 -c 'import json; row, = json.load(open("out")); assert row["pieces"] == 56 and row["gap"] > 0' || fail "JSON"
  expect_status 0 "$tutti" simulate nccl_ring --collective all_gather --topology ndv2:nodes=2
  expect_line out ' *1 GB +80531\..*'
  # What cannot run there is a finding; what cannot be understood is a mistake of the caller.
  expect_status 1 "$tutti" simulate ring --collective all_gather --topology torus2d:4x4
  grep -q 'no route from gpu3 to gpu4' err || fail "the missing route is not named"
  expect_status 1 "$tutti" simulate nccl_direct --collective all_to_all --topology torus2d:4x4
  grep -q 'no nccl_direct for all_to_all' err || fail "the missing reference is not named"
  expect_status 1 "$tutti" simulate ring --topology ring:8
  grep -q 'say --collective' err || fail "not told what is missing"
  expect_status 2 "$tutti" simulate ring --collective all_gather --topology ring:8 --size 1Q
  expect_status 2 "$tutti" simulate ring --collective all_gather --topology ring:8 --size 1K,1M -o line.svg
}

# What a rank uses is told at info, and which program runs at debug.
describes_itself() {
  local run=("$tutti" run -n 2 --no-prefix -- "$tutti" bench all_reduce -b 1K -e 1K -n 1 -w 0)
  expect_status 0 "${run[@]}"
  ! grep -q 'tutti info' err || fail "the default level tells what a rank uses"
  expect_status 0 env TUTTI_LOG=info "${run[@]}"
  for rank in 0 1; do
    expect_line err ".* tutti info: rank $rank of 2.*, tutti [0-9.]+: pid [0-9]+ on .*, local rank $rank of 2, 1 host, .*"
    expect_line err ".* tutti info: rank $rank transport: shared memory to rank $((1 - rank)).*"
    expect_line err ".* tutti info: rank $rank programs: .*"
  done
  [ "$(grep -c 'tutti info' err)" -le 10 ] || fail "more than five lines a rank"
  ! grep -q 'tutti debug' err || fail "info tells what debug does"
  expect_status 0 env TUTTI_LOG=debug TUTTI_SHM=0 "${run[@]}"
  expect_line err '.* tutti info: rank 0 listens for data on .*:[0-9]+ \([a-z0-9]+\).*; at least [0-9]+ lanes? to each peer, all carry'
  expect_line err '.* tutti info: rank 0 transport: TCP to rank 1'
  expect_line err '.* tutti debug: rank 0 to rank 1: TCP to .*:[0-9]+; .*'
  expect_line err '.* tutti debug: rank 1: all_reduce of 256 x float32: program [a-z_]+ .*'
}

# What cannot be written is an error, and a device stays a device.
full_disk() {
  mknod full c 1 7 2>/dev/null && mknod null c 1 3 && { : >null; } 2>/dev/null || {
    echo "skipped: no device can be made here (needs root, and a file system that allows it)"
    exit 77
  }
  local ring=$(dirname "$0")/../../examples/programs/ring_all_reduce_4.xml
  expect_status 0 "$tutti" simulate ring --collective all_gather --topology ring:8 --size 1M --trace line.json
  local command
  for command in "topo show ndv2 --json -o" "topo show ndv2 -o" "topo trees torus2d:size=4x4 -o" "program show $ring --svg" \
    "bench all_reduce -t 2 -b 8 -e 8 -n 1 -J" "simulate ring --collective all_gather --topology ring:8 --size 1M -o" \
    "simulate ring --collective all_gather --topology ring:8 --size 1M --trace" \
    "trace --merge line.json -o"; do
    expect_status 1 "$tutti" $command full
    grep -q 'No space left on device' err || fail "no word about the full disk: $command"
    [ -c full ] || fail "a device was replaced: $command"
    expect_status 0 "$tutti" $command null
    [ -c null ] || fail "a device was replaced: $command"
  done
  ls *.part 2>/dev/null && fail "a draft was left behind"
  # Standard output counts as well.
  for command in "env" "version" "topo show ndv2 --json" "topo list" "--help"; do
    local got=0
    "$tutti" $command >/dev/full 2>err || got=$?
    [ "$got" -eq 1 ] || fail "exit status $got with a full disk as standard output: $command"
    grep -q 'No space left on device' err || fail "no word about the full disk: $command"
  done
  [ -c /dev/full ] || fail "/dev/full was replaced"
}

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
