#!/bin/sh
# Interrupt: stop running code and keep its variables.
. "$(dirname "$0")/api.sh"
in_box

id=$(api "$BOX/executions" -d '{"code": "n = 0\nwhile True: n += 1", "detach": true, "timeoutSeconds": 60}' | field id)
until api "$BOX/contexts" | grep -q '"state":"busy"'; do sleep 0.1; done
api -X POST "$BOX/executions/$id/interrupt"
api -N "$BOX/executions/$id/events"
# → "type":"done","status":"interrupted"

api "$BOX/executions" -d '{"code": "n > 0"}'; echo
# → "text":"True"
