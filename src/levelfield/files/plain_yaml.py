"""YAML as people write it: 1e-3 is a number, a date is text, and a duplicate key is an error.

All YAML is read here. Size, depth and alias expansion are limited before anything is built, so that no text can exhaust
memory, hang or crash the interpreter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import yaml

from levelfield.errors import BadSpecification, Damaged
from levelfield.files.reading import MEGABYTE, read_text

LONGEST = MEGABYTE  # characters; a study of a thousand methods has a third of that
EXPANDED = 2 * MEGABYTE  # characters and nodes after alias expansion
DEEPEST = 60  # a study needs about 8 levels
LARGEST = 2**64  # integers, either sign
LONGEST_NUMBER = 10_000  # characters
_TAGS = {None, "!", *(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map"))}
# invalid in file names or UTF-8, or terminal control characters
_UNFIT = re.compile("[\0\x1b\ud800-\udfff]")
_FAULTS = (ValueError, KeyError, IndexError, AttributeError, OverflowError)  # raised by PyYAML's scalar constructors


def read_yaml_file(path: Path) -> Any:
    """Read a YAML file written by a person."""
    return _read(_text(path), _Loader, str(path))


def read_yaml(text: str, *, origin: str) -> Any:
    """Parse `text`. `origin` names it in errors.

    >>> read_yaml("{lr: 1e-3, steps: 5, about: 1e, day: 2024-13-45}", origin="example")
    {'lr': 0.001, 'steps': 5, 'about': '1e', 'day': '2024-13-45'}
    >>> read_yaml("{dim: 64, dim: 128}", origin="example")
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: example has the key 'dim' twice (line 1, column 11).
    """
    return _read(text, _Loader, origin)


def read_written(path: Path) -> Any:
    """Read a file written by `yaml.safe_dump`, in which an identity such as 843e62081982 is text.

    >>> import tempfile
    >>> written = Path(tempfile.mkdtemp()) / "run.yaml"
    >>> _ = written.write_text(yaml.safe_dump({"identity": "843e62081982"}))
    >>> read_written(written)
    {'identity': '843e62081982'}
    """
    try:
        return _read(_text(path), _WrittenLoader, str(path))
    except BadSpecification as error:  # a generated file is damaged, not misspelt
        raise Damaged(str(error)) from error


def _text(path: Path) -> str:
    try:
        return read_text(path, most=4 * LONGEST)  # bytes: at most 4 per character
    except Damaged as error:
        raise BadSpecification(str(error)) from error


def _read(text: str, loader: type[_Plain], origin: str) -> Any:
    try:
        if len(text) > LONGEST:
            raise _Refused(f"has {len(text):,} characters; the limit is {LONGEST:,}")
        _check(yaml.parse(text, loader))
        return yaml.load(text, loader)
    except _Refused as error:
        raise BadSpecification(f"{origin} {error.what}{_position(error.mark)}.") from error
    except yaml.MarkedYAMLError as error:
        problem = error.problem or error.context or "it cannot be parsed"
        raise BadSpecification(f"{origin} is not valid YAML: {problem}{_position(error.problem_mark)}.") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise BadSpecification(f"{origin} is not valid YAML: {_first_line(error)}.") from error


class _Refused(Exception):
    """Valid YAML outside our limits; `what` completes a sentence that starts with the origin."""

    def __init__(self, what: str, mark: Any = None) -> None:
        super().__init__(what)
        self.what, self.mark = what, mark


def _check(events: Iterator[yaml.Event]) -> None:
    """Check the event stream of a text before anything is built: PyYAML builds recursively."""
    sizes = [0]  # of the open collections and the document
    open_anchors: list[str | None] = []
    anchored: dict[str | None, int] = {}
    for event in events:
        mark = event.start_mark
        if getattr(event, "tag", None) not in _TAGS:  # a scalar or the start of a collection
            tag = str(getattr(event, "tag", None)).replace("tag:yaml.org,2002:", "!!")
            raise _Refused(f"uses the tag {tag}; only plain values, lists and mappings are supported", mark)
        if isinstance(event, yaml.CollectionStartEvent):
            sizes.append(1)
            open_anchors.append(event.anchor)
            if len(open_anchors) > DEEPEST:
                raise _Refused(f"is nested more than {DEEPEST} levels deep", mark)
            continue
        anchor, size = None, 0
        if isinstance(event, yaml.ScalarEvent):
            anchor, size = event.anchor, 1 + len(event.value)
            if unfit := _UNFIT.search(event.value):
                raise _Refused(f"contains the character {unfit[0]!a}, which is not allowed in text", mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_anchors.pop(), sizes.pop()
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor in open_anchors:
                raise _Refused(f"has the alias *{event.anchor} inside its own anchor", mark)
            size = anchored.get(event.anchor, 1)  # an undefined alias is refused later
        if anchor is not None:
            anchored[anchor] = size
        sizes[-1] += size
        if sizes[-1] > EXPANDED:
            raise _Refused(f"expands its aliases to more than {EXPANDED:,} characters", mark)


class _Plain(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # in C where PyYAML has it
    """Loader of null, booleans, numbers, text, lists and mappings only."""


class _WrittenLoader(_Plain):
    """Loader for files written by `yaml.safe_dump`."""


class _Loader(_Plain):
    """Loader for files written by people."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise _Refused(f"has the key '{key.value}' twice", key.start_mark)
                seen.add(key.value)
        content: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return content


def _careful(construct: Callable[[Any, yaml.ScalarNode], Any], kind: str) -> Callable[[Any, yaml.ScalarNode], Any]:
    """Wrap a constructor so that its error names the value and its position."""

    def constructed(loader: Any, node: yaml.ScalarNode) -> Any:
        try:
            if len(node.value) > LONGEST_NUMBER:  # 1:1:1:... is a base-60 number that takes minutes to parse
                raise ValueError
            value = construct(loader, node)
        except _FAULTS as error:
            raise _Refused(f"has {_shortened(node.value)} where {kind} is expected", node.start_mark) from error
        if isinstance(value, int) and abs(value) >= LARGEST:
            raise _Refused(f"has {_shortened(node.value)}; integers are limited to 64 bits", node.start_mark)
        return value

    return constructed


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:20]}...' ({len(text) - 2:,} characters)"


def _position(mark: Any) -> str:
    return "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


_SCALARS = {"int": "an integer of at most 64 bits", "float": "a number", "bool": "true or false"}
for _name, _kind in _SCALARS.items():
    _tag = f"tag:yaml.org,2002:{_name}"
    _Plain.add_constructor(_tag, _careful(getattr(yaml.SafeLoader, f"construct_yaml_{_name}"), _kind))
_Plain.add_constructor("tag:yaml.org,2002:value", yaml.SafeLoader.construct_yaml_str)  # a lone `=`
# dates stay text: no setting is a date, and texts such as 2024-13-45 look like one
_Plain.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in _Plain.yaml_implicit_resolvers.items()
}
_Loader.yaml_implicit_resolvers = {
    first: list(resolvers) for first, resolvers in _Plain.yaml_implicit_resolvers.items()
}
# YAML 1.1 reads 1e-3 as text, because it has no decimal point
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)[eE][-+]?\d+$"), list("-+.0123456789")
)
