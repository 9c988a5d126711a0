#!/usr/bin/env bash
# Topologies, bounds, simulations and synthesized programs by the tutti command: synthesis_test.sh TUTTI CASE
set -euo pipefail
tutti=$1
# shellcheck source=tests/cli/check.sh
. "$(dirname "$0")/check.sh"

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

"$2"
