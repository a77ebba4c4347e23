"""
Writes the generated parts of the package: `models` from `openapi.yaml`, and `_sync` from `_async`.

`python generate.py [FOLDER]` writes below a copy of the package in FOLDER; default: the folder of this file. It needs
the packages of tools.txt.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import unasync
import yaml
from pydantic.alias_generators import to_camel

HERE = Path(__file__).parent
# The modules of `models`, with the schemas that calls return. What else a schema refers to is in the first module that
# needs it. A schema is listed no later than the first one that refers to it, so that a module imports only from those
# above it. `options.py` has the arguments.
RETURNED = {
    "charts": ["Chart"],
    "hints": ["Hint", "InstallationHint"],
    "causes": ["Cause"],
    "outcomes": ["InstalledPackage", "LeftProcesses", "OutputTruncated"],
    "filesystem": ["ChangedFiles", "FileEntry", "SearchMatch", "WatchEvent"],
    "boxes": ["Box", "BoxStats", "Context", "Package", "Variable"],
    "commands": ["Command", "CommandEvent", "CommandSummary"],
    "executions": ["Execution", "ExecutionEvent", "ExecutionSummary", "Run"],
    "terminals": ["Terminal", "Ticket"],
    "templates": ["BuildEvent", "Template", "TemplateDetail", "TemplateVersion"],
    "volumes": ["Volume"],
    "exports": ["Export", "ExportSummary"],
    "links": ["CreatedLink", "Link"],
    "webhooks": ["CreatedWebhook", "Webhook", "WebhookDelivery"],
    "tenants": ["ApiKey", "AuditEntry", "Caller", "NewApiKey", "Tenant", "Usage"],
}
# The classes with shortcuts, which are written by hand.
BASES = {
    "executions.Execution": "codebox_client._model.WithStreams",
    "executions.Run": "codebox_client._model.WithOutputs",
}
# The options of each request, and what it takes as arguments.
TAKEN = {
    "CreateBox": ("BoxOptions", set()),
    "UpdateBox": ("BoxChanges", set()),
    "BuildTemplate": ("BuildOptions", {"from"}),
    "CreateExecution": ("ExecutionOptions", {"code", "detach"}),
    "CreateCommand": ("CommandOptions", {"command", "argv", "detach"}),
    "RunNotebook": ("NotebookOptions", {"path", "detach"}),
    "InstallPackages": ("InstallOptions", {"packages", "detach"}),
    "CreateContext": ("ContextOptions", set()),
    "CreateRun": ("RunOptions", {"code", "steps"}),
    "RunStep": ("RunStep", set()),
    "InlineFile": ("InlineFile", set()),
    "Limits": ("Limits", set()),
    "CreateLink": ("LinkOptions", {"path"}),
    "CreateExport": ("ExportOptions", set()),
    "MountVolume": ("MountVolume", set()),
    "CreateVolume": ("VolumeOptions", {"name"}),
    "UpdateWebhook": ("WebhookChanges", set()),
    "Quotas": ("Quotas", set()),
    "CreateTenant": ("TenantOptions", {"name"}),
    "UpdateTenant": ("TenantChanges", set()),
    "CreateApiKey": ("KeyOptions", {"tenant", "name"}),
    "RotateApiKey": ("RotationOptions", set()),
}
# The gateway has checked what it sends; a newer one may have other bounds.
BOUNDS = {"pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "propertyNames"}


def main(folder: Path) -> None:
    package = folder / "codebox_client"
    write_models(HERE / "../../openapi.yaml", package / "models")
    write_sync(package)
    check_options(HERE / "../../openapi.yaml")


def write_models(document: Path, target: Path) -> None:
    schemas = yaml.safe_load(document.read_text())["components"]["schemas"]
    modules = modules_of(schemas)
    kept = {f"{module}.{name}": moved(schemas[name], modules) for name, module in sorted(modules.items())}
    info = {"title": "models", "version": "1"}
    whole = {"openapi": "3.1.0", "info": info, "paths": {}, "components": {"schemas": kept}}
    if target.exists():
        shutil.rmtree(target)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as source:
        yaml.safe_dump(whole, source)
        subprocess.run(
            [
                *(sys.executable, "-m", "datamodel_code_generator", "--input-file-type", "openapi"),
                *("--input", source.name, "--output", str(target)),
                *("--output-model-type", "pydantic_v2.BaseModel", "--target-python-version", "3.11"),
                *("--all-exports-scope", "recursive"),
                *("--base-class", "codebox_client._model.Model", "--snake-case-field", "--no-alias"),
                *("--base-class-map", json.dumps(BASES)),
                *("--enum-field-as-literal", "all", "--use-type-alias", "--infer-union-variant-names"),
                *("--use-annotated", "--use-standard-collections", "--use-union-operator"),
                *("--strict-nullable",),
                *("--use-schema-description", "--use-field-description", "--disable-timestamp"),
                *("--custom-file-header", "# Generated from openapi.yaml by generate.py."),
                *("--formatters", "builtin"),
            ],
            check=True,
        )


def modules_of(schemas: dict[str, Any]) -> dict[str, str]:
    """The schemas that the package has, each with its module."""
    modules = {name: module for module, names in RETURNED.items() for name in names}
    wanted = [*reversed(modules)]
    while wanted:
        name = wanted.pop()
        found = [other for other in references_of(schemas[name]) if other not in modules]
        modules |= dict.fromkeys(found, modules[name])
        wanted += found
    return modules


def references_of(schema: Any) -> list[str]:
    """The names of the schemas that a schema refers to."""
    if isinstance(schema, list):
        return [name for part in schema for name in references_of(part)]
    if not isinstance(schema, dict):
        return []
    if isinstance(ref := schema.get("$ref"), str):
        return [ref.rpartition("/")[2]]
    return references_of([*schema.values()])


def moved(schema: Any, modules: dict[str, str]) -> Any:
    """A copy of a schema without bounds, which refers to others by their modules."""
    if isinstance(schema, list):
        return [moved(part, modules) for part in schema]
    # The values of `$ref`, and those of a discriminator's mapping.
    if isinstance(schema, str) and schema.startswith("#/components/schemas/"):
        place, _, name = schema.rpartition("/")
        return f"{place}/{modules[name]}.{name}"
    if not isinstance(schema, dict):
        return schema
    # Below `properties` the keys are names of the caller's data.
    return {
        key: {name: moved(part, modules) for name, part in value.items()}
        if key == "properties"
        else moved(value, modules)
        for key, value in schema.items()
        if key not in BOUNDS
    }


def write_sync(package: Path) -> None:
    names = {"aclose": "close", "aread": "read", "aiter_bytes": "iter_bytes", "async_pause": "pause"}
    names |= {"async_open_file": "open_file", "async_connect": "connect"}
    sources = sorted((package / "_async").glob("*.py"))
    for source in sources:
        for word in re.sub("[(:,]", " ", source.read_text()).replace("_Async", "Async").split():
            if word.startswith("Async") and word.isidentifier():
                names |= {word: word[5:], f"_{word}": f"_{word[5:]}"}
    names |= {"AsyncClient": "Client"}
    unasync.unasync_files([str(source) for source in sources], [unasync.Rule("/_async/", "/_sync/", names)])
    for source in sources:
        target = package / "_sync" / source.name
        target.write_text(f"# Generated from _async/{source.name} by generate.py.\n{target.read_text()}")
    ruff = [sys.executable, "-m", "ruff"]
    generated = ["--config", str(HERE / "pyproject.toml"), str(package / "_sync"), str(package / "models")]
    subprocess.run([*ruff, "check", "-q", "--fix-only", *generated], check=True)
    subprocess.run([*ruff, "format", "-q", *generated], check=True)


def check_options(document: Path) -> None:
    """Raises ValueError unless options have exactly the fields that requests may have, and `DATA` those with data."""
    sys.path.insert(0, str(HERE))
    from codebox_client import options

    schemas = yaml.safe_load(document.read_text())["components"]["schemas"]
    for name, (kind, arguments) in TAKEN.items():
        fields = {to_camel(field) for field in getattr(options, kind).__annotations__} - {
            "idempotencyKey",
            "deadlineSeconds",
        }
        if fields ^ set(schemas[name]["properties"]) != arguments:
            raise ValueError(f"{kind} differs from {name}: {sorted(fields ^ set(schemas[name]['properties']))}")
    if (found := maps_of([schemas[name] for name in TAKEN])) != options.DATA:
        raise ValueError(f"DATA differs from the requests: {sorted(found ^ options.DATA)}")


def maps_of(schema: Any) -> set[str]:
    """The names of the properties whose keys are not those of a schema."""
    if isinstance(schema, list):
        return set().union(*map(maps_of, schema))
    if not isinstance(schema, dict):
        return set()
    properties = schema.get("properties", {}).items()
    own = {name for name, part in properties if isinstance(part.get("additionalProperties"), dict)}
    return own | maps_of([*schema.values()])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
