#!/bin/sh
# Starts the box server.
set -eu
# Any process may set the login uid of audit records, but only once: it is set here, so that code in the box cannot set it.
{ echo "$(id -u)" > /proc/self/loginuid; } 2> /dev/null || true
# Started by itself and not by a gateway: as a DockerBox of codeboxapi.
if [ -z "${CODEBOX_TOKEN:-}" ] && [ -n "${CODEBOX_TIMEOUT:-}" ]; then
  chown 1000:1000 /mnt
  exec setpriv --reuid 1000 --regid 1000 --clear-groups --no-new-privs --bounding-set=-all \
    /opt/codebox/bin/python -s -m codebox_server.dockerbox
fi
# Without packages that code of the box has installed.
exec /opt/codebox/bin/python -s -m codebox_server
