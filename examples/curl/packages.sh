#!/bin/sh
# Packages: install packages, with the output of the installer, and list them. Needs a box with internet access, or a deployment
# with wheels (CODEBOX_WHEELS_DIR) and CODEBOX_NETWORK=none here, where the driver offers no network.
. "$(dirname "$0")/api.sh"
in_box "{\"network\": \"${CODEBOX_NETWORK:-internet}\"}"

# Like a command, an installation can be awaited, streamed (by Accept) or detached.
api -N -H 'Accept: application/x-ndjson' "$BOX/packages" -d '{"packages": ["cowsay"]}'
# → cowsay
# → "type":"done","status":"ok"
# → "installed":[{"name":"cowsay"

# Running kernels can import the package at once.
api "$BOX/executions" -d '{"code": "import cowsay; cowsay.get_output_string(\"cow\", \"moo\").splitlines()[1].strip()"}'; echo
# → | moo |

api "$BOX/packages?manager=pip&limit=1000" | grep -o '{"name":"cowsay"[^}]*}'
# → "source":"user"

# Package names are never interpreted as options of the installer.
api "$BOX/packages" -d '{"packages": ["--index-url=http://example.com"]}' || true; echo
# → "pointer":"/packages/0"

# If code lacks a package, the result names it; with autoInstall it is installed and the code rerun.
api "$BOX/executions" -d '{"code": "import dotenv"}'; echo
# → "hint":{"code":"install_package"
# → "package":"python-dotenv"
api "$BOX/executions" -d '{"code": "import dotenv\ndotenv.__name__", "autoInstall": true}'; echo
# → "text":"'dotenv'"
