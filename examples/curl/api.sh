# Sourced by the examples: `api` is curl with the key, `field` takes a text field out of JSON, `in_box` makes a box for the script.
set -eu
: "${CODEBOX_URL:=http://localhost:8080}" "${CODEBOX_KEY:?Set it to an API key, such as the one in .codebox/dev-key}"

api() { curl -sS --fail-with-body -H "Authorization: Bearer $CODEBOX_KEY" "$@"; }
field() { grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }

# Makes a box that ends with the script; sets BOX to its URL. Where there can be none, the answer says why.
in_box() {
  if ! ANSWER=$(api "$CODEBOX_URL/v1/boxes" -d "${1:-{\}}"); then
    printf "%s\n" "$ANSWER" >&2
    exit 1
  fi
  BOX="$CODEBOX_URL/v1/boxes/$(printf "%s" "$ANSWER" | field id)"
  trap 'api -X DELETE "$BOX"' EXIT
}
