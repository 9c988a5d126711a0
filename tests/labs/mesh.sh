#!/bin/bash
# Hosts on one switch, whose every ordered pair has a rate of its own. `make_mesh HOSTS` makes hosts as network
# namespaces, numbered from 0, each with the interface mesh; host N is 198.18.0.(N+1). `shape HOST KBIT RATE...` has a
# host send at most KBIT per second in sum, and to host 0, 1, ... at most the RATE in that place, also in kilobits.
# Sourced, it gives these functions. Run, `mesh.sh HOSTS`, it makes the hosts, prints a line `host N NAMESPACE` for each
# and then `ready`, and obeys the lines of its input: a function and its arguments, each answered by `done`, or by
# `failed`. At the end of its input all is removed.

# shellcheck source=tests/labs/namespaces.sh
. "$(dirname "${BASH_SOURCE[0]}")/namespaces.sh"

mesh_hosts=0

mesh_host() { echo "tutti-$$-mesh$1"; }

make_mesh() {
  mesh_hosts=$1
  command -v tc >/dev/null || skip "needs tc; apt install iproute2"
  local switch=tutti-$$-meshswitch host name
  add_namespace "$switch"
  ip -n "$switch" link add core type bridge || skip "this kernel has no bridge"
  ip -n "$switch" link set core up
  for host in $(seq 0 $((mesh_hosts - 1))); do
    name=$(mesh_host "$host")
    add_namespace "$name"
    ip -n "$name" link add mesh type veth peer name "port$host" netns "$switch" || skip "this kernel has no veth"
    ip -n "$switch" link set "port$host" master core
    ip -n "$switch" link set "port$host" up
    ip -n "$name" addr add "198.18.0.$((host + 1))/24" dev mesh
    # What the kernel hands down at once passes an idle bucket for nothing, and blocks small messages behind it.
    ip -n "$name" link set mesh gso_max_size 1514
    ip -n "$name" link set mesh up
    # BBR takes the first packets through a token bucket for the speed of the path.
    ip netns exec "$name" sh -c 'cd /proc/sys/net/ipv4 && echo cubic >tcp_congestion_control ||
      echo reno >tcp_congestion_control' 2>/dev/null
  done
  for host in $(seq 0 $((mesh_hosts - 1))); do await_carrier "$(mesh_host "$host")" mesh; done
}

# A class may always send at its own rate, whatever its parent is left with; so the rates that are given to classes sum
# to the port's, and each may borrow up to its pair's. Bursts hide burst/rate of time: one packet.
shape() {
  local host=$1 port=$2 sum=0 name to share rates=("${@:3}")
  name=$(mesh_host "$host")
  rates[host]=0
  for to in "${!rates[@]}"; do sum=$((sum + rates[to])); done
  tc -n "$name" qdisc del dev mesh root 2>/dev/null
  {
    echo "qdisc add dev mesh root handle 1: htb default 1"
    echo "class add dev mesh parent 1: classid 1:2 htb rate ${port}kbit ceil ${port}kbit burst 1600 cburst 1600" \
      "quantum 60000"
    for to in "${!rates[@]}"; do
      [ "$to" = "$host" ] && continue
      share=$((rates[to] * 1000 * port / (sum > port ? sum : port)))
      echo "class add dev mesh parent 1:2 classid 1:$((to + 16)) htb rate ${share}bit ceil ${rates[to]}kbit" \
        "burst 100 cburst 100 quantum 1514"
      echo "filter add dev mesh parent 1: protocol ip prio 1 u32 match ip dst 198.18.0.$((to + 1))/32" \
        "flowid 1:$((to + 16))"
    done
  } | tc -n "$name" -batch -
}

if [ "$0" = "${BASH_SOURCE[0]}" ]; then
  clean() { :; }
  make_mesh "$1"
  for number in $(seq 0 $((mesh_hosts - 1))); do echo "host $number $(mesh_host "$number")"; done
  echo ready
  while read -ra words; do
    if "${words[@]}"; then echo "done"; else echo "failed"; fi
  done
fi
