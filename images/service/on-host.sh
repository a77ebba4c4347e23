#!/bin/sh
# Runs a command in the mount namespace of the Docker daemon. Needs the host's process namespace and the capabilities SYS_ADMIN,
# SYS_CHROOT and SYS_PTRACE.
set -eu

# A box can name a process as it likes, and its mount namespace may be full of traps for root. So only a process counts that
# runs as root in the host's own process namespace, which is this one's too.
daemon() {
  for pid in $(pidof dockerd); do
    [ "$(readlink "/proc/$pid/ns/pid")" = "$(readlink /proc/self/ns/pid)" ] || continue
    [ "$(awk '$1 == "Uid:" { print $2 }' "/proc/$pid/status")" = 0 ] || continue
    echo "$pid"
    return
  done
  echo 1
}

exec nsenter --target "$(daemon)" --mount -- "$@"
