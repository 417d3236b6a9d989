"""A study from a file: as it stands, on other data (`also`), or small on the embedded data (`mini`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from levelfield.errors import BadSpecification, nearest, unknown
from levelfield.studies.extending import extended
from levelfield.studies.plain_yaml import read_yaml_file
from levelfield.studies.specification import Study, assign, parse_study


def read_study(
    path: Path | str, overrides: Sequence[str] = (), *, mini: bool = False, on: str | None = None
) -> Study:
    """The study in a YAML file, with overrides such as `conditions.dim=64` applied.

    mini: its small form, for the embedded data and a CPU. on: its form for another dataset, by name.
    """
    path = Path(path)
    content = content_of(path)
    mini_form, others = (_changes(content.pop(key, {}), key, path) for key in ("mini", "also"))
    content.setdefault("name", path.stem)
    if on is not None and on != _data_name(content):
        if on not in others:
            raise unknown(f"form of {path}: it is for other data,", on, [_data_name(content), *others])
        changes = _changes(others[on], f"also.{on}", path)
        content = changed({**content, "data": on, "name": f"{content['name']}-{on}"}, changes)
    if mini:
        if not mini_form:
            raise BadSpecification(f"{path} has no small form: it needs a key `mini` with what is to be changed.")
        content = changed({**content, "name": f"{content['name']}-mini"}, mini_form)
        small = parse_study(content, origin=f"the small form of {path}")
        content["metrics"] = list(dict.fromkeys([*small.metrics, *(one.metric for one in small.claims if one.metric)]))
    return parse_study(content, overrides, origin=str(path))


def content_of(path: Path) -> dict[str, Any]:
    """The plain data of a study file, with what it extends."""
    if path.is_dir():
        raise BadSpecification(f"{path} is a folder, not a study file. For photos: levelfield compare --data {path}")
    if not path.is_file():
        close = nearest(path.name, [p.name for p in path.parent.glob("*.y*ml")]) if path.parent.is_dir() else None
        raise BadSpecification(
            f"There is no study file {path}." + (f" Did you mean {path.parent / close}?" if close else "")
        )
    content = read_yaml_file(path)
    if not isinstance(content, dict):
        raise BadSpecification(f"{path} holds no study: it needs at least the keys `data` and `methods`.")
    return extended(content, path)


def changed(content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """With other values, those of dotted keys last. A method whose value is null goes, and the claims about it.

    >>> study = {"data": "emoji", "methods": ["margin", "lda"], "claims": ["margin > lda"], "seeds": 3}
    >>> changed(study, {"methods.lda": None, "seeds": 1})
    {'data': 'emoji', 'methods': ['margin'], 'claims': [], 'seeds': 1}
    """
    content = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    for key, value in sorted(changes.items(), key=lambda item: "." in item[0]):
        if key.startswith("methods.") and value is None:
            content = _without(content, key.removeprefix("methods."))
        else:
            assign(content, key, value)
    return content


def _changes(found: Any, key: str, path: Path) -> dict[str, Any]:
    """What stands under `mini` or `also`: keys and values, or nothing."""
    if not isinstance(found or {}, dict):
        raise BadSpecification(f"`{key}` of {path} needs keys and values, as in `{key}: {{...}}`; it is {found!r}.")
    return found or {}


def _without(content: dict[str, Any], label: str) -> dict[str, Any]:
    study = parse_study(content)
    labels = [method.label for method in study.methods]
    if label not in labels:
        raise unknown("method to leave out", label, labels)
    kept = [method for method, own in zip(content["methods"], labels, strict=True) if own != label]
    about = zip(content.get("claims", []), study.claims, strict=True)
    claims = [claim for claim, read in about if label not in (read.parts[0], read.parts[2])]
    return {**content, "methods": kept, "claims": claims}


def _data_name(content: dict[str, Any]) -> str:
    data = content.get("data")
    return str(data.get("name") if isinstance(data, dict) else data)
