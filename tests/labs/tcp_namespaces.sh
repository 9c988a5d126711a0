#!/bin/bash
# One stream of a TCP link against iperf3, and an 8-byte ping-pong against a bare socket, between two network
# namespaces joined by a veth pair. Rounds of both are interleaved. The machine may be twice as fast in one round as in
# the next, so the link is held against iperf3 of the same round, and the median of these shares counts; of latencies
# the best. Usage: tcp_namespaces.sh PATH/tcp_probe [rounds] [least share of iperf3, percent]
set -u
probe=$1
rounds=${2:-5}
share=${3:-90}

# shellcheck source=tests/labs/namespaces.sh
. "$(dirname "$0")/namespaces.sh"
folder=
iperf_server=
pong=
clean() {
  [ -n "$iperf_server" ] && kill "$iperf_server" 2>/dev/null
  [ -n "$pong" ] && kill "$pong" 2>/dev/null
  [ -n "$folder" ] && rm -rf "$folder"
}
two_namespaces
for tool in iperf3 taskset; do
  command -v $tool >/dev/null || skip "needs $tool; apt install iperf3 util-linux"
done
folder=$(mktemp -d)
mkdir "$folder/meeting"

# Each side keeps to a core of its own, where there are two: sharing one measures the scheduler.
cores=($(taskset -cp $$ | sed 's/.*: //' | tr ',' ' ' | awk '{ split($1, r, "-"); split($NF, q, "-"); print r[1], q[length(q)] }'))
on_left="ip netns exec $left taskset -c ${cores[0]}"
on_right="ip netns exec $right taskset -c ${cores[1]}"
# One stream each, and both hand the kernel large pieces: iperf3's own 128 KiB cost it up to half its rate.
export TUTTI_TCP_LANES=1
iperf_round() {
  $on_right timeout 20 iperf3 -s -1 -p 5201 >/dev/null 2>&1 &
  iperf_server=$!
  for _ in $(seq 50); do
    $on_left timeout 20 iperf3 -c 198.18.0.2 -p 5201 -t 1 -l 1M -J >"$folder/iperf" 2>/dev/null && break
    sleep 0.1
  done
  wait "$iperf_server"
  iperf_server=
  sed -n '/"sum_received"/,/}/s/.*"bits_per_second":[^0-9]*\([0-9.e+]*\).*/\1/p' "$folder/iperf" |
    awk '{ printf "stream_iperf3_GBps %.3f\n", $1 / 8e9 }'
}
probe_round() {
  rm -f "$folder"/meeting/*
  $on_right timeout 20 "$probe" pong "$folder/meeting" 198.18.0.2 "$@" &
  pong=$!
  $on_left timeout 20 "$probe" ping "$folder/meeting" 198.18.0.1 "$@"
  wait "$pong"
  pong=
}

for _ in $(seq "$rounds"); do
  iperf_round
  probe_round 500
done >"$folder/figures"
cat "$folder/figures"
awk -v share="$share" '
  function end_round() { if (iperf && link) shares[++count] = 100 * link / iperf; iperf = link = 0 }
  $1 == "stream_iperf3_GBps" { end_round(); iperf = $2 }
  $1 == "stream_GBps" && $2 > link { link = $2 }
  $1 == "one_way_us" { if (!bare || $3 < bare) bare = $3; if (!small || $5 < small) small = $5 }
  END {
    end_round()
    if (!count) { print "no figures"; exit 1 }
    for (i = 1; i <= count; ++i)
      for (j = i + 1; j <= count; ++j)
        if (shares[j] > shares[i]) { other = shares[i]; shares[i] = shares[j]; shares[j] = other }
    median = shares[int((count + 1) / 2)]  # the upper one of two
    printf "link / iperf3, median of %d rounds: %.0f %%; 8 bytes one way: link %.2f us, bare socket %.2f us\n",
           count, median, small, bare
    exit median < share
  }' "$folder/figures"
