#!/bin/sh
# Runs the given command. DATABASE_URL_FILE names a file with the value of DATABASE_URL, so that its password appears neither in a
# compose file nor in the output of `docker inspect`.
set -eu
if [ -n "${DATABASE_URL_FILE:-}" ]; then
  DATABASE_URL=$(cat "$DATABASE_URL_FILE")
  export DATABASE_URL
fi
exec "$@"
