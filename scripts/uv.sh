# shellcheck shell=bash
# Sourced. uv itself, pinned by hash like everything else, in an environment of its own and not the machine's.

pinned_uv() { # pinned_uv PYTHON : prints uv's path
  local pins=constraints/uv.txt cache=${XDG_CACHE_HOME:-$HOME/.cache}/encoderpool folder
  folder=$cache/uv-$(sha256sum "$pins" | cut -c1-16)
  if [ ! -x "$folder/bin/uv" ]; then
    mkdir -p "$cache"
    rm -rf "$folder.new"
    "$1" -m venv "$folder.new"
    "$folder.new/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$pins"
    rm -rf "$folder"
    mv "$folder.new" "$folder"
  fi
  echo "$folder/bin/uv"
}
