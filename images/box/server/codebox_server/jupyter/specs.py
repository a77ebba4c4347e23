"""The kernel specs of the box: of this package, and of the image. A kernel is named as its language."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from traitlets import Unicode

import codebox_server.kernels

_OWN = ("python", "javascript", "typescript", "bash")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")

_FOLDER = str(Path(codebox_server.kernels.__file__).parent)
# Jupyter's own name for the kernel of the running Python; clients ask for it out of habit.
_ALIASES = {"python3": "python"}


class BoxKernelSpecManager(KernelSpecManager):
    """Knows these languages only, whatever else the machine has installed."""

    image_kernels = Unicode(help="A folder with one folder per further language.").tag(config=True)

    def _kernel_dirs_default(self) -> list[str]:
        return [_FOLDER, self.image_kernels]

    @cached_property
    def _folders(self) -> dict[str, str]:
        specs = sorted(Path(self.image_kernels).glob("*/kernel.json")) if self.image_kernels else []
        brought = {spec.parent.name: str(spec.parent) for spec in specs if _NAME.fullmatch(spec.parent.name)}
        # What this package has cannot be replaced by the image.
        return {**brought, **{language: f"{_FOLDER}/{language}" for language in _OWN}}

    def find_kernel_specs(self) -> dict[str, str]:
        """Language to folder."""
        return dict(self._folders)

    def takes_env(self, language: str) -> bool:
        """Whether its kernel applies the environment of a single run; a spec of the image says so in its metadata."""
        if language in _OWN:
            return True
        own = self.get_kernel_spec(language).metadata.get("codebox")
        return isinstance(own, dict) and own.get("env") is True

    def tells_variables(self, language: str) -> bool:
        """Whether its kernel knows our request for them."""
        return language in _OWN

    def takes_environment(self, language: str) -> bool:
        """Whether its kernel can be given another environment while it runs."""
        return language in _OWN

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """The spec of a language; raises NoSuchKernel."""
        return super().get_kernel_spec(_ALIASES.get(kernel_name, kernel_name))

    def get_all_specs(self) -> dict[str, Any]:
        """Every spec with its folder, for the REST API."""
        return {
            name: {"resource_dir": folder, "spec": self.get_kernel_spec(name).to_dict()}
            for name, folder in self.find_kernel_specs().items()
        }
