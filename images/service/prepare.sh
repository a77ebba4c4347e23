#!/bin/sh
# Runs once before the others, in the host's process namespace: what a deployment needs on the host and what must not have a
# public default. Safe to run again; it changes nothing that is right already.
#   CODEBOX_DATA_DIR  the data folder, the same path on the host and in the gateway's container
#   /secrets          a volume: the database's password, once as it is and once in the database's URL
#   /database         the volume of the database, a folder per major version of PostgreSQL
#   CODEBOX_POSTGRES_MAJOR  the version that will serve
set -eu

make_password() {
  [ -s /secrets/database-url ] && return
  umask 077
  password=$(head -c 32 /dev/urandom | base64 -w 0 | tr '+/' '-_' | tr -d '=')
  # The database runs as an ordinary user, whose number depends on its image: the volume keeps others out, not the mode.
  printf '%s' "$password" > /secrets/password
  chmod 0444 /secrets/password
  printf 'postgresql://codebox:%s@postgres/codebox' "$password" > /secrets/database-url.new
  mv /secrets/database-url.new /secrets/database-url
}

# Whether what is mounted below a folder of the host reaches other mount namespaces: so it is for the mount that holds it.
is_shared() {
  codebox-on-host cat /proc/self/mountinfo | awk -v path="$1" '
    $5 == "/" || $5 == path || index(path, $5 "/") == 1 { if (length($5) >= best) { best = length($5); line = $0 } }
    END { exit line ~ / shared:[0-9]+ / ? 0 : 1 }'
}

# The gateway mounts the socket folders of boxes; the daemon has to see them. Under systemd every mount is shared.
share_data_folder() {
  # The daemon may have made it just now, for all to read.
  codebox-on-host mkdir -p "$CODEBOX_DATA_DIR"
  codebox-on-host chmod 0700 "$CODEBOX_DATA_DIR"
  if ! is_shared "$CODEBOX_DATA_DIR"; then
    codebox-on-host mount --bind "$CODEBOX_DATA_DIR" "$CODEBOX_DATA_DIR"
    codebox-on-host mount --make-shared "$CODEBOX_DATA_DIR"
    echo "$CODEBOX_DATA_DIR is now a shared mount of the host."
  fi
}

# A PostgreSQL does not read what another major version wrote: it would begin with an empty database beside it.
refuse_other_database() {
  [ -e "/database/$CODEBOX_POSTGRES_MAJOR" ] && return
  for folder in /database/[0-9]*; do
    [ -e "$folder" ] || continue
    echo "The database was written by PostgreSQL ${folder##*/}, and this is $CODEBOX_POSTGRES_MAJOR." \
      "Move it over as deploy/README.md says under Upgrade." >&2
    exit 1
  done
}

refuse_other_database
make_password
share_data_folder
