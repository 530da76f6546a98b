"""What every kind of settings is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from isocost.errors import FieldError

AbsolutePath = Annotated[str, Field(pattern=r"^/")]


class StrictSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    def contradictions(self) -> list[FieldError]:
        """Fields that are good alone and cannot work together."""
        return []
