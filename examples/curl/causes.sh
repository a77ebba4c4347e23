#!/bin/sh
# Causes: every run ends in one status, with a cause when it was not its own code that ended it.
. "$(dirname "$0")/api.sh"
in_box

api "$BOX/executions" -d '{"code": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"}'; echo
# → "status":"killed"
# → "signal":"SIGKILL"
# → "stateLost":true

# CPU time, beside the clock: it counts what the run starts, too.
api "$BOX/executions" -d '{"code": "while True: pass", "cpuSeconds": 0.5}'; echo
# → "status":"timeout"
# → "code":"cpu_limit"

# What a run has left running.
api "$BOX/executions" -d '{"code": "import subprocess\n_ = subprocess.Popen([\"sleep\", \"1000\"])"}'; echo
# → "command":"sleep 1000"
