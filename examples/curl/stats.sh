#!/bin/sh
# Stats: what a box uses now and at most, against its limits.
. "$(dirname "$0")/api.sh"
in_box '{"limits": {"memoryMb": 512, "pids": 100}}'

api "$BOX/stats"; echo
# → "cpu":{"usedMs":
# → "limitBytes":536870912
# → "limit":100

# Live, until the box ends; this one is left after some seconds.
api -N -m 5 -H 'Accept: text/event-stream' "$BOX/stats?everySeconds=0.5" 2> /dev/null || true
# → event: stats
# → "seq":2
