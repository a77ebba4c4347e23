#!/bin/sh
# Stats: current and peak resource usage of a box, with its limits.
. "$(dirname "$0")/api.sh"
in_box '{"limits": {"memoryMb": 512, "pids": 100}}'

api "$BOX/stats"; echo
# → "cpu":{"usedMs":
# → "limitBytes":536870912
# → "limit":100

# As a stream until the box ends; curl stops after some seconds.
api -N -m 5 -H 'Accept: text/event-stream' "$BOX/stats?everySeconds=0.5" 2> /dev/null || true
# → event: stats
# → "seq":2
