# shellcheck shell=bash
# Two hosts as network namespaces joined by a veth pair, for scripts to source: `two_namespaces` makes $left, which is
# 198.18.0.1, and $right, which is 198.18.0.2. They go when the script exits; what else is to be done then is the
# script's own function `clean`.
skip() {
  echo "skipped: $1"
  exit 77
}

left=tutti-$$-left
right=tutti-$$-right

remove_namespaces() {
  clean
  ip netns del "$left" 2>/dev/null
  ip netns del "$right" 2>/dev/null
}

two_namespaces() {
  [ "$(id -u)" = 0 ] || skip "needs root to make network namespaces; run it with sudo"
  command -v ip >/dev/null || skip "needs ip; apt install iproute2"
  trap remove_namespaces EXIT
  ip netns add "$left" 2>/dev/null || skip "this machine does not allow network namespaces"
  ip netns add "$right" 2>/dev/null || skip "this machine does not allow a second network namespace"
  ip -n "$left" link add tutti0 type veth peer name tutti0 netns "$right" || skip "this kernel has no veth"
  ip -n "$left" addr add 198.18.0.1/30 dev tutti0
  ip -n "$right" addr add 198.18.0.2/30 dev tutti0
  local name
  for name in "$left" "$right"; do
    ip -n "$name" link set lo up
    ip -n "$name" link set tutti0 up
  done
  # The kernel tells of a new carrier up to a second late.
  for name in "$left" "$right"; do
    for _ in $(seq 100); do
      ip -n "$name" link show tutti0 | grep -q 'state UP' && break
      sleep 0.05
    done
  done
}
