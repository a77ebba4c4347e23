#!/bin/sh
# Commands: programs outside the kernels, with exit code, stdout, stderr and stdin.
. "$(dirname "$0")/api.sh"
in_box

api "$BOX/commands" -d '{"command": "echo out; echo err >&2; exit 3"}'; echo
# → "status":"error"
# → "exitCode":3
# → "stdout":"out\n"
# → "stderr":"err\n"

# Without a shell, arguments are passed unchanged.
api "$BOX/commands" -d '{"argv": ["printf", "%s\n", "a b", "$HOME"], "cwd": "/tmp"}'; echo
# → "stdout":"a b\n$HOME\n"

# stdin of a command, closed at its end.
api "$BOX/commands" -d '{"argv": ["sort", "-n"], "stdin": "10\n9\n"}'; echo
# → "stdout":"9\n10\n"

# A detached command that gets its input later.
id=$(api "$BOX/commands" -d '{"argv": ["sort", "-n"], "detach": true}' | field id)
api "$BOX/commands/$id/input" -d '{"text": "10\n9\n"}'
api "$BOX/commands/$id/input" -d '{"eof": true}'
api -N "$BOX/commands/$id/events"
# → "text":"9\n10\n"
# → "type":"done","status":"ok"

id=$(api "$BOX/commands" -d '{"command": "sleep 1000", "detach": true}' | field id)
api -X DELETE "$BOX/commands/$id"
api -N "$BOX/commands/$id/events"
# → "status":"killed"
