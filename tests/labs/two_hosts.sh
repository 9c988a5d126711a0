#!/bin/bash
# Collectives across two hosts, each a network namespace with two ranks, joined by a veth pair: held against the
# reference of tests/integration. Usage: two_hosts.sh PATH/collectives_check [its options]
set -u
check=$1
shift

skip() {
  echo "skipped: $1"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "needs root to make network namespaces; run it with sudo"
command -v ip >/dev/null || skip "needs ip; apt install iproute2"

left=tutti-$$-left
right=tutti-$$-right
ranks=()
clean() {
  [ ${#ranks[@]} -gt 0 ] && kill "${ranks[@]}" 2>/dev/null
  ip netns del $left 2>/dev/null
  ip netns del $right 2>/dev/null
}
trap clean EXIT
ip netns add $left 2>/dev/null || skip "this machine does not allow network namespaces"
ip netns add $right
ip -n $left link add tutti0 type veth peer name tutti0 netns $right || skip "this kernel has no veth"
ip -n $left addr add 198.18.0.1/30 dev tutti0
ip -n $right addr add 198.18.0.2/30 dev tutti0
for name in $left $right; do
  ip -n $name link set lo up
  ip -n $name link set tutti0 up
done
# The kernel says a moment later that the link carries.
for _ in $(seq 100); do
  ip -n $left link show tutti0 | grep -q 'state UP' && ip -n $right link show tutti0 | grep -q 'state UP' && break
  sleep 0.02
done

# The kernel tells of a new carrier up to a second late.
for name in $left $right; do
  for _ in $(seq 100); do
    ip -n $name link show tutti0 | grep -q 'state UP' && break
    sleep 0.05
  done
done

export TUTTI_SIZE=4 TUTTI_ADDRESS=198.18.0.1:29400
TUTTI_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export TUTTI_SECRET
for rank in 0 1 2 3; do
  name=$([ $rank -lt 2 ] && echo $left || echo $right)
  # The namespaces share a kernel: the host's identity tells the ranks that they do not share a host.
  TUTTI_RANK=$rank TUTTI_HOST_ID=$name ip netns exec $name timeout 100 "$check" "$@" &
  ranks+=($!)
done
status=0
for rank in 0 1 2 3; do
  wait "${ranks[$rank]}" || { echo "rank $rank failed"; status=1; }
done
ranks=()
exit $status
