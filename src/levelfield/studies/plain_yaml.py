"""YAML as people write it: 1e-3 is a number, and a key that stands twice is an error."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from levelfield.errors import BadSpecification

_QUICK: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C where PyYAML has it


def read_yaml_file(path: Path) -> Any:
    """The content of a YAML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadSpecification(f"{path} is not readable YAML: {error}") from error
    return read_yaml(text, origin=str(path))


def read_yaml(text: str, *, origin: str) -> Any:
    """The content of `text`. `origin` names it in errors.

    >>> read_yaml("{lr: 1e-3, steps: 5, about: 1e}", origin="example")
    {'lr': 0.001, 'steps': 5, 'about': '1e'}
    >>> read_yaml("{dim: 64, dim: 128}", origin="example")
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: example has the key 'dim' twice (line 1).
    """
    try:
        return yaml.load(text, _Loader)
    except _Twice as error:
        raise BadSpecification(f"{origin} has the key '{error.key}' twice (line {error.line}).") from error
    except yaml.YAMLError as error:
        raise BadSpecification(f"{origin} is not readable YAML: {error}") from error


def read_written(path: Path) -> Any:
    """The content of a file that `yaml.safe_dump` wrote: there an identity such as 843e62081982 is text.

    >>> import tempfile
    >>> written = Path(tempfile.mkdtemp()) / "run.yaml"
    >>> _ = written.write_text(yaml.safe_dump({"identity": "843e62081982"}))
    >>> read_written(written)
    {'identity': '843e62081982'}
    """
    return yaml.load(path.read_text(encoding="utf-8"), _QUICK)


class _Twice(Exception):
    def __init__(self, key: object, line: int) -> None:
        super().__init__(key)
        self.key, self.line = key, line


class _Loader(_QUICK):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [child.value for child, _ in node.value if isinstance(child, yaml.ScalarNode) and child.value != "<<"]
        for child, _ in node.value:
            if isinstance(child, yaml.ScalarNode) and keys.count(child.value) > 1:
                raise _Twice(child.value, child.start_mark.line + 1)
        content: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return content


# YAML 1.1 takes 1e-3 for text, because it has no point
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)[eE][-+]?\d+$"), list("-+.0123456789")
)
