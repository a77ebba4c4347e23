#!/bin/sh
# Boxes at rest: paused with their variables, or hibernated as stored files. Any use resumes them.
. "$(dirname "$0")/api.sh"
in_box '{"onIdle": "hibernate", "idleSeconds": 600}'

api "$BOX/executions" -d '{"code": "x = 41; _ = open(\"kept.txt\", \"w\").write(\"kept\")"}' -o /dev/null

api -X POST "$BOX/pause"; echo
# → "state":"paused"
api "$BOX/executions" -d '{"code": "x + 1"}'; echo
# → "text":"42"

# A hibernated box keeps only its files and environment. A checkpoint stores them while the box keeps running.
api -X POST "$BOX/hibernate"; echo
# → "state":"hibernated"
api "$BOX/executions" -d '{"code": "open(\"kept.txt\").read(), \"x\" in globals()"}'; echo
# → "text":"('kept', False)"
api "$BOX"; echo
# → "continuity":"restored"
