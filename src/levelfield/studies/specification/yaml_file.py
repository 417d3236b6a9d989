"""Read a study from a file or the library: as written, on other data (`also`), or on the embedded data with a frozen
network (`mini`) or one that trains (`small`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from levelfield import library
from levelfield.errors import BadSpecification, LevelfieldError, MissingData, nearest, unknown
from levelfield.files.plain_yaml import read_yaml, read_yaml_file
from levelfield.files.writing import expanded
from levelfield.registry import references_in
from levelfield.studies.specification.locations import placed
from levelfield.studies.specification.study import Study, assign, parse_study
from levelfield.trust import trusted


def read_study(
    study: Path | str, overrides: Sequence[str] = (), *, mini: bool = False, small: bool = False, on: str | None = None
) -> Study:
    """Read a study by file or by library name, and apply overrides such as `conditions.dim=64`.

    mini: the smallest variant, for the embedded data and a CPU. small: the next larger one, whose changes come after
    those of `mini`. on: the variant for another dataset, by name.
    """
    if mini and small:
        raise BadSpecification("--mini and --small are two variants of a study: choose one.")
    file = located(study)
    content, name = content_of(file), library.name_of(file)
    path = origin = name or str(file)  # the name that the user knows
    mini_changes, small_changes, others = (
        _changes(content.pop(key, {}), key, path) for key in ("mini", "small", "also")
    )
    content.setdefault("name", name.replace("/", "-") if name else file.stem)
    data = content.get("data")
    data = data.get("name") if isinstance(data, dict) else data
    if on is not None and on != data:
        if on not in others:
            raise BadSpecification(f"{path} has no variant for '{on}'; it has {', '.join([str(data), *others])}.")
        origin = f"the variant `also.{on}` of {path}"
        content |= {"data": on, "name": f"{content['name']}-{on}"}
        content = changed(content, _changes(others[on], f"also.{on}", path), origin)
    variant = "mini" if mini else "small" if small else ""
    if variant:
        changes = mini_changes if mini else small_changes and mini_changes | small_changes
        if not changes:
            raise BadSpecification(f"{path} has no variant --{variant}: add a key `{variant}` with the changes.")
        origin = f"the variant `{variant}` of {path}"
        content = changed({**content, "name": f"{content['name']}-{variant}"}, changes, origin)
    parsed = parse_study(content, overrides, origin=origin)
    if variant:  # with the metrics of its claims
        metrics = dict.fromkeys([*parsed.metrics, *(claim.metric for claim in parsed.claims if claim.metric)])
        parsed = parsed.model_copy(update={"metrics": tuple(metrics)})
    _check_weights(parsed)
    if name is None:
        with suppress(MissingData):  # reported when the data is opened
            parsed = parsed.model_copy(update={"data": placed(parsed.data, file)})
    return parsed


def named_by(study: Study | Path | str | dict[str, Any] | None, overrides: Sequence[str] = ()) -> list[str]:
    """Every `file.py:Name` that the user names with a study (file, plain data or object) and overrides.

    The rule of trust: a study file that the user names may name code. A study that a command finds in a folder never
    comes here, whatever files the folder has; nor does, below `trusting`, a `Study`: it was judged when its file was
    read. A file beside runs.json describes a finished study, of somebody else perhaps, and needs --trust, too.

    >>> named_by({"data": "emoji", "methods": ["margin", "my_losses.py:MyLoss"]})
    ['my_losses.py:MyLoss']
    """
    content: Any = study
    if isinstance(study, Study):
        content = study.model_dump(mode="json") if trusted() is None else {}
    elif isinstance(study, Path | str):
        file = located(study)
        content = {} if (file.parent / "runs.json").exists() else content_of(file)
    values = [read_yaml(each.partition("=")[2], origin=f"'{each}'") for each in overrides]
    return list(dict.fromkeys([*references_in(content), *references_in(values)]))


def _check_weights(study: Study) -> None:
    """Refuse weights of a network that the study does not have: its own would silently be others."""
    weights = study.conditions.weights
    backbones = {study.conditions.backbone, *(method.conditions.get("backbone", "") for method in study.methods)} - {""}
    backbones.update(*(values for key, values in study.vary.items() if key.endswith("conditions.backbone")))
    for name in weights if isinstance(weights, dict) else ():
        if name not in backbones:
            raise unknown("backbone in conditions.weights", name, backbones)


def located(study: Path | str) -> Path:
    """The file of a study, given by path or by library name.

    Text that ends in .yaml or begins with `./`, `../`, `~` or `/` is a path; `demo` and `roth2020/table4` are names,
    whatever the working directory contains.

    >>> located("my.yaml"), located("roth2020/table4").relative_to(library.FOLDER).as_posix()
    (PosixPath('my.yaml'), 'roth2020/table4.yaml')
    """
    if isinstance(study, Path) or _is_path(study):
        return expanded(study)
    if study not in library.names() and (file := expanded(study)).exists():
        return file
    return library.path(study)


def _is_path(text: str) -> bool:
    return text.endswith((".yaml", ".yml")) or text.startswith((".", "~")) or Path(text).is_absolute()


def content_of(study: Path | str) -> dict[str, Any]:
    """The plain data of a study, merged over the file that it extends: a file, relative to it, or a library name."""
    path = located(study)
    content = _mapping(path)
    if "extends" not in content:
        return content
    named = str(content.pop("extends"))
    base_path = path.parent / named
    try:
        base = _mapping(base_path if base_path.is_file() or _is_path(named) else library.path(named))
    except LevelfieldError as error:
        raise BadSpecification(f"{path} extends {named}: {error}") from error
    if "extends" in base:
        raise BadSpecification(f"{path} extends {named}, which itself extends another file: one level is allowed.")
    return merged(base, content)


def _mapping(path: Path) -> dict[str, Any]:
    """The keys and values of a study file."""
    if path.is_dir():
        raise BadSpecification(f"{path} is a folder, not a study file. For photos: levelfield compare --data {path}")
    if not path.is_file():
        hint = f" Built-in studies go by name: use '{path.stem}'. See `{library.SEE}`."
        if path.stem not in library.names():
            close = nearest(path.name, [file.name for file in path.parent.glob("*.y*ml")])
            hint = f" Did you mean {path.parent / close}?" if close else ""
        raise BadSpecification(f"Study file not found: {path}.{hint}")
    content = read_yaml_file(path)
    if not isinstance(content, dict):
        raise BadSpecification(f"{path} is not a study: it needs at least the keys `data` and `methods`.")
    return content


def changed(content: dict[str, Any], changes: dict[str, Any], origin: str = "the study") -> dict[str, Any]:
    """Apply changes, dotted keys last. A method set to null is removed, with the claims about it; a method's setting
    may be null. origin: the variant, for errors.

    >>> study = {"data": "emoji", "methods": ["margin", "lda"], "claims": ["margin > lda"], "seeds": 3}
    >>> changed(study, {"methods.lda": None, "seeds": 1})
    {'data': 'emoji', 'methods': ['margin'], 'claims': [], 'seeds': 1}
    >>> changed({"data": "emoji", "methods": ["margin"]}, {"methods.margin.miner": None})["methods"][0]["settings"]
    {'miner': None}
    """
    content = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    try:
        for key, value in sorted(changes.items(), key=lambda item: "." in item[0]):
            if value is None and key.startswith("methods."):
                content = _without(content, key)
            else:
                assign(content, key, value)
    except LevelfieldError as error:
        raise type(error)(f"In {origin}: {error}") from error
    return content


def _changes(changes: Any, key: str, path: str) -> dict[str, Any]:
    """The content of `mini`, `small` or `also`: keys and values, or nothing."""
    if not isinstance(changes or {}, dict):
        raise BadSpecification(f"`{key}` of {path} must have keys and values, `{key}: {{...}}`; got {changes!r}.")
    return {str(name): value for name, value in (changes or {}).items()}


def _without(content: dict[str, Any], key: str) -> dict[str, Any]:
    """Remove the method `methods.LABEL`, with the claims about it; set `methods.LABEL.SETTING` to null."""
    study = parse_study(content)
    labels = [f"methods.{method.label}" for method in study.methods]
    if key not in labels:
        assign(content, key, None)
        return content
    kept = [method for method, label in zip(content["methods"], labels, strict=True) if label != key]
    about = zip(content.get("claims", []), study.claims, strict=True)
    claims = [claim for claim, read in about if key.removeprefix("methods.") not in (read.parts[0], read.parts[2])]
    return {**content, "methods": kept, "claims": claims}


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merge `over` into `base`, key by key; values that are not mappings are replaced.

    >>> merged({"conditions": {"dim": 64, "steps": 5}, "seeds": 3}, {"conditions": {"dim": 128}})
    {'conditions': {'dim': 128, 'steps': 5}, 'seeds': 3}
    """
    both = dict(base)
    for key, value in over.items():
        below = both.get(key)
        both[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return both
