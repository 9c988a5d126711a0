#!/bin/bash
# Collectives across two hosts, each a network namespace with two ranks, joined by a veth pair: held against the
# reference of tests/integration. Usage: two_hosts.sh PATH/collectives_check [its options]
set -u
check=$1
shift

# shellcheck source=tests/labs/namespaces.sh
. "$(dirname "$0")/namespaces.sh"
ranks=()
clean() {
  [ ${#ranks[@]} -gt 0 ] && kill "${ranks[@]}" 2>/dev/null
}
two_namespaces

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
