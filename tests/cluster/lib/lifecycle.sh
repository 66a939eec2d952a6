# shellcheck shell=bash
# Up and down. A run that was killed leaves mounts, namespaces, cgroups and dead pids: `up` starts by removing them.

cluster_digest() { files_digest "$here/cluster" "$here/lib" "$here/go" "$here/images/pause"; }

healthy() {
  local name
  [ "$(cat "$run/digest" 2>/dev/null)" = "$(cluster_digest)" ] || return 1
  for name in "${daemons[@]}"; do running "$name" || return 1; done
  [ "$(kubectl get node "$node" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null)" = True ]
}

up() {
  build
  healthy || step "starting the cluster" start_all
  dns
}

fresh() {
  build
  step "starting the cluster anew" start_all
  dns
}

start_all() {
  stop_all
  mkdir -p "$run"/{pki,log,etcd,cni,manifests} "$store"
  make_network
  make_cgroups
  certificates
  write_config
  cd "$run"
  prepare_containerd
  start_etcd
  start_apiserver
  start_controller-manager
  start_scheduler
  kubectl create clusterrolebinding kube-proxy --clusterrole=system:node-proxier --user=system:kube-proxy >/dev/null
  pause_image
  start_kubelet
  start_proxy
  until_serves kubelet kubectl get node "$node"
  kubectl wait --for=condition=Ready "node/$node" --timeout=150s >/dev/null
  cluster_digest >"$run/digest"
}

prepare_containerd() {
  # What the last run's pods left in the store that stays; containerd keeps what it read at start in memory,
  # so the leftovers must be gone from the disk before the start that counts.
  start_containerd
  if forget_containers; then return; fi
  stop containerd
  rm -rf "$store"/io.containerd.grpc.v1.cri/{containers,sandboxes} "$store"/io.containerd.cri.v1.*/{containers,sandboxes}
  start_containerd
}

start_containerd() {
  PATH=$bin:$PATH start containerd "$bin/containerd" --config "$run/containerd.toml"
  until_serves containerd ctr version
}

forget_containers() { # false where there was something to forget
  local id found=0
  for id in $(ctr containers ls -q); do
    found=1
    ctr containers rm "$id" >/dev/null 2>&1 || true
  done
  for id in $(ctr sandboxes ls 2>/dev/null | awk 'NR > 1 {print $1}'); do
    found=1
    ctr sandboxes rm --force "$id" >/dev/null 2>&1 || true
  done
  return "$found"
}

start_etcd() { start etcd "$bin/etcd" --data-dir "$run/etcd" --unsafe-no-fsync; }

start_apiserver() {
  local pki=$run/pki
  start apiserver "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --advertise-address="$node_ip" \
    --service-cluster-ip-range="$service_range" --client-ca-file="$pki/ca.crt" \
    --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
    --service-account-key-file="$pki/sa.key" --service-account-signing-key-file="$pki/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc --authorization-mode=Node,RBAC --allow-privileged=true \
    --kubelet-preferred-address-types=InternalIP \
    --kubelet-client-certificate="$pki/admin.crt" --kubelet-client-key="$pki/admin.key"
  until_serves apiserver kubectl --request-timeout=5s get --raw /readyz
}

start_controller-manager() {
  local pki=$run/pki kubeconfig=$run/controller-manager.kubeconfig
  start controller-manager "$bin/kube-controller-manager" --kubeconfig="$kubeconfig" \
    --authentication-kubeconfig="$kubeconfig" --authorization-kubeconfig="$kubeconfig" --leader-elect=false \
    --service-account-private-key-file="$pki/sa.key" --root-ca-file="$pki/ca.crt" --use-service-account-credentials=true \
    --allocate-node-cidrs=true --cluster-cidr="$pod_range" --service-cluster-ip-range="$service_range"
}

start_scheduler() {
  local kubeconfig=$run/scheduler.kubeconfig
  start scheduler "$bin/kube-scheduler" --kubeconfig="$kubeconfig" \
    --authentication-kubeconfig="$kubeconfig" --authorization-kubeconfig="$kubeconfig" --leader-elect=false
}

start_kubelet() {
  start kubelet "$bin/kubelet" --config="$run/kubelet.yaml" --kubeconfig="$run/kubelet.kubeconfig" \
    --root-dir="$run/kubelet" --hostname-override="$node" --node-ip="$node_ip"
}

start_proxy() {
  start proxy "$bin/kube-proxy" --kubeconfig="$run/proxy.kubeconfig" --proxy-mode=nftables --cluster-cidr="$pod_range" \
    --hostname-override="$node" --conntrack-max-per-core=0
}

restart() { # restart DAEMON… : killed without a word, as a crash would end them; all are down before one is up again
  local name names=("${@#kube-}")
  for name in "${names[@]}"; do
    [[ " ${daemons[*]} " == *" $name "* ]] || die "restart: $name is none of ${daemons[*]}"
    running "$name" || die "$name does not run"
  done
  step "restarting ${names[*]}" kill_and_start "${names[@]}"
}

kill_and_start() {
  local name pids=()
  for name in "$@"; do
    pids+=("$(cat "$run/$name.pid")")
    kill -KILL "${pids[-1]}"
  done
  await_end "${pids[@]}"
  for name in "$@"; do "start_$name"; done
}

gpus() { # gpus N : as a device plugin would tell them to the node
  [[ $1 =~ ^[0-9]+$ ]] || die "gpus: $1 is not a number"
  local count="\"$1\"" resource
  [ "$1" -gt 0 ] || count=null
  resource="{\"nvidia.com/gpu\": $count}"
  kubectl patch node "$node" --subresource=status --type=merge \
    --patch "{\"status\": {\"capacity\": $resource, \"allocatable\": $resource}}"
}

down() { step "stopping the cluster" stop_all; }

stop_all() {
  local mount
  # The kubelet first: it would start again what is killed.
  stop proxy kubelet scheduler controller-manager apiserver etcd
  stop_strays
  empty_cgroups
  awk -v prefix="$run/" 'index($2, prefix) == 1 {print $2}' /proc/mounts | sort -r |
    while read -r mount; do umount -l "$mount" || true; done
  rm -rf "$run"
  remove_network
}

run_inside() {
  [ -f "$run/admin.kubeconfig" ] || die "no cluster is up (tests/cluster/cluster up starts it)"
  KUBECONFIG=$run/admin.kubeconfig PATH=$bin:$PATH exec nsenter "--net=/run/netns/$ns" "$@"
}
