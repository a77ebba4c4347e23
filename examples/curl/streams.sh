#!/bin/sh
# Streams: events as they occur, as server-sent events or NDJSON, which can be resumed at any point.
. "$(dirname "$0")/api.sh"
in_box

code='{"code": "import time\nfor i in range(3):\n  print(i)\n  time.sleep(0.2)"}'
api -N -H 'Accept: text/event-stream' "$BOX/executions" -d "$code"
# → event: started
# → data: {"seq":2,"type":"stdout","text":"0\n"}
# → event: done

api -N -H 'Accept: application/x-ndjson' "$BOX/executions" -d "$code"
# → {"seq":2,"type":"stdout","text":"0\n"}
# → "type":"done","status":"ok"

# Every event has a number. A client that disconnects can resume after the last one it has seen.
id=$(api "$BOX/executions" -d "${code%\}}, \"detach\": true}" | field id)
api -N "$BOX/executions/$id/events?after=3"
# → {"seq":4,"type":"stdout","text":"2\n"}
# → "type":"done","status":"ok"

# An EventSource resumes like this by itself when its connection breaks.
api -N -H 'Accept: text/event-stream' -H 'Last-Event-ID: 4' "$BOX/executions/$id/events"
# → id: 5
# → event: done

# The complete result, later.
api "$BOX/executions/$id"; echo
# → "status":"ok"
