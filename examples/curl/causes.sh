#!/bin/sh
# Causes: every run ends with a status, and with a cause unless its code ended by itself.
. "$(dirname "$0")/api.sh"
in_box

api "$BOX/executions" -d '{"code": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"}'; echo
# → "status":"killed"
# → "signal":"SIGKILL"
# → "stateLost":true

# A limit of CPU time, which includes child processes.
api "$BOX/executions" -d '{"code": "while True: pass", "cpuSeconds": 0.5}'; echo
# → "status":"timeout"
# → "code":"cpu_limit"

# Processes that a run has left running.
api "$BOX/executions" -d '{"code": "import subprocess\n_ = subprocess.Popen([\"sleep\", \"1000\"])"}'; echo
# → "command":"sleep 1000"
