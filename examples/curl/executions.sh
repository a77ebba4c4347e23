#!/bin/sh
# Executions: run code in stateful kernels and get all of its output in one JSON response.
. "$(dirname "$0")/api.sh"
in_box

# Variables persist from one execution to the next.
api "$BOX/executions" -d '{"code": "x = 41"}' -o /dev/null
api "$BOX/executions" -d '{"code": "x + 1"}'; echo
# → "status":"ok"
# → "text":"42"

# Failing code is a result, not an HTTP error.
api "$BOX/executions" -d '{"code": "1 / 0"}'; echo
# → "status":"error"
# → "name":"ZeroDivisionError"

# So is code that exceeds its time limit. The variables are kept.
api "$BOX/executions" -d '{"code": "while True: pass", "timeoutSeconds": 0.5}'; echo
# → "status":"timeout"
# → "stateLost":false

api "$BOX/executions" -d '{"language": "typescript", "code": "const n: number = 6; n * 7"}'; echo
# → "text":"42"
api "$BOX/executions" -d '{"language": "bash", "code": "echo $((6 * 7))"}'; echo
# → "text":"42\n"

# Environment variables of one run.
api "$BOX/executions" -d '{"code": "import os; os.environ[\"WHO\"]", "env": {"WHO": "ada"}}'; echo
# → "text":"'ada'"

# Executions, newest first, in pages.
api "$BOX/executions?limit=2"; echo
# → "nextCursor":"
