#!/bin/sh
# Connects the network namespace of a box to the internet through pasta, and again whenever pasta ends, for as long as the box lives.
# Arguments: the file for its own process id and start time, the first process of the box, the user of pasta, the network device with its
# address, its prefix length and its router, tasks files of control groups.
#
# pasta runs without privileges on the host, in namespaces of its own: it makes its device there, and the device is moved to the box. So
# neither can pasta enter the box, nor has the box a process that owns its network.
set -u
record=$1 box=$2 user=$3 device=$4 address=$5 prefix=$6 router=$7
shift 7

read -r stat < /proc/self/stat
echo "$stat" > "$record"
space=$(readlink "/proc/$box/ns/net")

lives() { [ -n "$space" ] && [ "$(readlink "/proc/$box/ns/net")" = "$space" ]; }

# Runs pasta in control groups of the box, which count its memory and its CPU time. The number of open files limits the connections.
run_pasta() {
  for file in "$@"; do echo 0 > "$file"; done
  exec prlimit --nofile=1024 --core=0 \
    setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
    pasta --foreground --quiet --ipv4-only --ns-ifname "$device" --address "$address" --netmask "$prefix" --gateway "$router" \
    --no-map-gw --tcp-ports none --udp-ports none --tcp-ns none --udp-ns none \
    --no-dhcp --no-dhcpv6 --no-ndp --no-ra -- setpriv --pdeathsig KILL sleep infinity
}

# Moves the device to the box and configures it there.
move_device() {
  for _ in $(seq 100); do
    holder=
    # The file has no newline at its end, so `read` fails even when it has read something.
    read -r holder _ < "/proc/$1/task/$1/children" || :
    [ -n "$holder" ] && grep -q "$device:" "/proc/$holder/net/dev" && break
    sleep 0.02
  done
  nsenter --net="/proc/$holder/ns/net" ip link set "$device" netns "$box" &&
    nsenter --net="/proc/$box/ns/net" ip -batch - << BATCH
address add $address/$prefix dev $device
link set $device mtu 65520 up
route add default via $router
BATCH
}

# On some hosts only root may open the device that makes others. This script has a mount namespace of its own.
mkdir -p /dev/net
mount -t tmpfs -o mode=755,size=64k tmpfs /dev/net
mknod -m 666 /dev/net/tun c 10 200

while lives; do
  run_pasta "$@" &
  pasta=$!
  move_device "$pasta" || kill -9 "$pasta"
  wait "$pasta"
  sleep 1
done
