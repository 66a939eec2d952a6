# shellcheck shell=bash
# Sourced. The one way in which long steps tell what they do and how long they took.

step() { # step TITLE COMMAND…
  local title=$1 began=$SECONDS
  shift
  echo "==> $title ..."
  # No if or || around the command: they would switch errexit off inside a function that is called here.
  "$@"
  echo "    $title: took $((SECONDS - began)) s"
}
