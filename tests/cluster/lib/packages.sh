# shellcheck shell=bash
# What the machine must have. Installed where this is Debian and we are root, named otherwise.

packages=(
  buildah skopeo runc debootstrap containernetworking-plugins
  nftables iptables conntrack iproute2 procps util-linux openssl
  gcc libc6-dev ca-certificates curl python3-venv redis-server
)
programs=(buildah skopeo runc debootstrap nft iptables conntrack ip sysctl nsenter flock setsid openssl gcc go python3 redis-server)

missing_packages() {
  local name
  for name in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || echo "$name"
  done
}

missing_programs() {
  local name
  for name in "${programs[@]}"; do command -v "$name" >/dev/null || echo "$name"; done
  [ -x /usr/lib/cni/bridge ] || echo /usr/lib/cni/bridge
}

lacks() { # everything at once, a line for each kind of thing, so that nobody is told the next one only after the first
  local names
  [ "$(id -u)" -eq 0 ] || echo "root: network namespaces, mounts and cgroups are the cluster's ground"
  command -v go >/dev/null || echo "Go: a recent one (tests/cluster/go/*/go.mod say which)"
  if command -v dpkg-query >/dev/null; then
    mapfile -t names < <(missing_packages)
    [ ${#names[@]} -eq 0 ] || echo "Debian packages: ${names[*]}"
  else
    mapfile -t names < <(missing_programs)
    [ ${#names[@]} -eq 0 ] || echo "programs: ${names[*]}"
  fi
}

name_lacks() {
  local lacking
  mapfile -t lacking < <(lacks)
  [ ${#lacking[@]} -eq 0 ] || die "missing on this machine:$(printf '\n  %s' "${lacking[@]}")"
}

install_packages() {
  local names
  if command -v dpkg-query >/dev/null && command -v go >/dev/null && [ "$(id -u)" -eq 0 ]; then
    mapfile -t names < <(missing_packages)
    [ ${#names[@]} -eq 0 ] || step "installing Debian packages: ${names[*]}" apt_install "${names[@]}"
  fi
  name_lacks
}

apt_install() {
  local log=$home/apt.log
  mkdir -p "$home"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
    </dev/null >"$log" 2>&1 || { tail -20 "$log" >&2; die "apt-get failed; the whole log is $log"; }
}

require_host() {
  [ "$(id -u)" -eq 0 ] || name_lacks
  local names
  mapfile -t names < <(missing_programs)
  [ ${#names[@]} -eq 0 ] || die "missing: ${names[*]} (tests/cluster/cluster packages installs what Debian has)"
}
