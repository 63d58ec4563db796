"""Lists come in pages: some rows, and where the next page begins."""

from collections.abc import Sequence
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict

LIMIT_DEFAULT, LIMIT_MAX = 50, 200

T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="how many rows at most")]
After = Annotated[int, Query(ge=0, le=2**63 - 1, description="the `next` of the page before")]


class Body(BaseModel):
    """What is sent to us: exactly the fields there are, of exactly their types."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Page(BaseModel, Generic[T]):
    """Some rows of a list."""

    items: Sequence[T]
    next: str | int | None = None
    """Where the next page begins; null at the end."""


def page_of(rows: Sequence[T], limit: int, place: str) -> Page[T]:
    """A page whose successor begins after this field of its last row."""
    return Page(items=rows, next=getattr(rows[-1], place) if len(rows) == limit else None)
