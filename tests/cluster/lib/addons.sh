# shellcheck shell=bash
# Pods that come with the cluster: a real CoreDNS, so that pods find Services by name, and a real Prometheus, which
# finds the encoder servers' replicas through the API.

dns() {
  program_image coredns
  add_on coredns kube-system kube-dns:ready/proxy/ready
}

prometheus() { add_on prometheus monitoring prometheus:http/proxy/-/ready; }

add_on() { # add_on NAME NAMESPACE PATH : PATH is what its Service answers as soon as it works
  [ -f "$run/admin.kubeconfig" ] || die "no cluster is up (tests/cluster/cluster up starts it)"
  local name=$1 namespace=$2 path=/api/v1/namespaces/$2/services/$3 wanted
  wanted=$({ cat "$here/$name.yaml" "$home/images/$name.digest"; } | digest)
  [ "$(cat "$run/$name.digest" 2>/dev/null)" = "$wanted" ] && answers "$path" && return
  step "starting $name" start_add_on "$name" "$namespace" "$path" "$wanted"
  echo "$wanted" >"$run/$name.digest"
}

start_add_on() { # the digest is in the pods' template, so that a changed configuration starts them anew
  sed "s/DIGEST/$4/" "$here/$1.yaml" | kubectl apply -f - >/dev/null
  kubectl -n "$2" rollout status "deployment/$1" --timeout=150s >/dev/null
  until_true 30 "$1 to answer" answers "$3"
}

answers() { kubectl get --raw "$1" >/dev/null 2>&1; }
