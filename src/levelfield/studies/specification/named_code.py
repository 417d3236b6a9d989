"""Code files that the user names: in a study file, in overrides, or in a study given as data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from levelfield.files.plain_yaml import read_yaml
from levelfield.registry import references_in
from levelfield.studies.specification.study import Study
from levelfield.studies.specification.yaml_file import content_of, located
from levelfield.trust import trusted


def named_by(study: Study | Path | str | dict[str, Any] | None, overrides: Sequence[str] = ()) -> list[str]:
    """Every `file.py:Name` that the user names with a study (file, plain data or object) and overrides.

    Two studies name nothing. A study file in the folder of a compared study may come from somebody else. A `Study`
    object below `trusting` (as in all commands) was read from a file, whose names were judged when it was read.

    >>> named_by({"data": "emoji", "methods": ["margin", "my_losses.py:MyLoss"]})
    ['my_losses.py:MyLoss']
    """
    if isinstance(study, Study):
        content: Any = study.model_dump(mode="json") if trusted() is None else {}
    elif isinstance(study, Path | str):
        file = located(study)
        content = {} if is_of_a_folder(file) else content_of(file)
    else:
        content = study
    values = [read_yaml(each.partition("=")[2], origin=f"'{each}'") for each in overrides]
    return list(dict.fromkeys([*references_in(content), *references_in(values)]))


def is_of_a_folder(study: Path) -> bool:
    """Whether a study file is in the folder of a compared study, such as the one that levelfield writes."""
    return (study.parent / "runs.json").exists()
