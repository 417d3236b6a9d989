"""Settings are checked by their annotations, for our parts and for those of a user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge

from levelfield import batching, miners, objectives
from levelfield.errors import BadSpecification
from levelfield.settings import Count, Positive, Share, checked, converted

OWN = """
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Gt
from torch import nn

if TYPE_CHECKING:
    from somewhere import Unknown


class Mine(nn.Module):
    def __init__(
        self,
        *,
        scale: Annotated[float, Gt(0)] = 1.0,
        mode: Literal["mean", "sum"] = "mean",
        unit: bool = True,
        other: "Unknown | None" = None,
    ) -> None:
        super().__init__()

    def forward(self, embeddings, labels):
        return embeddings.sum()
"""


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"scale": 0}, "'scale' is 0; it must be above 0."),
        ({"scale": "wide"}, "'scale' is 'wide'; expected a finite number."),
        ({"mode": "men"}, "'mode' is 'men'. Choose one of: 'mean', 'sum'."),
        ({"unit": 1}, "'unit' is 1. Choose one of: True, False."),
    ],
)
def test_an_objective_of_a_user_is_checked_by_its_annotations(
    tmp_path: Path, setting: dict[str, Any], message: str
) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    objectives.create(f"{tmp_path}/mine.py:Mine", scale=2, mode="sum", other=5)
    with pytest.raises(BadSpecification) as refused:
        objectives.create(f"{tmp_path}/mine.py:Mine", **setting)
    assert str(refused.value) == message


def test_constructors_check_and_convert_like_create() -> None:
    assert isinstance(objectives.Margin(margin=1).margin, float)
    assert objectives.Histogram(bins=11.0).bins == 11  # type: ignore[arg-type]
    with pytest.raises(BadSpecification, match=r"'switch' is 2; it must be between 0 and 1\."):
        objectives.Triplet(switch=2)
    with pytest.raises(BadSpecification, match=r"'mode' is 'nearest'\. Choose one of"):
        miners.Semihard(mode="nearest")  # type: ignore[arg-type]
    with pytest.raises(BadSpecification, match=r"'samples_per_class' is 0; it must be at least 1\."):
        batching.create("spc", [0, 0, 1, 1], batch_size=2, samples_per_class=0)


@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        (float | None, [None, 1, 2.5], ["x", True, float("nan")]),
        (Literal["a", "b"] | None, [None, "a"], ["c", 1]),
        (Annotated[int, Ge(2)] | str, [2, "all"], [1, 2.5]),
        (Literal["each"] | tuple[int, ...], ["each", (1, 2)], ["ech"]),
        (float | tuple[float, float], [1, (0.1, 0.2)], [float("inf")]),
        (Share, [0, 1, 0.5], [-0.1, 1.1]),
        (dict[str, int], [5, "anything"], []),
    ],
)
def test_unions_allow_what_one_member_allows(annotation: Any, right: list[Any], wrong: list[Any]) -> None:
    for value in right:
        assert converted("setting", value, annotation) == value
    for value in wrong:
        with pytest.raises(BadSpecification, match="'setting' is"):
            converted("setting", value, annotation)


def test_positional_arguments_and_missing_ones_are_as_in_python() -> None:
    @checked
    def scaled(rows: list[float], scale: Positive = 1.0, *, times: Count) -> float:
        return scale * times * len(rows)

    assert scaled([1.0], 2, times=3) == 6.0
    with pytest.raises(BadSpecification, match="'scale' is -1; it must be above 0"):
        scaled([], -1, times=3)
    with pytest.raises(TypeError, match="times"):
        scaled([])  # type: ignore[call-arg]
