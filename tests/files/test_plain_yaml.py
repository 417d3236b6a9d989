"""One reader for all YAML: numbers and dates as people write them, and one message for a mistake."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield.errors import BadSpecification
from levelfield.files import plain_yaml


def multiplied(kind: str) -> str:
    """Thirteen lines with three aliases of the line above."""
    lines = [chr(ord("a") + number) for number in range(14)]
    return "\n".join(f"{one}: &{one} {kind % ', '.join([f'*{above}'] * 3)}" for above, one in pairwise(lines))


MISTAKES = {
    "!!int abc": "X is not valid YAML: invalid literal for int() with base 10: 'abc'.",
    "a: !!bool maybe": "X is not valid YAML: 'maybe'.",
    "a: 0x_": "X is not valid YAML: invalid literal for int() with base 16: ''.",
    "!!python/object/apply:os.system [id]": "X is not valid YAML: could not determine a constructor for the tag",
    "!own a": "X is not valid YAML: could not determine a constructor for the tag '!own' (line 1, column 1).",
    "&a [*a]": "X is not valid YAML: an alias is inside its own anchor (line 1, column 1).",
    "b: &a {c: [*a]}": "X is not valid YAML: an alias is inside its own anchor (line 1, column 4).",
    "a: &a [1, 1, 1]\n" + multiplied("[%s]"): "X is not valid YAML: with its aliases it has more than 1,000,000 values",
    "a: &a {b: 1}\n" + multiplied("{<<: [%s]}"): "X is not valid YAML: with its aliases it has more than 1,000,000",
    "*a": "X is not valid YAML: found undefined alias",
    "1" * 5_000: "X is not valid YAML: Exceeds the limit (4300 digits) for integer string conversion",
    "? [a]\n: b": "X is not valid YAML: found unhashable key (line 1, column 3).",
    "{a: 1, b: 2, a: 3}": "X is not valid YAML: the key 'a' occurs twice (line 1, column 14).",
    "a: b: c": "X is not valid YAML: mapping values are not allowed",
    "a\n---\nb": "X is not valid YAML: but found another document",
    "a\0b": "X is not valid YAML: unacceptable character #x0000",
    "\udc80": "X is not valid YAML",
}


@pytest.fixture(params=["in C", "in Python"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module with libyaml and without it."""
    if request.param == "in Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.skip("this PyYAML was built without libyaml")
    yield importlib.reload(plain_yaml)
    monkeypatch.undo()
    importlib.reload(plain_yaml)


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: repr(text[:20]))
def test_a_mistake_gets_one_message(reader: ModuleType, text: str) -> None:
    with pytest.raises(BadSpecification) as error:
        reader.read_yaml(text, origin="X")
    assert str(error.value).startswith(MISTAKES[text])
    assert "\n" not in str(error.value)


def test_what_people_write_is_read_as_they_mean_it(reader: ModuleType) -> None:
    text = "{lr: 1e-3, day: 2024-12-31, never: 2024-13-45, 2024-01-01: key, sign: =, shared: &s [1], again: *s}"
    assert reader.read_yaml(text, origin="X") == {
        "lr": 0.001,
        "day": "2024-12-31",
        "never": "2024-13-45",
        "2024-01-01": "key",
        "sign": "=",
        "shared": [1],
        "again": [1],
    }


def test_many_keys_take_no_quadratic_time(reader: ModuleType) -> None:
    assert len(reader.read_yaml("\n".join(f"k{number}: 1" for number in range(2_000)), origin="X")) == 2_000


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.text(st.sampled_from("a1:-?,[]{}&*!|>'\"%@`#<=~. \n\t\0") | st.characters(), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        plain_yaml.read_yaml(text, origin="X")
    except BadSpecification as error:
        assert str(error).startswith("X ")  # noqa: PT017 - either outcome is right
