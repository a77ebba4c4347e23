#!/bin/sh
# Starts what the image is asked to. DATABASE_URL_FILE names a file to take DATABASE_URL from, so that its password stands neither
# in a compose file nor in what `docker inspect` shows.
set -eu
if [ -n "${DATABASE_URL_FILE:-}" ]; then
  DATABASE_URL=$(cat "$DATABASE_URL_FILE")
  export DATABASE_URL
fi
exec "$@"
