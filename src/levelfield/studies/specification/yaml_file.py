"""A study from a file: as it stands, on other data (`also`), or small on the embedded data (`mini`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from levelfield.errors import BadSpecification, LevelfieldError, MissingData, nearest, unknown
from levelfield.plain_yaml import read_yaml_file
from levelfield.studies.specification.locations import placed
from levelfield.studies.specification.study import Study, assign, owner, parse_study
from levelfield.studies.specification.variations import check_methods


def read_study(path: Path | str, overrides: Sequence[str] = (), *, mini: bool = False, on: str | None = None) -> Study:
    """The study in a YAML file, with overrides such as `conditions.dim=64` applied.

    mini: its small form, for the embedded data and a CPU. on: its form for another dataset, by name. What is wrong with
    a form is told whether it is asked for or not.
    """
    path = Path(path)
    content = content_of(path)
    mini_form, others = (_changes(content.pop(key, {}), key, path) for key in ("mini", "also"))
    content.setdefault("name", path.stem)
    others = {name: _changes(found, f"also.{name}", path) for name, found in others.items()}
    asked = content
    if on is not None and on != _data_name(content):
        if on not in others:
            there = ", ".join([_data_name(content), *others])
            raise BadSpecification(f"{path} has no form for '{on}': it is for {there}.")
        asked = _elsewhere(content, on, others[on], path)
    if mini:
        if not mini_form:
            raise BadSpecification(f"{path} has no small form: it needs a key `mini` with what is to be changed.")
        asked = _small(asked, mini_form, path)
    study = parse_study(asked, overrides, origin=str(path))
    with suppress(MissingData):  # told where it is opened, if it is
        study = study.model_copy(update={"data": placed(study.data, path)})
    for name, changes in others.items():
        _elsewhere(content, name, changes, path)
    if mini_form:
        _small(content, mini_form, path)
    return study


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


def _elsewhere(content: dict[str, Any], data: str, changes: dict[str, Any], path: Path) -> dict[str, Any]:
    """The plain data of the form for other data."""
    base = {**content, "data": data, "name": f"{content['name']}-{data}"}
    content, study = _form(base, changes, f"`also.{data}` of {path}", f"the form `also.{data}` of {path}")
    if study.data.name != data:
        raise BadSpecification(
            f"`also.{data}` of {path} is the form for '{data}' and names other data, '{study.data.name}': write that "
            f"as `also.{study.data.name}`."
        )
    return content


def _small(content: dict[str, Any], changes: dict[str, Any], path: Path) -> dict[str, Any]:
    """The plain data of the small form, which measures what its claims are about."""
    base = {**content, "name": f"{content['name']}-mini"}
    content, small = _form(base, changes, f"`mini` of {path}", f"the small form (`mini`) of {path}")
    metrics = dict.fromkeys([*small.metrics, *(one.metric for one in small.claims if one.metric)])
    return {**content, "metrics": list(metrics)}


def _form(content: dict[str, Any], changes: dict[str, Any], section: str, origin: str) -> tuple[dict[str, Any], Study]:
    """Plain data with what a section changes, and the study that it is."""
    try:
        content = changed(content, changes)
    except LevelfieldError as error:
        raise type(error)(f"{section}: {error}") from error
    study = parse_study(content, origin=origin)
    own = [one for one in study.methods if any(key.startswith(f"methods.{one.label}.") for key in changes)]
    try:
        if own:
            check_methods(study.model_copy(update={"methods": tuple(own), "vary": {}}))
    except LevelfieldError as error:
        raise type(error)(f"{section}: {error}") from error
    return content, study


def changed(content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """With other values, those of dotted keys last. A method whose value is null goes, and the claims about it; the
    null of a method's setting is its value.

    >>> study = {"data": "emoji", "methods": ["margin", "lda"], "claims": ["margin > lda"], "seeds": 3}
    >>> changed(study, {"methods.lda": None, "seeds": 1})
    {'data': 'emoji', 'methods': ['margin'], 'claims': [], 'seeds': 1}
    >>> changed({"data": "emoji", "methods": ["margin"]}, {"methods.margin.miner": None})["methods"][0]["settings"]
    {'miner': None}
    """
    content = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    for key, value in sorted(changes.items(), key=lambda item: "." in item[0]):
        label = key.removeprefix("methods.")
        if value is not None or label == key:
            assign(content, key, value)
        else:
            content = _without(content, label)
    return content


def _changes(found: Any, key: str, path: Path) -> dict[str, Any]:
    """What stands under `mini` or `also`: keys and values, or nothing."""
    if not isinstance(found or {}, dict):
        raise BadSpecification(f"`{key}` of {path} needs keys and values, as in `{key}: {{...}}`; it is {found!r}.")
    return {str(name): value for name, value in (found or {}).items()}


def _without(content: dict[str, Any], key: str) -> dict[str, Any]:
    """Without the method of that label; if the key is `LABEL.SETTING`, with a setting that is null."""
    study = parse_study(content)
    labels = [method.label for method in study.methods]
    if key not in labels and owner(f"methods.{key}", labels) is not None:
        assign(content, f"methods.{key}", None)
        return content
    if key not in labels:
        raise unknown("method to leave out", key, labels)
    kept = [method for method, own in zip(content["methods"], labels, strict=True) if own != key]
    about = zip(content.get("claims", []), study.claims, strict=True)
    claims = [claim for claim, read in about if key not in (read.parts[0], read.parts[2])]
    return {**content, "methods": kept, "claims": claims}


def _data_name(content: dict[str, Any]) -> str:
    data = content.get("data")
    return str(data.get("name") if isinstance(data, dict) else data)


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
