#!/bin/sh
# Ports: reach a server inside a box, even one without a network.
. "$(dirname "$0")/api.sh"
in_box '{"network": "none"}'

# Without a listener the gateway returns 502.
api "$BOX/ports/8000/" || true; echo
# → "status":502

printf '<h1>Hello from the box</h1>' | api -T - "$BOX/files/site/index.html" -o /dev/null
api "$BOX/commands" -d '{"command": "python3 -m http.server --directory site 8000", "detach": true}' -o /dev/null
until api "$BOX/ports/8000/" -o /dev/null 2> /dev/null; do sleep 0.1; done
api "$BOX/ports/8000/index.html"; echo
# → <h1>Hello from the box</h1>
