"""Adapts pip to boxes. install.sh runs it once, in the environment that it makes; pip's version is fixed there.

It fails if pip does not contain the text to replace, so that a new version of pip cannot lose a change.
"""

from pathlib import Path

import pip

_CHANGES = {
    # pip refuses to install beside packages of a virtual environment, which would come first. In a box, those of the
    # user come first: codebox_server/packages/precedence.py.
    "resolution/resolvelib/factory.py": (
        "if running_under_virtualenv() and dist.in_site_packages:",
        "if False:",
    ),
    # /tmp is a share of the memory of the box, and large packages do not fit.
    "cli/main.py": (
        "    from pip._internal.cli.autocompletion import autocomplete\n",
        "    from codebox_server.packages.unpacking import unpack_on_volume\n\n"
        "    unpack_on_volume()\n"
        "    from pip._internal.cli.autocompletion import autocomplete\n",
    ),
}

for name, (old, new) in _CHANGES.items():
    path = Path(pip.__file__).parent / "_internal" / name
    text = path.read_text()
    if text.count(old) != 1:
        raise SystemExit(f"{path} does not have exactly once: {old}")
    path.write_text(text.replace(old, new))
