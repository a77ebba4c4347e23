"""
Writes the generated parts of the package: `models.py` from `openapi.yaml`, and `_sync` from `_async`.

`python generate.py [FOLDER]` writes below a copy of the package in FOLDER; default: the folder of this file. It needs
the packages of tools.txt.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import unasync
import yaml
from pydantic.alias_generators import to_camel

HERE = Path(__file__).parent
# The models that calls return; those that they refer to are added. `options.py` has the arguments.
RETURNED = [
    *("Box", "BoxStats", "Caller", "Chart", "Command", "CommandEvent", "CommandSummary", "Context", "Execution"),
    *("ExecutionEvent", "ExecutionSummary", "FileEntry", "Package", "Run", "SearchMatch", "Template", "Ticket"),
    *("ApiKey", "AuditEntry", "CreatedLink", "CreatedWebhook", "Link", "NewApiKey", "Tenant", "Terminal", "Usage"),
    *("BuildEvent", "TemplateDetail", "TemplateVersion", "Variable", "Volume", "WatchEvent", "Webhook"),
    *("Export", "ExportSummary", "WebhookDelivery"),
]
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
    write_models(HERE / "../../openapi.yaml", package / "models.py")
    write_sync(package)
    check_options(HERE / "../../openapi.yaml")


def write_models(document: Path, target: Path) -> None:
    schemas = yaml.safe_load(document.read_text())["components"]["schemas"]
    kept: dict[str, Any] = {}
    wanted = [*RETURNED]
    while wanted:
        name = wanted.pop()
        if name not in kept:
            kept[name] = without_bounds(schemas[name], wanted)
    whole = {"openapi": "3.1.0", "info": {"title": "models", "version": "1"}, "paths": {}}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as source:
        yaml.safe_dump({**whole, "components": {"schemas": {name: kept[name] for name in sorted(kept)}}}, source)
        subprocess.run(
            [
                *(sys.executable, "-m", "datamodel_code_generator", "--input-file-type", "openapi"),
                *("--input", source.name, "--output", str(target)),
                *("--output-model-type", "pydantic_v2.BaseModel", "--target-python-version", "3.11"),
                *("--base-class", "codebox_client._model.Model", "--snake-case-field", "--no-alias"),
                *(
                    "--base-class-map",
                    '{"Execution": "codebox_client._model.WithStreams", "Run": "codebox_client._model.WithOutputs"}',
                ),
                *("--enum-field-as-literal", "all", "--use-type-alias", "--infer-union-variant-names"),
                *("--use-annotated", "--use-standard-collections", "--use-union-operator"),
                *("--strict-nullable",),
                *("--use-schema-description", "--use-field-description", "--disable-timestamp"),
                *("--custom-file-header", "# Generated from openapi.yaml by generate.py."),
                *("--formatters", "builtin"),
            ],
            check=True,
        )


def without_bounds(schema: Any, found: list[str]) -> Any:
    """A copy of a schema without bounds; the schemas that it refers to are added to `found`."""
    if isinstance(schema, list):
        return [without_bounds(item, found) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(ref := schema.get("$ref"), str):
        found.append(ref.rpartition("/")[2])
    # Below `properties` the keys are names of the caller's data.
    return {
        key: {name: without_bounds(part, found) for name, part in value.items()}
        if key == "properties"
        else without_bounds(value, found)
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
    generated = ["--config", str(HERE / "pyproject.toml"), str(package / "_sync"), str(package / "models.py")]
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
