# shellcheck shell=bash
# The daemons: started detached, and ended by pid only while that pid still is the program that was started.

daemons=(etcd apiserver containerd controller-manager scheduler kubelet proxy)

start() { # start NAME COMMAND… : in the background, inside the namespace
  local name=$1
  shift
  (
    exec </dev/null >>"$run/log/$name.log" 2>&1
    let_go_of_descriptors
    exec setsid nsenter "--net=/run/netns/$ns" "$@"
  ) &
  echo $! >"$run/$name.pid"
}

until_serves() { # until_serves NAME COMMAND… : long, because a busy machine is slow; at once where the daemon has ended
  local name=$1 pid deadline=$((SECONDS + 150))
  pid=$(cat "$run/$name.pid")
  shift
  until "$@" >/dev/null 2>&1; do
    if ! kill -0 "$pid" 2>/dev/null; then
      tail -5 "$run/log/$name.log" >&2
      die "$name ended as soon as it was started; its log is $run/log/$name.log"
    fi
    [ "$SECONDS" -lt "$deadline" ] || die "gave up waiting for $name; logs are in $run/log"
    sleep 0.1
  done
}

let_go_of_descriptors() { # a daemon that keeps a caller's pipe or lock open makes whoever waits for it wait for ever
  local descriptor
  for descriptor in "/proc/$BASHPID/fd"/*; do
    descriptor=${descriptor##*/}
    [ "$descriptor" -le 2 ] || exec {descriptor}>&-
  done
}

is_ours() { # is_ours PID : pids are reused, and files outlive the processes they name
  case $(readlink "/proc/$1/exe" 2>/dev/null) in "$(readlink -f "$bin")"/*) return 0 ;; *) return 1 ;; esac
}

running() { # running NAME
  local pid
  pid=$(cat "$run/$1.pid" 2>/dev/null) && is_ours "$pid"
}

stop() { # stop NAME… : all are asked at once, then waited for; who does not listen is killed
  local name pid pids=()
  for name in "$@"; do
    if running "$name"; then
      pid=$(cat "$run/$name.pid")
      pids+=("$pid")
      kill "$pid" 2>/dev/null || true
    fi
    rm -f "$run/$name.pid"
  done
  await_end "${pids[@]}"
}

is_ending() { # its program is gone, but until its last thread is, its ports are taken
  awk '$1 == "State:" { state = $2 } $1 == "Threads:" { threads = $2 } END { exit !(state == "Z" && threads > 1) }' \
    "/proc/$1/status" 2>/dev/null
}

await_end() { # await_end PID…
  local pid deadline=$((SECONDS + 10))
  for pid in "$@"; do
    while is_ours "$pid" || is_ending "$pid"; do
      [ "$SECONDS" -lt "$deadline" ] || kill -KILL "$pid" 2>/dev/null || true
      sleep 0.05
    done
  done
}

stop_strays() { # programs of ours whose pid file is gone: a killed `up` or `down`, and the containers' shims
  local exe pid pids=()
  for exe in /proc/[0-9]*/exe; do
    pid=${exe#/proc/}
    pid=${pid%/exe}
    # `run` puts kubectl and helm into callers' hands: those are not daemons, and not ours to end.
    case $(readlink "$exe" 2>/dev/null) in
      "$(readlink -f "$bin")"/kubectl* | "$(readlink -f "$bin")"/helm* | "$(readlink -f "$bin")"/ctr*) ;;
      "$(readlink -f "$bin")"/*)
        pids+=("$pid")
        kill -KILL "$pid" 2>/dev/null || true
        ;;
    esac
  done
  await_end "${pids[@]}"
}

cgroup_folders() { # ours in every hierarchy, deepest first
  find /sys/fs/cgroup -maxdepth 2 -type d -name "$cgroup" -print0 2>/dev/null |
    xargs -0 -r -I{} find {} -depth -type d 2>/dev/null
}

make_cgroups() { # the kubelet wants its root to be there, in every hierarchy of cgroup v1 or the one of v2
  local hierarchy
  if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    mkdir -p "/sys/fs/cgroup/$cgroup"
    return
  fi
  for hierarchy in /sys/fs/cgroup/*/; do
    [ ! -f "$hierarchy/cgroup.procs" ] || mkdir -p "$hierarchy$cgroup" 2>/dev/null || true
  done
  # A cpuset without processors takes no process in.
  if [ -f "/sys/fs/cgroup/cpuset/$cgroup/cpuset.cpus" ]; then
    cat /sys/fs/cgroup/cpuset/cpuset.cpus >"/sys/fs/cgroup/cpuset/$cgroup/cpuset.cpus"
    cat /sys/fs/cgroup/cpuset/cpuset.mems >"/sys/fs/cgroup/cpuset/$cgroup/cpuset.mems"
  fi
}

empty_cgroups() { # what ran in pods and outlived their shims
  local folder deadline=$((SECONDS + 10))
  while cgroup_folders | sed 's#$#/cgroup.procs#' | xargs -r cat 2>/dev/null | sort -u | grep -q .; do
    [ "$SECONDS" -lt "$deadline" ] || die "processes of old pods do not end"
    cgroup_folders | sed 's#$#/cgroup.procs#' | xargs -r cat 2>/dev/null | sort -u | xargs -r kill -KILL 2>/dev/null || true
    sleep 0.1
  done
  cgroup_folders | while read -r folder; do rmdir "$folder" 2>/dev/null || true; done
}
