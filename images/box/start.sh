#!/bin/sh
# Starts the box server. matplotlib needs a folder that it can write, so it gets its own copy of the prebuilt font list.
set -eu
# The login id of audit records can be set once, by anybody: set here, code of the box cannot choose another one.
{ echo "$(id -u)" > /proc/self/loginuid; } 2> /dev/null || true
runtime=${CODEBOX_RUNTIME_DIR:-/tmp/.codebox}
mkdir -p -m 0700 "$runtime"
if [ -d /opt/codebox/share/matplotlib ] && [ -z "${MPLCONFIGDIR:-}" ]; then
  cp -r /opt/codebox/share/matplotlib "$runtime/matplotlib"
fi
exec /opt/codebox/bin/python -m codebox_server
