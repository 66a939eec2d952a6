# shellcheck shell=bash
# The files that containerd, its network plugins and the kubelet read.

write_config() {
  # restrict_oom_score_adj: without CAP_SYS_RESOURCE runc cannot lower a container's score, and dies of trying.
  # netns_mounts_under_state_dir: cleaning then never has to guess whose network namespace it removes.
  cat >"$run/containerd.toml" <<Y
version = 3
root = "$store"
state = "$run/containerd"
[grpc]
  address = "$run/containerd.sock"
[ttrpc]
  address = "$run/containerd.sock.ttrpc"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "localhost/encoderpool/pause:dev"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "$run/cni"
Y
  cat >"$run/cni/10-pods.conflist" <<Y
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$node_pod_range"}]], "dataDir": "$run/cni-ipam"}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
Y
  # cgroupRoot: a folder of our own, so that what a killed run left can be told from everybody else's.
  # Images are never collected: nothing here could pull them again.
  cat >"$run/kubelet.yaml" <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $run/pki/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://$run/containerd.sock
clusterDNS: [$dns_service_ip]
clusterDomain: cluster.local
staticPodPath: $run/manifests
podLogsDir: $run/pod-logs
resolvConf: ""
enforceNodeAllocatable: []
tlsCertFile: $run/pki/kubelet.crt
tlsPrivateKeyFile: $run/pki/kubelet.key
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi}
registryPullQPS: 0
maxPods: 110
Y
}
