# shellcheck shell=bash
# A real Prometheus as a pod, which finds the encoder servers' replicas through the API.

prometheus() {
  [ -f "$run/admin.kubeconfig" ] || die "no cluster is up (tests/cluster/cluster up starts it)"
  local wanted
  wanted=$({ cat "$here/prometheus.yaml" "$home/images/prometheus.digest"; } | digest)
  [ "$(cat "$run/prometheus.digest" 2>/dev/null)" = "$wanted" ] && prometheus_answers && return
  step "starting Prometheus" start_prometheus "$wanted"
  echo "$wanted" >"$run/prometheus.digest"
}

start_prometheus() { # start_prometheus DIGEST : in the pods' template, so that a changed configuration starts them anew
  sed "s/DIGEST/$1/" "$here/prometheus.yaml" | kubectl apply -f - >/dev/null
  kubectl -n monitoring rollout status deployment/prometheus --timeout=60s >/dev/null
  until_true 30 "Prometheus to answer" prometheus_answers
}

prometheus_answers() {
  kubectl get --raw /api/v1/namespaces/monitoring/services/prometheus:http/proxy/-/ready >/dev/null 2>&1
}
