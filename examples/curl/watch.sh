#!/bin/sh
# Watch: a stream of file changes, each with a version from which it can be resumed.
. "$(dirname "$0")/api.sh"
in_box
log=$(mktemp)
api "$BOX/files" -d '{"op": "mkdir", "path": "src"}' -o /dev/null

# `watch` starts a watch in the background; `leave_at` waits until its output matches a pattern, then stops and prints it.
watch() { curl -sSN -H "Authorization: Bearer $CODEBOX_KEY" "$@" > "$log" & }
leave_at() { until grep -q "$1" "$log"; do sleep 0.1; done; kill $!; cat "$log"; }

watch "$BOX/files:watch?path=src"
leave_at '"type":"ready"'
# → "type":"ready"
version=$(grep -o '"version":[0-9]*' "$log" | tail -n 1 | cut -d : -f 2)

# Change files while no client is connected.
echo 'one' | api -T - "$BOX/files/src/a.txt" -o /dev/null
api "$BOX/files" -d '{"op": "move", "from": "src/a.txt", "to": "src/b.txt"}' -o /dev/null

# The changes since that version come first. The EventSource of browsers resumes like this by itself.
watch -H 'Accept: text/event-stream' "$BOX/files:watch?path=src&after=$version"
leave_at src/b.txt
# → event: create
# → "path":"src/b.txt"
rm "$log"
