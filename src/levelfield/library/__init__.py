"""The studies that ship with levelfield, by name: `levelfield compare demo`, `levelfield compare roth2020/table4`.

Each is a YAML file in this folder; its name is its path without the suffix. A `base.yaml` contains settings that
several studies extend and is not a study itself.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from levelfield.errors import unknown
from levelfield.files.plain_yaml import read_yaml_file
from levelfield.wording import natural

__all__ = ["FOLDER", "StudyFacts", "content", "copy", "describe", "name_of", "names", "path"]

FOLDER = Path(__file__).parent  # where the study files are
SEE = "levelfield list studies"
_BASE = "base"
_EMBEDDED, _EMBEDDED_NETWORK = "emoji", "tf_efficientnet_lite0"
_EXTRAS = {"tf_efficientnet_lite1": "lite1", "tf_efficientnet_lite2": "lite2", "mobilenetv2": "mobilenetv2"}
_EXTENDS = re.compile(r"^extends: *(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class StudyFacts:
    """Facts of a study, known before it is run."""

    what: str
    needs: str
    file: str
    data: tuple[str, ...] = ()  # the datasets that it can use


def names() -> list[str]:
    """All studies: first those on the embedded images, then the papers' tables in order.

    >>> names()[:3], "roth2020/table4" in names(), "roth2020/base" in names()
    (['backbones', 'batching', 'bird-curves'], True, False)
    """
    return [name for name in _files() if name.rpartition("/")[2] != _BASE]


def path(name: str) -> Path:
    """The file of a study, or of a base that studies extend (`roth2020/base`)."""
    if name in _files():
        return _files()[name]
    raise unknown("study", name, names(), see=SEE)


def content(name: str) -> dict[str, Any]:
    """The plain data of a study's file, without the studies that it extends."""
    return dict(read_yaml_file(path(name)))


def copy(name: str) -> str:
    """The text of a study's file for use outside the library: `extends` gets the library name instead of a path."""

    def named(match: re.Match[str]) -> str:
        return f"extends: {name_of(path(name).parent / match[1])}"

    return _EXTENDS.sub(named, path(name).read_text(encoding="utf-8"))


def describe(name: str) -> StudyFacts:
    """Topic and requirements of a study.

    >>> describe("demo").needs, describe("lim2022/table5").needs
    ('levelfield[demo]', 'cub or cars, weights of resnet50.tv_in1k (--mini: levelfield[demo])')
    >>> describe("birds").needs, describe("characters").needs
    ('cub, levelfield[demo]', 'omniglot')
    >>> describe("backbones").needs
    'levelfield[demo], levelfield[mobilenetv2], levelfield[lite1], levelfield[lite2]'
    """
    study = content(name)
    base: dict[str, Any] = {}
    if "extends" in study:  # a study, or a file beside this one
        named = study["extends"]
        base = content(named) if named in _files() else read_yaml_file(path(name).parent / named)
    conditions = {**base.get("conditions", {}), **study.get("conditions", {})}
    varied = study.get("vary", {}).get("conditions.backbone", [])
    data, needs = [study["data"], *study.get("also", {})], ["levelfield[demo]"]
    if data != [_EMBEDDED]:
        *others, last = data
        needs = [f"{', '.join(others)} or {last}" if others else last]
        if conditions.get("weights") != "random":
            backbones = varied or [conditions["backbone"]]
            needs += ["levelfield[demo]"] if _EMBEDDED_NETWORK in backbones else []
            weights = [network for network in backbones if network not in (_EMBEDDED_NETWORK, *_EXTRAS)]
            needs += [f"weights of {' and '.join(weights)}"] if weights else []
        needs[-1] += " (--mini: levelfield[demo])" if "mini" in study or "mini" in base else ""
    needs += [f"levelfield[{_EXTRAS[network]}]" for network in varied if network in _EXTRAS]
    return StudyFacts(study["about"], ", ".join(needs), str(path(name)), tuple(data))


def name_of(file: Path) -> str | None:
    """The name of a file in the library; None for any other file.

    >>> name_of(path("roth2020/table4")), name_of(Path("my.yaml"))
    ('roth2020/table4', None)
    """
    target = Path(os.path.realpath(file))  # works for link loops too
    return next((name for name, file in _files().items() if file == target), None)


@cache
def _files() -> dict[str, Path]:
    files = {file.relative_to(FOLDER).with_suffix("").as_posix(): file.resolve() for file in FOLDER.rglob("*.yaml")}
    # studies without a paper first; table10 after table9
    return {name: files[name] for name in sorted(files, key=lambda name: ("/" in name, natural(name)))}
