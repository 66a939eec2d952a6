# shellcheck shell=bash
# The programs, built from the Go modules that go/*/go.mod pin. A module is built again only when its pins change.

pins_of() { # pins_of MODULE : what its programs depend on
  { go version; programs_of "$1"; cat "$here/go/$1"/*; declare -f build_program; } | digest
}

programs_of() { # programs_of MODULE : package paths
  case $1 in
    kubernetes) echo k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kube-proxy,kubectl} ;;
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    containerd) echo github.com/containerd/containerd/v2/cmd/{containerd,containerd-shim-runc-v2,ctr} ;;
    helm) echo helm.sh/helm/v3/cmd/helm ;;
    prometheus) echo github.com/prometheus/prometheus/cmd/prometheus ;;
    coredns) echo encoderpool.io/tests/cluster/coredns ;;
  esac
}

name_of() { # name_of PACKAGE : the program's file name
  case $1 in
    go.etcd.io/etcd/server/v3) echo etcd ;;
    *) basename "$1" ;;
  esac
}

build() { # build [MODULE…]
  local module modules=() package total=0 done=0
  [ $# -gt 0 ] || set -- kubernetes etcd containerd helm prometheus coredns
  for module in "$@"; do
    [ "$(cat "$bin/.$module" 2>/dev/null)" = "$(pins_of "$module")" ] && continue
    modules+=("$module")
    for package in $(programs_of "$module"); do total=$((total + 1)); done
  done
  mkdir -p "$bin"
  for module in "${modules[@]}"; do
    for package in $(programs_of "$module"); do
      done=$((done + 1))
      step "building $(name_of "$package") $done/$total" build_program "$module" "$package"
    done
    pins_of "$module" >"$bin/.$module"
  done
}

build_program() { # build_program MODULE PACKAGE
  local flags='-s -w' tags='' version target
  target=$bin/$(name_of "$2")
  cd "$here/go/$1"
  if [ "$1" = kubernetes ]; then
    # Without it the API server calls itself v0.0.0, and clients refuse it.
    version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
    flags+=" -X k8s.io/component-base/version.gitVersion=$version"
    flags+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$version")"
  fi
  # Every other way to discover targets drags in the client of some cloud.
  [ "$1" != prometheus ] || tags=remove_all_sd,enable_kubernetes_sd
  CGO_ENABLED=0 go build -trimpath -buildvcs=false -mod=readonly -tags "$tags" -ldflags "$flags" -o "$target.new" "$2"
  mv "$target.new" "$target" # a running cluster keeps the old file open
}
