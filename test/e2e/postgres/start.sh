#!/bin/sh
# Makes the database that POSTGRES_USER, POSTGRES_DB and POSTGRES_PASSWORD_FILE name in an empty PGDATA, then serves it.
set -eu
bin=/opt/postgres/bin
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$PGDATA"
  chmod 0700 "$PGDATA"
  "$bin/initdb" --pgdata="$PGDATA" --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust --auth-host=scram-sha-256 > /tmp/initdb.log
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  echo "create database \"$POSTGRES_DB\"" | "$bin/postgres" --single -D "$PGDATA" postgres > /dev/null
fi
exec "$bin/postgres" -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/run/postgresql
