#!/bin/sh
# Executions: run code in live kernels and get all that it gave, in one JSON answer.
. "$(dirname "$0")/api.sh"
in_box

# Variables live from one execution to the next.
api "$BOX/executions" -d '{"code": "x = 41"}' -o /dev/null
api "$BOX/executions" -d '{"code": "x + 1"}'; echo
# → "status":"ok"
# → "text":"42"

# Code that fails is an answer, not an HTTP error.
api "$BOX/executions" -d '{"code": "1 / 0"}'; echo
# → "status":"error"
# → "name":"ZeroDivisionError"

# So is code that takes too long. The variables are still there.
api "$BOX/executions" -d '{"code": "while True: pass", "timeoutSeconds": 0.5}'; echo
# → "status":"timeout"
# → "stateLost":false

api "$BOX/executions" -d '{"language": "typescript", "code": "const n: number = 6; n * 7"}'; echo
# → "text":"42"
api "$BOX/executions" -d '{"language": "bash", "code": "echo $((6 * 7))"}'; echo
# → "text":"42\n"

# Environment for one run only.
api "$BOX/executions" -d '{"code": "import os; os.environ[\"WHO\"]", "env": {"WHO": "ada"}}'; echo
# → "text":"'ada'"

# The newest first, one page after the other by nextCursor.
api "$BOX/executions?limit=2"; echo
# → "nextCursor":"
