#!/bin/sh
# Becomes the sandbox of one box: joins its control groups, mounts its disk where only it sees it, and turns into bubblewrap.
# Arguments: the instance's folder, the compiled seccomp filter, tasks files of control groups, --, and the command, which is
# told the descriptors: 3 seccomp filter, 4 status, 5 options of bubblewrap, separated by NUL.
set -eu
folder=$1
filter=$2
shift 2

# The process id and its start time, by which it is known again after a restart of the gateway.
read -r stat < /proc/self/stat
echo "$stat" > "$folder/stat"

while [ "$1" != -- ]; do
  echo 0 > "$1"
  shift
done
shift

if [ -e "$folder/disk.ext4" ]; then
  mount -o loop,nosuid,nodev "$folder/disk.ext4" "$folder/mnt"
fi
if [ -w /proc/self/oom_score_adj ]; then
  echo 500 > /proc/self/oom_score_adj
fi

exec "$@" 3< "$filter" 4> "$folder/status" 5< "$folder/options"
