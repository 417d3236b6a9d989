"""A study from a file: as it stands, on other data (`also`), or small on the embedded data (`mini`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from levelfield.errors import BadSpecification, nearest, unknown
from levelfield.studies.claims import Claim
from levelfield.studies.extending import extended
from levelfield.studies.plain_yaml import read_yaml
from levelfield.studies.specification import Study, assign, parse_study


def read_study(
    path: Path | str, overrides: Sequence[str] = (), *, mini: bool = False, on: str | None = None
) -> Study:
    """The study in a YAML file, with overrides such as `conditions.dim=64` applied.

    mini: its small form, for the embedded data and a CPU. on: its form for another dataset, by name.
    """
    path = Path(path)
    content = content_of(path)
    forms = {"mini": content.pop("mini", None), "also": content.pop("also", None) or {}}
    content.setdefault("name", path.stem)
    if on is not None and on != _data_name(content):
        if on not in forms["also"]:
            raise unknown(f"form of {path}: it is for other data,", on, [_data_name(content), *forms["also"]])
        content = changed({**content, "data": on, "name": f"{content['name']}-{on}"}, forms["also"][on] or {})
    if mini:
        if forms["mini"] is None:
            raise BadSpecification(f"{path} has no small form: it needs a key `mini` with what is to be changed.")
        content = changed({**content, "name": f"{content['name']}-mini"}, forms["mini"])
        claimed = [Claim.model_validate(claim).metric for claim in content.get("claims", [])]
        content["metrics"] = list(dict.fromkeys([*content.get("metrics", []), *filter(None, claimed)]))
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
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadSpecification(f"{path} is not readable YAML: {error}") from error
    content = read_yaml(text, origin=str(path))
    if not isinstance(content, dict):
        raise BadSpecification(f"{path} holds no study: it needs at least the keys `data` and `methods`.")
    return extended(content, path)


def changed(content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """With other values, those of dotted keys last. A method whose value is null goes, and the claims about it.

    >>> study = {"methods": ["margin", "lda"], "claims": ["margin > lda"], "seeds": 3}
    >>> changed(study, {"methods.lda": None, "seeds": 1})
    {'methods': ['margin'], 'claims': [], 'seeds': 1}
    """
    content = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    for key, value in sorted(changes.items(), key=lambda item: "." in item[0]):
        if key.startswith("methods.") and value is None:
            content = _without(content, key.removeprefix("methods."))
        else:
            assign(content, key, value)
    return content


def _without(content: dict[str, Any], label: str) -> dict[str, Any]:
    labels = [method.label for method in parse_study({**content, "claims": []}).methods]
    if label not in labels:
        raise unknown("method to leave out", label, labels)
    kept = [method for method, own in zip(content["methods"], labels, strict=True) if own != label]
    about = [(claim, Claim.model_validate(claim).parts) for claim in content.get("claims", [])]
    claims = [claim for claim, (first, _, second) in about if label not in (first, second)]
    return {**content, "methods": kept, "claims": claims}


def _data_name(content: dict[str, Any]) -> str:
    data = content.get("data")
    return str(data.get("name") if isinstance(data, dict) else data)
