"""`extends: base.yaml`: a study that says only what differs from another file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from levelfield.errors import BadSpecification, nearest
from levelfield.plain_yaml import read_yaml_file


def extended(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """The content of the study at `path` with what it extends below it.

    The file is named relative to the study and may not extend another: what holds stands in two places at most.
    """
    if "extends" not in content:
        return content
    named = content["extends"]
    base_path = path.parent / str(named)
    if not isinstance(named, str) or not base_path.is_file():
        there = base_path.parent.glob("*.y*ml") if base_path.parent.is_dir() else ()
        close = nearest(base_path.name, [one.name for one in there])
        hint = f" Did you mean {Path(str(named)).parent / close}?" if close else ""
        raise BadSpecification(f"{path} extends {named}, and there is no such file beside it.{hint}")
    base = read_yaml_file(base_path)
    if not isinstance(base, dict):
        raise BadSpecification(f"{base_path} holds no part of a study: keys and values are needed.")
    if "extends" in base:
        raise BadSpecification(f"{base_path} is extended by {path} and extends another itself: one level is enough.")
    return merged(base, {key: value for key, value in content.items() if key != "extends"})


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` upon `base`, key by key; what is no mapping is replaced as a whole.

    >>> merged({"conditions": {"dim": 64, "steps": 5}, "seeds": 3}, {"conditions": {"dim": 128}})
    {'conditions': {'dim': 128, 'steps': 5}, 'seeds': 3}
    """
    both = dict(base)
    for key, value in over.items():
        below = both.get(key)
        both[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return both
