#!/bin/sh
# Runs once before the other services, in the process namespace of the host: prepares the data folder on the host and generates the
# password of the database. Idempotent.
#   CODEBOX_DATA_DIR  the data folder, with the same path on the host and in the container of the gateway
#   /secrets          a volume for the password of the database, both alone and in the URL of the database
#   /database         the volume of the database, with a folder per major version of PostgreSQL
#   CODEBOX_POSTGRES_MAJOR  the major version of the PostgreSQL service
set -eu

make_password() {
  [ -s /secrets/database-url ] && return
  umask 077
  password=$(head -c 32 /dev/urandom | base64 -w 0 | tr '+/' '-_' | tr -d '=')
  # Mode 0444: the database runs as a user whose uid depends on its image. Others are kept out because only services mount the volume.
  printf '%s' "$password" > /secrets/password
  chmod 0444 /secrets/password
  printf 'postgresql://codebox:%s@postgres/codebox' "$password" > /secrets/database-url.new
  mv /secrets/database-url.new /secrets/database-url
}

# Whether mounts below a folder of the host propagate to other mount namespaces, which the mount that contains it determines.
is_shared() {
  codebox-on-host cat /proc/self/mountinfo | awk -v path="$1" '
    $5 == "/" || $5 == path || index(path, $5 "/") == 1 { if (length($5) >= best) { best = length($5); line = $0 } }
    END { exit line ~ / shared:[0-9]+ / ? 0 : 1 }'
}

# The daemon has to see the socket folders that the gateway mounts. On hosts with systemd every mount is shared already.
share_data_folder() {
  # The daemon may have just created the folder, readable for all.
  codebox-on-host mkdir -p "$CODEBOX_DATA_DIR"
  codebox-on-host chmod 0700 "$CODEBOX_DATA_DIR"
  if ! is_shared "$CODEBOX_DATA_DIR"; then
    codebox-on-host mount --bind "$CODEBOX_DATA_DIR" "$CODEBOX_DATA_DIR"
    codebox-on-host mount --make-shared "$CODEBOX_DATA_DIR"
    echo "$CODEBOX_DATA_DIR is now a shared mount of the host."
  fi
}

# A PostgreSQL cannot read the data of another major version: it would create an empty database beside it.
refuse_other_database() {
  [ -e "/database/$CODEBOX_POSTGRES_MAJOR" ] && return
  for folder in /database/[0-9]*; do
    [ -e "$folder" ] || continue
    echo "The database was created by PostgreSQL ${folder##*/}, and this is PostgreSQL $CODEBOX_POSTGRES_MAJOR." \
      "Migrate it as described in deploy/README.md under Upgrade." >&2
    exit 1
  done
}

refuse_other_database
make_password
share_data_folder
