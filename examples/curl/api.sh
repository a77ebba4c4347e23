# Sourced by the examples: `api` is curl with the key, `field` extracts a string field from JSON, `in_box` creates a box.
set -eu
: "${CODEBOX_URL:=http://localhost:8080}" "${CODEBOX_KEY:?Set it to an API key, such as the one in .codebox/dev-key}"

api() { curl -sS --fail-with-body -H "Authorization: Bearer $CODEBOX_KEY" "$@"; }
field() { grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }

# Creates a box that is deleted when the script ends, and sets BOX to its URL. If that fails, prints the problem and exits.
in_box() {
  if ! RESPONSE=$(api "$CODEBOX_URL/v1/boxes" -d "${1:-{\}}"); then
    printf "%s\n" "$RESPONSE" >&2
    exit 1
  fi
  BOX="$CODEBOX_URL/v1/boxes/$(printf "%s" "$RESPONSE" | field id)"
  trap 'api -X DELETE "$BOX"' EXIT
}
