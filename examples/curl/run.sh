#!/bin/sh
# Run: a one-shot run in a fresh box that is destroyed afterwards.
. "$(dirname "$0")/api.sh"

# Code alone runs in a kernel and returns results and figures.
api "$CODEBOX_URL/v1/run" -d '{"language": "python", "code": "6 * 7"}'; echo
# → "text":"42"

# With files, stdin or arguments it runs as a program, and created files are returned.
api "$CODEBOX_URL/v1/run" -d '{
  "language": "python",
  "files": [
    {"path": "main.py", "text": "import sys, greet\nprint(greet.hello(sys.stdin.read()), *sys.argv[1:])\nopen(\"made.txt\", \"w\").write(\"new\")"},
    {"path": "greet.py", "text": "def hello(name): return f\"Hello {name}\""}
  ],
  "stdin": "Ada", "args": ["--loud"], "timeoutSeconds": 20, "limits": {"memoryMb": 256}
}'; echo
# → "exitCode":0
# → "stdout":"Hello Ada --loud\n"
# → "path":"made.txt","change":"created","sizeBytes":3,"base64":"bmV3"
