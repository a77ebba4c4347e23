# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from codebox_client._model import Model


class MissingLibraryHint(Model):
    """
    The program needs a library of the system that its image lacks.
    """

    code: Literal["missing_library"]
    detail: str
    library: str
    """
    The file or the name of the library, such as `libpango-1.0-0`.
    """


PackageManager = TypeAliasType("PackageManager", Literal["pip", "npm"])


class RestartKernelHint(Model):
    """
    Kernels that run do not use a package that the box has now: they need a restart.
    """

    code: Literal["restart_kernel"]
    detail: str
    manager: PackageManager
    package: str
    version: str | None = None
    """
    The version of the image, which running kernels may still use, if it has the package.
    """


class PackageConflictHint(Model):
    """
    The installer refused the versions of packages.
    """

    code: Literal["package_conflict"]
    detail: str
    manager: PackageManager
    package: str
    version: str | None = None
    """
    The only version that this box can have.
    """


class PackageHint(Model):
    code: Literal["install_package"]
    detail: str
    manager: PackageManager
    module: str
    """
    The module that the program imports.
    """
    package: str
    """
    What to install: `packages: [package]`.
    """


Hint = TypeAliasType(
    "Hint",
    Annotated[
        PackageHint | PackageConflictHint | RestartKernelHint | MissingLibraryHint,
        Field(discriminator="code"),
    ],
)


InstallationHint = TypeAliasType(
    "InstallationHint",
    Annotated[PackageConflictHint | RestartKernelHint, Field(discriminator="code")],
)
