#!/bin/bash
# One stream of a TCP link against iperf3, and an 8-byte ping-pong against a bare socket, between two network
# namespaces joined by a veth pair. Rounds of both are interleaved and the best of each counts, because other work on
# the machine only ever takes away. Usage: tcp_namespaces.sh PATH/tcp_probe [rounds] [least share of iperf3, percent]
set -u
probe=$1
rounds=${2:-5}
share=${3:-90}

skip() {
  echo "skipped: $1"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "needs root to make network namespaces; run it with sudo"
for tool in ip iperf3 taskset; do
  command -v $tool >/dev/null || skip "needs $tool; apt install iproute2 iperf3 util-linux"
done

here=tutti-$$-a
there=tutti-$$-b
folder=$(mktemp -d)
iperf_server=
clean() {
  [ -n "$iperf_server" ] && kill "$iperf_server" 2>/dev/null
  ip netns del $here 2>/dev/null
  ip netns del $there 2>/dev/null
  rm -rf "$folder"
}
trap clean EXIT
ip netns add $here 2>/dev/null || skip "this machine does not allow network namespaces"
ip netns add $there
ip -n $here link add tutti0 type veth peer name tutti0 netns $there || skip "this kernel has no veth"
ip -n $here addr add 198.18.1.1/24 dev tutti0
ip -n $there addr add 198.18.1.2/24 dev tutti0
for name in $here $there; do
  ip -n $name link set lo up
  ip -n $name link set tutti0 up
done

# Each side keeps to a core of its own, where there are two: sharing one measures the scheduler.
cores=($(taskset -cp $$ | sed 's/.*: //' | tr ',' ' ' | awk '{ split($1, r, "-"); split($NF, q, "-"); print r[1], q[length(q)] }'))
on_here="ip netns exec $here taskset -c ${cores[0]}"
on_there="ip netns exec $there taskset -c ${cores[1]}"
iperf_round() {
  $on_there timeout 20 iperf3 -s -1 -p 5201 >/dev/null 2>&1 &
  iperf_server=$!
  for _ in $(seq 50); do
    $on_here timeout 20 iperf3 -c 198.18.1.2 -p 5201 -t 2 -J >"$folder/iperf" 2>/dev/null && break
    sleep 0.1
  done
  wait "$iperf_server"
  iperf_server=
  sed -n '/"sum_received"/,/}/s/.*"bits_per_second":[^0-9]*\([0-9.e+]*\).*/\1/p' "$folder/iperf" |
    awk '{ printf "stream_iperf3_GBps %.3f\n", $1 / 8e9 }'
}
probe_round() {
  rm -f "$folder"/*
  $on_there timeout 60 "$probe" pong "$folder" 198.18.1.2 "$@" &
  other=$!
  $on_here timeout 60 "$probe" ping "$folder" 198.18.1.1 "$@"
  wait "$other"
}

for _ in $(seq "$rounds"); do
  iperf_round
  probe_round 1000
done | tee "$folder.log"
awk -v share="$share" '
  $1 == "stream_iperf3_GBps" && $2 > iperf { iperf = $2 }
  $1 == "stream_GBps" && $2 > link { link = $2 }
  $1 == "one_way_us" { if (!bare || $3 < bare) bare = $3; if (!small || $5 < small) small = $5 }
  END {
    if (!iperf || !link) { print "no figures"; exit 1 }
    printf "best: link %.3f GB/s, iperf3 %.3f GB/s (%.0f %%); 8 bytes one way: link %.2f us, bare socket %.2f us\n",
           link, iperf, 100 * link / iperf, small, bare
    exit 100 * link < share * iperf
  }' "$folder.log"
status=$?
rm -f "$folder.log"
exit $status
