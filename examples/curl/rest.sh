#!/bin/sh
# A box at rest: frozen with its variables, or put aside as files. Any use brings it back.
. "$(dirname "$0")/api.sh"
in_box '{"onIdle": "hibernate", "idleSeconds": 600}'

api "$BOX/executions" -d '{"code": "x = 41; _ = open(\"kept.txt\", \"w\").write(\"kept\")"}' -o /dev/null

api -X POST "$BOX/pause"; echo
# → "state":"paused"
api "$BOX/executions" -d '{"code": "x + 1"}'; echo
# → "text":"42"

# Only the files and the environment are left of it; a checkpoint keeps them while the box goes on.
api -X POST "$BOX/hibernate"; echo
# → "state":"hibernated"
api "$BOX/executions" -d '{"code": "open(\"kept.txt\").read(), \"x\" in globals()"}'; echo
# → "text":"('kept', False)"
api "$BOX"; echo
# → "continuity":"restored"
