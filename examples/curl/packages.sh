#!/bin/sh
# Packages: install with the installer's own output, list what is there. Needs a box with internet, or a deployment with wheels
# (CODEBOX_WHEELS_DIR) and CODEBOX_NETWORK=none here: the local driver gives boxes no network.
. "$(dirname "$0")/api.sh"
in_box "{\"network\": \"${CODEBOX_NETWORK:-internet}\"}"

# As one answer, as a stream (Accept), or detached: an installer is a command.
api -N -H 'Accept: application/x-ndjson' "$BOX/packages" -d '{"packages": ["cowsay"]}'
# → cowsay
# → "type":"done","status":"ok"
# → "installed":[{"name":"cowsay"

# Kernels that run can import it at once.
api "$BOX/executions" -d '{"code": "import cowsay; cowsay.get_output_string(\"cow\", \"moo\").splitlines()[1].strip()"}'; echo
# → | moo |

api "$BOX/packages?manager=pip&limit=1000" | grep -o '{"name":"cowsay"[^}]*}'
# → "source":"user"

# A name is data, never an option of the installer.
api "$BOX/packages" -d '{"packages": ["--index-url=http://example.com"]}' || true; echo
# → "pointer":"/packages/0"

# Code that lacks a package is told which one to install; or that is done, and the code is run again.
api "$BOX/executions" -d '{"code": "import dotenv"}'; echo
# → "hint":{"code":"install_package"
# → "package":"python-dotenv"
api "$BOX/executions" -d '{"code": "import dotenv\ndotenv.__name__", "autoInstall": true}'; echo
# → "text":"'dotenv'"
