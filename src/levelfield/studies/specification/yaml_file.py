"""Read a study from a file or the library: as written, on other data (`also`), or on the embedded data with a frozen
network (`mini`) or one that trains (`small`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from levelfield import library
from levelfield.errors import BadSpecification, LevelfieldError, MissingData, UnknownName, nearest, unknown
from levelfield.files.plain_yaml import read_yaml_file
from levelfield.files.writing import expanded
from levelfield.studies.specification.locations import placed
from levelfield.studies.specification.study import Study, assign, owner, parse_study
from levelfield.studies.specification.variations import build_method


def read_study(
    study: Path | str,
    overrides: Sequence[str] = (),
    *,
    mini: bool = False,
    small: bool = False,
    on: str | None = None,
) -> Study:
    """Read a study by file or by library name, and apply overrides such as `conditions.dim=64`.

    mini: the smallest variant, for the embedded data and a CPU. small: the next larger one, whose changes come after
    those of `mini`. on: the variant for another dataset, by name. All variants are checked, whichever is used.
    """
    if mini and small:
        raise BadSpecification("--mini and --small are two variants of a study: choose one.")
    file = located(study)
    content, own = content_of(file), library.name_of(file)
    path = own or str(file)  # the name that the user knows
    mini_form, small_form, others = (_changes(content.pop(key, {}), key, path) for key in ("mini", "small", "also"))
    forms = {"mini": mini_form, "small": {**mini_form, **small_form} if small_form else {}}
    content.setdefault("name", own.replace("/", "-") if own else file.stem)
    others = {name: _changes(changes, f"also.{name}", path) for name, changes in others.items()}
    asked = content
    if on is not None and on != _data_name(content):
        if on not in others:
            there = ", ".join([_data_name(content), *others])
            raise BadSpecification(f"{path} has no variant for '{on}'; it has {there}.")
        asked = _elsewhere(content, on, others[on], path)
    for key in (key for key, wanted in (("mini", mini), ("small", small)) if wanted):
        if not forms[key]:
            raise BadSpecification(f"{path} has no variant --{key}: add a key `{key}` with the changes.")
        asked = _reduced(asked, forms[key], key, path)
    chosen = parse_study(asked, overrides, origin=path)
    _check_weights(chosen)
    if own is None:
        with suppress(MissingData):  # reported when the data is opened
            chosen = chosen.model_copy(update={"data": placed(chosen.data, file)})
    for name, changes in others.items():
        _elsewhere(content, name, changes, path)
    for key, changes in forms.items():
        if changes:
            _reduced(content, changes, key, path)
    return chosen


def _check_weights(study: Study) -> None:
    """Refuse weights of a network that the study does not have: its own would silently be others."""
    weights = study.conditions.weights
    varied = [name for key, values in study.vary.items() if key.endswith("conditions.backbone") for name in values]
    own = [method.conditions["backbone"] for method in study.methods if "backbone" in method.conditions]
    for name in weights if isinstance(weights, dict) else ():
        if name not in (study.conditions.backbone, *varied, *own):
            there = list(dict.fromkeys([*varied, study.conditions.backbone, *own]))
            raise unknown("backbone in conditions.weights", name, there)


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
    """The plain data of a study, merged with the file that it extends."""
    path = located(study)
    if path.is_dir():
        raise BadSpecification(f"{path} is a folder, not a study file. For photos: levelfield compare --data {path}")
    if not path.is_file():
        raise BadSpecification(f"Study file not found: {path}.{_instead(path)}")
    content = read_yaml_file(path)
    if not isinstance(content, dict):
        raise BadSpecification(f"{path} is not a study: it needs at least the keys `data` and `methods`.")
    return extended(content, path)


def _instead(path: Path) -> str:
    """A suggestion for a missing file: a study of the library of its name, or a file in the same folder."""
    if path.stem in library.names():
        return f" Built-in studies go by name: use '{path.stem}'. See `{library.SEE}`."
    there = [file.name for file in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
    close = nearest(path.name, there)
    return f" Did you mean {path.parent / close}?" if close else ""


def _elsewhere(content: dict[str, Any], data: str, changes: dict[str, Any], path: str) -> dict[str, Any]:
    """The plain data of the variant for other data."""
    base = {**content, "data": data, "name": f"{content['name']}-{data}"}
    content, study = _form(base, changes, f"`also.{data}` of {path}", f"the variant `also.{data}` of {path}")
    if study.data.name != data:
        raise BadSpecification(
            f"`also.{data}` of {path} is the variant for '{data}', but its data is '{study.data.name}': call it "
            f"`also.{study.data.name}`."
        )
    return content


def _reduced(content: dict[str, Any], changes: dict[str, Any], key: str, path: str) -> dict[str, Any]:
    """The plain data of the variant `mini` or `small`, with the metrics of its claims."""
    base = {**content, "name": f"{content['name']}-{key}"}
    content, study = _form(base, changes, f"`{key}` of {path}", f"the variant `{key}` of {path}")
    metrics = dict.fromkeys([*study.metrics, *(one.metric for one in study.claims if one.metric)])
    return {**content, "metrics": list(metrics)}


def _form(content: dict[str, Any], changes: dict[str, Any], section: str, origin: str) -> tuple[dict[str, Any], Study]:
    """The plain data after the changes of a section, and the resulting study."""
    try:
        content = changed(content, changes)
    except LevelfieldError as error:
        raise type(error)(f"{section}: {error}") from error
    study = parse_study(content, origin=origin)
    try:
        for method in study.methods:
            if any(key.startswith(f"methods.{method.label}.") for key in changes):
                build_method(method, method.under(study.conditions))
    except LevelfieldError as error:
        raise type(error)(f"{section}: {error}") from error
    return content, study


def changed(content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Apply changes, dotted keys last. A method set to null is removed, with the claims about it; a method's setting
    may be null.

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


def _changes(changes: Any, key: str, path: str) -> dict[str, Any]:
    """The content of `mini`, `small` or `also`: keys and values, or nothing."""
    if not isinstance(changes or {}, dict):
        raise BadSpecification(f"`{key}` of {path} must have keys and values, `{key}: {{...}}`; got {changes!r}.")
    return {str(name): value for name, value in (changes or {}).items()}


def _without(content: dict[str, Any], key: str) -> dict[str, Any]:
    """Remove the method with label `key`; if the key is `LABEL.SETTING`, set the setting to null."""
    study = parse_study(content)
    labels = [method.label for method in study.methods]
    if key not in labels and owner(f"methods.{key}", labels) is not None:
        assign(content, f"methods.{key}", None)
        return content
    if key not in labels:
        raise unknown("method to remove", key, labels)
    kept = [method for method, own in zip(content["methods"], labels, strict=True) if own != key]
    about = zip(content.get("claims", []), study.claims, strict=True)
    claims = [claim for claim, read in about if key not in (read.parts[0], read.parts[2])]
    return {**content, "methods": kept, "claims": claims}


def _data_name(content: dict[str, Any]) -> str:
    data = content.get("data")
    return str(data.get("name") if isinstance(data, dict) else data)


def extended(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """The content of the study at `path`, merged over the file that it extends.

    `extends` is a file, relative to the study, or a library name. The extended file may not extend another.
    """
    if "extends" not in content:
        return content
    named = str(content["extends"])
    base_path = path.parent / named
    if not _is_path(named) and not base_path.is_file():
        try:
            base_path = library.path(named)
        except UnknownName as error:
            raise BadSpecification(f"{path} extends {named}, but there is no such file beside it. {error}") from error
    if not base_path.is_file():
        raise BadSpecification(f"{path} extends {named}, but there is no such file.{_instead(base_path)}")
    base = read_yaml_file(base_path)
    if not isinstance(base, dict):
        raise BadSpecification(f"{base_path} is not part of a study: it must have keys and values.")
    if "extends" in base:
        raise BadSpecification(
            f"{path} extends {base_path}, which itself extends another file: only one level is allowed."
        )
    return merged(base, {key: value for key, value in content.items() if key != "extends"})


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
