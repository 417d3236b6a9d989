"""Claims of a study: which row is better, by which metric, and the source of the claim."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from levelfield.errors import BadSpecification, nearest

_FORM = re.compile(r"^(?P<first>.+?)\s+(?P<sign>[>=])\s+(?P<second>.+)$")


class Claim(BaseModel):
    """`a > b`: row a is better. `a = b`: the rows differ by at most `within`. Rows are named by label.

    >>> Claim(claim="margin > triplet").parts
    ('margin', '>', 'triplet')
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    claim: str
    metric: str = ""
    """A metric of the study; default: its first."""
    source: str = ""
    """Source of the claim, e.g. `roth2020 table 4`."""
    within: float = Field(0.02, gt=0)
    trials: int | None = Field(None, ge=1)
    """The tuning budget that the claim is about: trials of both methods."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"claim": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _is_readable(self) -> Claim:
        if _FORM.match(self.claim) is None:
            raise ValueError("write a claim as `a > b` or `a = b`, with the labels of two methods")
        return self

    @property
    def parts(self) -> tuple[str, str, str]:
        match = _FORM.match(self.claim)
        assert match is not None
        return match["first"], match["sign"], match["second"]


def check_claims(claims: Sequence[Claim], rows: Sequence[str], metrics: Sequence[str]) -> None:
    """Refuse claims about rows or metrics that the study does not have."""
    for one in claims:
        first, _, second = one.parts
        if first == second:
            raise BadSpecification(f"The claim '{one.claim}' compares a row with itself: name two rows.")
        for label in (first, second):
            if label not in rows:
                close = nearest(label, rows)
                hint = f" Did you mean '{close}'?" if close else f" Rows: {', '.join(rows)}."
                raise BadSpecification(
                    f"The claim '{one.claim}' names '{label}', which is not a row of the study.{hint}"
                )
        if one.metric and one.metric not in metrics:
            raise BadSpecification(
                f"The claim '{one.claim}' is about '{one.metric}', which the study does not measure: add it to metrics."
            )
