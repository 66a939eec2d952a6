# shellcheck shell=bash
# The images: built from the project's own Dockerfiles without a registry, and put into the cluster's image store.

base=localhost/encoderpool/base:dev
base_packages=ca-certificates,python3,python3-venv

image_builder() {
  # overlay: the vfs driver would copy torch's gigabytes for every layer.
  buildah --root "$home/buildah/root" --runroot "$home/buildah/run" --storage-driver overlay "$@"
}

in_store() { [ -n "$(ctr images ls -q "name==$1")" ]; }

images() {
  running containerd || die "no cluster is up to put images into (tests/cluster/cluster up starts it)"
  mkdir -p "$home/images"
  local pyproject=("$repo/pyproject.toml" "$repo/README.md" "$repo/.dockerignore" "$repo/constraints")
  project_image operator "$repo/operator/Dockerfile" "$repo" "$repo/operator" "${pyproject[@]}"
  program_image prometheus
  project_image server "$repo/encoder_server/Dockerfile" "$repo" "$repo/encoder_server" "${pyproject[@]}"
}

extra_image() { # extra_image NAME DIR : builds the project's images too, because it may stand on them
  [ -f "$2/Dockerfile" ] || die "$2/Dockerfile: no such file"
  images
  project_image "$1" "$2/Dockerfile" "$2" "$2" "$home/images/server.digest" "$home/images/operator.digest"
}

project_image() { # project_image NAME DOCKERFILE CONTEXT INPUT… : only where an input changed
  local name=$1 image=localhost/encoderpool/$1:dev dockerfile=$2 context=$3 stamp=$home/images/$1.digest wanted
  shift 3
  wanted=$({ base_digest; cat "$here/lib/images.sh"; files_digest "$dockerfile" "$@"; } | digest)
  [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && in_store "$image" && return
  [ "$(cat "$home/images/base.digest" 2>/dev/null)" = "$(base_digest)" ] || step "making the base image" base_image
  step "building $image" build_image "$image" "$dockerfile" "$context"
  step "putting $image into the cluster" put "$image"
  echo "$wanted" >"$stamp"
}

build_image() { # build_image IMAGE DOCKERFILE CONTEXT
  local log=$home/images/build.log path mounts=()
  local cache=${UV_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/uv}
  mkdir -p "$cache"
  # How this machine reaches its packages is the machine's business, so the build sees its settings.
  for path in /etc/ssl/certs /etc/apt /etc/pip.conf /etc/uv; do
    [ ! -e "$path" ] || mounts+=(--volume "$path:$path:ro")
  done
  image_builder bud --isolation chroot --network host --pull-never --layers \
    --build-arg "BASE=$base" --build-arg UV_CACHE_DIR=/mnt/uv-cache --volume "$cache:/mnt/uv-cache" "${mounts[@]}" \
    --tag "$1" --file "$2" "$3" </dev/null >"$log" 2>&1 ||
    { tail -40 "$log" >&2; die "building $1 failed; the whole log is $log"; }
  prune_builder
}

put() { # put IMAGE : only the blobs that the cluster lacks travel, so torch's layer does once
  local former
  # Uncompressed, because only then is a layer's digest known beforehand, and a layer that is there recognised.
  skopeo copy --quiet --dest-oci-accept-uncompressed-layers \
    "containers-storage:[overlay@$home/buildah/root+$home/buildah/run]$1" "oci:$layout:$1"
  ctr content ls -q | python3 "$here/archive.py" "$layout" "$1" | ctr images import - >/dev/null
  mapfile -t former < <(nameless_images)
  [ ${#former[@]} -eq 0 ] || ctr images rm "${former[@]}" >/dev/null
}

nameless_images() { # the kubelet's names for images that the project's names have left: they alone keep the blobs
  ctr images ls | awk '
    NR == 1 { next }
    $1 ~ /^sha256:/ { digest[$1] = $3; next }
    { named[$3] }
    END { for (id in digest) if (!(digest[id] in named)) print id }'
}

prune_builder() { # by age, because what was built today may be the next build's cache, torch's layer too
  local built image former=() day_ago=$(($(date +%s) - 86400))
  while read -r built image; do
    [ "$built" -gt "$day_ago" ] || former+=("$image")
  done < <(image_builder images --filter dangling=true --format '{{.CreatedAtRaw.Unix}} {{.ID}}')
  [ ${#former[@]} -eq 0 ] || image_builder rmi "${former[@]}" >/dev/null
}

load() {
  [ -f "$1" ] || die "$1: no such file"
  running containerd || die "no cluster is up to load images into (tests/cluster/cluster up starts it)"
  step "putting the images of $1 into the cluster" load_archive "$1"
}

load_archive() { ctr images import "$1" >/dev/null; }

base_digest() { { echo "$base_packages"; sed -n '/^base_image()/,/^}/p' "$here/lib/images.sh"; } | digest; }

base_image() {
  local root=$home/base log=$home/images/base.log mirror container
  mkdir -p "$home/images"
  rm -rf "$root"
  # The mirror that this machine uses already; debootstrap knows one itself where apt names none.
  # shellcheck disable=SC2016  # the dollar is apt's
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' 2>/dev/null | head -1) || true
  debootstrap --variant=minbase "--include=$base_packages" bookworm "$root" ${mirror:+"$mirror"} </dev/null >"$log" 2>&1 ||
    { tail -20 "$log" >&2; die "debootstrap failed; the whole log is $log"; }
  rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/log/*.log
  container=$(image_builder from scratch)
  image_builder add --quiet "$container" "$root" / >/dev/null
  image_builder commit --quiet --rm "$container" "$base" >/dev/null
  rm -rf "$root"
  base_digest >"$home/images/base.digest"
}

program_image() { # program_image NAME : a program that was built here, which runs as a pod
  local context=$home/images/$1
  mkdir -p "$context"
  cp -u "$here/images/$1/Dockerfile" "$bin/$1" "$context/"
  project_image "$1" "$context/Dockerfile" "$context" "$here/images/$1" "$bin/.$1"
}

pause_image() { # what the kubelet needs before any pod can be
  local context=$home/images/pause stamp=$home/images/pause.digest wanted
  wanted=$(files_digest "$here/images/pause")
  [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && in_store localhost/encoderpool/pause:dev && return
  mkdir -p "$context"
  cp "$here/images/pause/Dockerfile" "$context/"
  gcc -static -Os -o "$context/pause" "$here/images/pause/pause.c"
  build_image localhost/encoderpool/pause:dev "$context/Dockerfile" "$context"
  put localhost/encoderpool/pause:dev
  echo "$wanted" >"$stamp"
}
