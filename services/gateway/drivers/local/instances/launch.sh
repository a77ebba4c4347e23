#!/bin/sh
# Starts the sandbox of one box: makes the file system of its disk by the command in FORMAT, joins its control groups, mounts the disk in its
# own mount namespace, and replaces itself by bubblewrap.
# Arguments: the folder of the instance, the compiled seccomp filter, tasks files of control groups, --, and the command. The command
# uses the descriptors 3 (seccomp filter), 4 (status) and 5 (options of bubblewrap, separated by NUL); a sandbox that may get a forked
# server also 6 (a pipe, both ends) and 7 (from the gateway).
set -eu
folder=$1
filter=$2
shift 2

# The process id and its start time, by which a restarted gateway identifies the process.
read -r stat < /proc/self/stat
echo "$stat" > "$folder/stat"

if [ -e "$folder/disk.ext4" ]; then
  # Done here, because the gateway takes longer to start a program than mkfs takes to run.
  $FORMAT "$folder/disk.ext4"
fi
unset FORMAT

while [ "$1" != -- ]; do
  echo 0 > "$1"
  shift
done
shift

if [ -e "$folder/disk.ext4" ]; then
  # With its type, because looking for it takes as long as the rest.
  mount -t ext4 -o loop,nosuid,nodev "$folder/disk.ext4" "$folder/mnt"
fi
if [ -w /proc/self/oom_score_adj ]; then
  echo 500 > /proc/self/oom_score_adj
fi

if [ -e /proc/self/fd/7 ]; then
  # Dash and busybox make a pipe for this, faster than a named one can be made.
  exec 6<< end
end
  if [ -p /proc/self/fd/6 ]; then
    exec 6<> /proc/self/fd/6
  else
    mkfifo -m 0600 "$folder/end"
    exec 6<> "$folder/end"
    rm "$folder/end"
  fi
fi

exec "$@" 3< "$filter" 4> "$folder/status" 5< "$folder/options"
