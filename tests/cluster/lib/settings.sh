# shellcheck shell=bash
# Where things are, and the addresses inside. Everything made lives in one folder of the user's cache.

home=${XDG_CACHE_HOME:-$HOME/.cache}/encoderpool
bin=$home/bin
run=$home/run               # all that one run of the cluster makes: gone with `down`
store=$home/containerd      # the image store: stays, so that torch is imported once
layout=$home/layout         # an OCI layout: the way from the builder's store to the cluster's
ns=encoderpool
cgroup=encoderpool
node=node0
node_ip=172.30.0.1
pod_range=10.244.0.0/16
node_pod_range=10.244.0.0/24
service_range=10.96.0.0/16
api_service_ip=10.96.0.1
dns_service_ip=10.96.0.10 # coredns.yaml has it as well
api=https://$node_ip:6443

die() {
  echo "cluster: $*" >&2
  exit 1
}

inside() { nsenter "--net=/run/netns/$ns" "$@"; }
ctr() { CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1 "$bin/ctr" --address "$run/containerd.sock" --namespace k8s.io "$@"; }
kubectl() { inside "$bin/kubectl" --kubeconfig "$run/admin.kubeconfig" "$@"; }

digest() { sha256sum | cut -c1-16; }

files_digest() { # files_digest PATH… : of contents and names in this clone, without what only a build leaves behind
  find "$@" -type f -not -path '*/__pycache__/*' -not -path '*.egg-info/*' -print0 | LC_ALL=C sort -z |
    xargs -0 -r sha256sum | sed "s# $repo/# #" | digest
}

until_true() { # until_true SECONDS WHAT COMMAND… : polls, and says what it waited for when it gives up
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || die "gave up waiting for $what; logs are in $run/log"
    sleep 0.1
  done
}

locked() { # one command at a time; daemons must not inherit the lock (see start)
  mkdir -p "$home"
  exec 9>"$home/lock"
  flock -n 9 || { echo "waiting for another run of this command ..."; flock 9; }
  "$@"
}
