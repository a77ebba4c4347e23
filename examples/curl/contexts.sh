#!/bin/sh
# Contexts: additional kernels in the same box, each with its own variables.
. "$(dirname "$0")/api.sh"
in_box

api "$BOX/executions" -d '{"code": "x = \"default\""}' -o /dev/null
context=$(api "$BOX/contexts" -d '{"language": "python"}' | field id)
api "$BOX/executions" -d "{\"context\": \"$context\", \"code\": \"x = 'other'\"}" -o /dev/null
api "$BOX/executions" -d '{"code": "x"}'; echo
# → "text":"'default'"
api "$BOX/executions" -d "{\"context\": \"$context\", \"code\": \"x\"}"; echo
# → "text":"'other'"

# A restart replaces the kernel; the context keeps its id.
api -X POST "$BOX/contexts/$context/restart"; echo
# → "language":"python"
api "$BOX/executions" -d "{\"context\": \"$context\", \"code\": \"x\"}"; echo
# → "name":"NameError"

api -X DELETE "$BOX/contexts/$context"
api "$BOX/contexts"; echo
# → "default":true
