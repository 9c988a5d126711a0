# shellcheck shell=bash
# Hosts as network namespaces, for scripts to source. `add_namespace NAME` makes one; `two_namespaces` makes two joined
# by a veth pair: $left, which is 198.18.0.1, and $right, which is 198.18.0.2. All go when the script exits; what else
# is to be done then is the script's own function `clean`.
skip() {
  echo "skipped: $1"
  exit 77
}

namespaces=()

remove_namespaces() {
  clean
  local name
  for name in "${namespaces[@]}"; do ip netns del "$name" 2>/dev/null; done
}

add_namespace() {
  [ "$(id -u)" = 0 ] || skip "needs root to make network namespaces; run it with sudo"
  command -v ip >/dev/null || skip "needs ip; apt install iproute2"
  trap remove_namespaces EXIT
  ip netns add "$1" 2>/dev/null || skip "this machine does not allow another network namespace"
  namespaces+=("$1")
  ip -n "$1" link set lo up
}

# The kernel tells of a new carrier up to a second late.
await_carrier() {
  local name=$1 device=$2
  for _ in $(seq 100); do
    ip -n "$name" link show "$device" | grep -q 'state UP' && break
    sleep 0.05
  done
}

left=tutti-$$-left
right=tutti-$$-right

two_namespaces() {
  add_namespace "$left"
  add_namespace "$right"
  ip -n "$left" link add tutti0 type veth peer name tutti0 netns "$right" || skip "this kernel has no veth"
  ip -n "$left" addr add 198.18.0.1/30 dev tutti0
  ip -n "$right" addr add 198.18.0.2/30 dev tutti0
  local name
  for name in "$left" "$right"; do ip -n "$name" link set tutti0 up; done
  for name in "$left" "$right"; do await_carrier "$name" tutti0; done
}
