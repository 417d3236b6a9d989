"""YAML as people write it: 1e-3 is a number, a date is text, and a duplicate key is an error.

All YAML is read here, as plain data: nothing that a text names is created or run.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from levelfield.errors import BadSpecification, Damaged
from levelfield.files.reading import read_text
from levelfield.files.writing import write_text

_MAX_VALUES = 1_000_000  # values of a text
# raised by PyYAML's constructors of scalars, such as `!!int abc`, and for a text nested too deeply
_FAULTS = (ValueError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


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
    levelfield.errors.BadSpecification: example is not valid YAML: the key 'dim' occurs twice (line 1, column 11).
    """
    return _read(text, _Loader, origin)


def read_written(path: Path) -> Any:
    """Read a file of `write_yaml`, in which an identity such as 843e62081982 is text.

    >>> import tempfile
    >>> written = Path(tempfile.mkdtemp()) / "run.yaml"
    >>> write_yaml(written, {"identity": "843e62081982"})
    >>> read_written(written)
    {'identity': '843e62081982'}
    """
    try:
        return _read(_text(path), _WrittenLoader, str(path))
    except BadSpecification as error:  # a generated file is damaged, not misspelt
        raise Damaged(str(error)) from error


def write_yaml(path: Path, content: dict[str, Any]) -> None:
    """Write plain data for `read_written`."""
    write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except Damaged as error:
        raise BadSpecification(str(error)) from error


def _read(text: str, loader: type[_WrittenLoader], origin: str) -> Any:
    try:
        return yaml.load(text, loader)
    except yaml.MarkedYAMLError as error:
        problem, mark = error.problem or error.context or "it cannot be parsed", error.problem_mark
        position = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
        raise BadSpecification(f"{origin} is not valid YAML: {problem}{position}.") from error
    except (yaml.YAMLError, *_FAULTS) as error:
        problem = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise BadSpecification(f"{origin} is not valid YAML: {problem}.") from error


def _written_out(node: yaml.Node, counted: dict[yaml.Node, int]) -> int:
    """The number of values if every alias were written out, which none inside of its own anchor can be."""
    if counted.get(node) == 0:  # it is being counted
        raise yaml.constructor.ConstructorError(None, None, "an alias is inside its own anchor", node.start_mark)
    if node not in counted:
        counted[node] = 0
        values = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = chain.from_iterable(values) if isinstance(node, yaml.MappingNode) else values
        counted[node] = 1 + sum(_written_out(part, counted) for part in parts)
    return counted[node]


class _WrittenLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # in C where PyYAML has it
    """Loader for files of `write_yaml`."""

    def construct_document(self, node: yaml.Node) -> Any:
        """The object of a text, in which aliases of aliases may not stand for more than fits into memory."""
        if _written_out(node, {}) > _MAX_VALUES:
            raise yaml.YAMLError(f"with its aliases it has more than {_MAX_VALUES:,} values")
        return super().construct_document(node)


class _Loader(_WrittenLoader):
    """Loader for files written by people."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    problem = f"the key '{key.value}' occurs twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
        content: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return content


_WrittenLoader.add_constructor("tag:yaml.org,2002:value", yaml.SafeLoader.construct_yaml_str)  # a lone `=`
# dates stay text: no setting is a date, and texts such as 2024-13-45 look like one
_WrittenLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in _WrittenLoader.yaml_implicit_resolvers.items()
}
# YAML 1.1 reads 1e-3 as text, because it has no decimal point. (The first call copies the parent's resolvers.)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)[eE][-+]?\d+$"), list("-+.0123456789")
)
