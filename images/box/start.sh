#!/bin/sh
# Starts the box server.
set -eu
# Any process may set the login uid of audit records, but only once: it is set here, so that code in the box cannot set it.
{ echo "$(id -u)" > /proc/self/loginuid; } 2> /dev/null || true
# Kernels are forked from the server: a home would add packages that code of the box has installed, -P leaves out the folder
# in which this starts, and kernels share the first environment of the server, so the token comes by a pipe instead.
set -- /opt/codebox/bin/python -P -m
home=/nonexistent
# Started by itself and not by a gateway: as a DockerBox of codeboxapi.
if [ -z "${CODEBOX_TOKEN:-}" ] && [ -n "${CODEBOX_TIMEOUT:-}" ]; then
  chown 1000:1000 /mnt
  HOME=$home exec setpriv --reuid 1000 --regid 1000 --clear-groups --no-new-privs --bounding-set=-all \
    "$@" codebox_server.dockerbox
fi
exec 3<<TOKEN
${CODEBOX_TOKEN:-}
TOKEN
unset CODEBOX_TOKEN
HOME=$home CODEBOX_TOKEN_FD=3 exec "$@" codebox_server
