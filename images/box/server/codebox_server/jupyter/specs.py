"""The kernel specs of the box: those of this package and of the image. The name of a kernel is its language."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel
from traitlets import TraitError, Unicode

import codebox_server.kernels
from codebox_server.errors import KernelFault

_OWN = ("python", "javascript", "typescript", "bash")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")

_FOLDER = str(Path(codebox_server.kernels.__file__).parent)
# Jupyter's own name for the kernel of the running Python; clients ask for it out of habit.
_ALIASES = {"python3": "python"}
_INVALID = "kernel.json: it has to be an object with argv, a list of strings"


class BoxKernelSpecManager(KernelSpecManager):
    """Offers these languages only, whatever else the machine has installed."""

    image_kernels = Unicode(help="A folder with one folder per further language.").tag(config=True)

    def _kernel_dirs_default(self) -> list[str]:
        return [_FOLDER, self.image_kernels]

    @cached_property
    def _folders(self) -> dict[str, str]:
        specs = sorted(Path(self.image_kernels).glob("*/kernel.json")) if self.image_kernels else []
        brought = {spec.parent.name: str(spec.parent) for spec in specs if _NAME.fullmatch(spec.parent.name)}
        # The image cannot replace the kernels of this package.
        return {**brought, **{language: f"{_FOLDER}/{language}" for language in _OWN}}

    def find_kernel_specs(self) -> dict[str, str]:
        """Map languages to folders."""
        return dict(self._folders)

    def takes_env(self, language: str) -> bool:
        """Whether its kernel applies the environment of a single run."""
        return self._declares(language, "env")

    def takes_folder(self, language: str) -> bool:
        """Whether its kernel runs code in the folder of a single run."""
        return self._declares(language, "folder")

    def lists_variables(self, language: str) -> bool:
        """Whether its kernel supports our request for variables."""
        return self._declares(language, "variables")

    def takes_environment(self, language: str) -> bool:
        """Whether the environment of its kernel can be changed while it runs."""
        return self._declares(language, "environment")

    def _declares(self, language: str, ability: str) -> bool:
        """Whether the spec of a language has this set to true in `metadata.codebox`. One that cannot be read has
        everything: the start of its kernel reports the fault.
        """
        try:
            own = self.get_kernel_spec(language).metadata.get("codebox")
        except KernelFault:
            return True
        return isinstance(own, dict) and own.get(ability) is True

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return the spec of a language; raises NoSuchKernel, and KernelFault for one that cannot be read."""
        try:
            spec = super().get_kernel_spec(_ALIASES.get(kernel_name, kernel_name))
        except NoSuchKernel:
            raise
        except json.JSONDecodeError as error:
            raise KernelFault(f"kernel.json: {error.msg}, line {error.lineno}") from error
        except OSError as error:
            raise KernelFault(f"kernel.json: {error.strerror}") from error
        except (ValueError, TypeError, RecursionError, TraitError) as error:
            raise KernelFault(_INVALID) from error
        if not spec.argv or not all(isinstance(one, str) for one in spec.argv):
            raise KernelFault(_INVALID)
        return spec

    def get_all_specs(self) -> dict[str, Any]:
        """Return every spec that can be read with its folder, for the REST API."""
        specs: dict[str, Any] = {}
        for name, folder in self.find_kernel_specs().items():
            with suppress(KernelFault):
                specs[name] = {"resource_dir": folder, "spec": self.get_kernel_spec(name).to_dict()}
        return specs
