"""Adapts packages to boxes, all or those that are named. install.sh runs it once, in an environment with fixed versions.

It fails if a package does not contain the text to replace, so that a new version of it cannot lose a change.
"""

import sys
import sysconfig
from pathlib import Path

_CHANGES = {
    # pip refuses to install beside packages of a virtual environment, which would come first. In a box, those of the
    # user come first: codebox_server/packages/precedence.py.
    "pip/_internal/resolution/resolvelib/factory.py": (
        "if running_under_virtualenv() and dist.in_site_packages:",
        "if False:",
    ),
    # /tmp is a share of the memory of the box, and large packages do not fit.
    "pip/_internal/cli/main.py": (
        "    from pip._internal.cli.autocompletion import autocomplete\n",
        "    from codebox_server.packages.unpacking import unpack_on_volume\n\n"
        "    unpack_on_volume()\n"
        "    from pip._internal.cli.autocompletion import autocomplete\n",
    ),
    # It makes forty parsers that hardly any program uses, which is three quarters of the time of `import altair`. Here
    # each is made when it is first used.
    "rfc3987_syntax/syntax_helpers.py": (
        "from lark import Lark, ParseTree, exceptions\n",
        "from functools import cache\n\n"
        "from lark import Lark as _Lark, ParseTree, exceptions\n\n\n"
        "class Lark:\n"
        "    def __init__(self, *args, **options):\n"
        "        self._made = cache(lambda: _Lark(*args, **options))\n\n"
        "    def parse(self, *args, **options):\n"
        "        return self._made().parse(*args, **options)\n",
    ),
}

packages = Path(sysconfig.get_path("purelib"))
for name, (old, new) in _CHANGES.items():
    if sys.argv[1:] and name.partition("/")[0] not in sys.argv[1:]:
        continue
    path = packages / name
    text = path.read_text()
    if text.count(old) != 1:
        raise SystemExit(f"{path} does not have exactly once: {old}")
    path.write_text(text.replace(old, new))
