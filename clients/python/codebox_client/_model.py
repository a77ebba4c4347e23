"""The base of the generated models."""

from __future__ import annotations

import base64
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, ValidatorFunctionWrapHandler, field_validator
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A JSON object: its camelCase keys are attributes in snake_case, and keys of a newer gateway are kept."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    @field_validator("hint", mode="wrap", check_fields=False)
    @classmethod
    def _drop_unknown_hint(cls, hint: Any, parse: ValidatorFunctionWrapHandler) -> Any:
        """A newer gateway may have further hints; what they belong to remains."""
        try:
            return parse(hint)
        except ValidationError:
            return None


class WithOutputs(Model):
    """An execution or a one-shot run, with shortcuts to its outputs."""

    def _outputs(self) -> list[Any]:
        return getattr(self, "outputs", None) or []

    @property
    def png(self) -> bytes | None:
        """The first picture among the outputs, such as a plot."""
        for output in self._outputs():
            picture = getattr(output, "mime", {}).get("image/png")
            if isinstance(picture, str):
                return base64.b64decode(picture)
        return None


class WithStreams(WithOutputs):
    """An execution, whose printed text is among its outputs."""

    def _text_of(self, kind: str) -> str:
        return "".join(output.text for output in self._outputs() if output.type == kind)

    @property
    def stdout(self) -> str:
        """The text that was written to stdout."""
        return self._text_of("stdout")

    @property
    def stderr(self) -> str:
        """The text that was written to stderr."""
        return self._text_of("stderr")
