# shellcheck shell=bash
# The network namespace that is the cluster's whole world: nothing outside sees the pods, nothing inside gets out.

make_network() {
  ip netns add "$ns"
  inside ip link set lo up
  # An empty bridge holds the node's address, because not every kernel has the dummy device.
  inside ip link add "$node" type bridge
  inside ip addr add "$node_ip/24" dev "$node"
  inside ip link set "$node" up
  inside ip route add default dev "$node"
  inside sysctl -qw net.ipv4.ip_forward=1
}

remove_network() {
  ip netns del "$ns" 2>/dev/null || true
}
