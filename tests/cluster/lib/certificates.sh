# shellcheck shell=bash
# The cluster's own certificate authority, a certificate for each component, and their kubeconfigs.

certificates() {
  cd "$run/pki"
  local client='extendedKeyUsage=clientAuth'
  new_key ca
  openssl req -x509 -key ca.key -out ca.crt -days 365 -subj /CN=cluster-ca 2>/dev/null
  new_key sa
  issue apiserver /CN=kube-apiserver \
    "subjectAltName=DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:$api_service_ip,IP:$node_ip"
  issue kubelet "/O=system:nodes/CN=system:node:$node" \
    "$(printf 'subjectAltName=DNS:%s,IP:%s\nextendedKeyUsage=clientAuth,serverAuth' "$node" "$node_ip")"
  issue admin /O=system:masters/CN=admin "$client"
  issue controller-manager /CN=system:kube-controller-manager "$client"
  issue scheduler /CN=system:kube-scheduler "$client"
  issue proxy /CN=system:kube-proxy "$client"
  local user
  for user in admin controller-manager scheduler kubelet proxy; do kubeconfig "$user"; done
}

new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

issue() { # issue NAME SUBJECT EXTENSIONS
  new_key "$1"
  openssl req -new -key "$1.key" -out "$1.csr" -subj "$2"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out "$1.crt" \
    -extfile <(echo "$3") 2>/dev/null
}

kubeconfig() {
  cat >"$run/$1.kubeconfig" <<Y
apiVersion: v1
kind: Config
current-context: encoderpool
contexts: [{name: encoderpool, context: {cluster: encoderpool, user: $1}}]
clusters: [{name: encoderpool, cluster: {server: "$api", certificate-authority: $run/pki/ca.crt}}]
users: [{name: $1, user: {client-certificate: $run/pki/$1.crt, client-key: $run/pki/$1.key}}]
Y
}
