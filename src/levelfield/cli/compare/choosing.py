"""The study that a command is about: a built-in one, a file, or one made for the user's photos."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelfield.cli.console import console, is_quiet, looking
from levelfield.cli.options import root_override
from levelfield.errors import BadSpecification

if TYPE_CHECKING:
    from levelfield.studies.specification.study import Study


def choose_study(
    study: str | None,
    overrides: list[str],
    data: Path | None,
    skip_unreadable: bool,
    root: Path | None = None,
    *,
    mini: bool = False,
    small: bool = False,
    on: str | None = None,
    trial_share: float = 0.0,
    backbones: str | None = None,
) -> Study:
    """The study to run: a built-in one, a file, or six losses (or several networks) fitted to the user's photos."""
    from levelfield.studies.specification.yaml_file import read_study

    if study is not None:
        # quoted, since a folder's name may look like YAML; settings of the study's own data do not apply to other data
        extra = ["data=" + json.dumps({"name": str(data)}, ensure_ascii=False)] if data is not None else []
        # after the overrides, which may name the data
        about = root_override(root) + (["data.skip_unreadable=true"] if skip_unreadable else [])
        return read_study(study, [*extra, *overrides, *about], mini=mini, small=small, on=on)
    if mini or small or on:
        raise BadSpecification("--mini, --small and --on choose a variant of a study: name a study, too.")
    if data is None:
        raise BadSpecification(
            "Name a study (levelfield compare demo), its file, or photos (levelfield compare --data FOLDER)."
        )
    return photos_study(data, overrides, skip_unreadable, root, trial_share, backbones)


def check_backbones_option(study: str | None, data: Path | None, overrides: list[str], *, searched: bool) -> None:
    """Refuse `--backbones` where it cannot choose the networks."""
    if study is not None:
        raise BadSpecification(
            "--backbones compares networks on photos, without a study. For a study, give its networks as: "
            "vary='{conditions.backbone: [tf_efficientnet_lite0, mobilenetv2]}'."
        )
    if data is None:
        raise BadSpecification(
            "--backbones needs photos: --data FOLDER. On the embedded images: levelfield compare backbones."
        )
    if searched:
        raise BadSpecification("--backbones searches no settings: leave --trials and --time out.")
    named = next((word for word in overrides if word.startswith(("conditions.backbone=", "vary="))), None)
    if named is not None:
        raise BadSpecification(f"--backbones already names the networks: leave '{named}' out.")


def photos_study(
    data: Path,
    overrides: list[str],
    skip_unreadable: bool,
    root: Path | None,
    trial_share: float = 0.0,
    backbones: str | None = None,
) -> Study:
    """The study fitted to the user's photos. Prints what was found and chosen."""
    from levelfield.studies.specification.study import parse_study

    content, changes, _ = fit_photos(data, overrides, skip_unreadable, root, trial_share, backbones)
    if not is_quiet():
        for change in changes:
            console.print(f"- {change}", highlight=False)
    return parse_study(content, overrides, origin="the study made for your photos")


def fit_photos(
    data: Path,
    overrides: list[str],
    skip_unreadable: bool,
    root: Path | None,
    trial_share: float = 0.0,
    backbones: str | None = None,
) -> tuple[dict[str, Any], list[str], int]:
    """The content of a study fitted to the photos, what was found and chosen, and the usual shorter side in pixels."""
    from levelfield.studies.planning.own_backbones import named_backbones, with_backbones
    from levelfield.studies.planning.own_photos import fit_to, photos_content
    from levelfield.studies.specification.study import parse_study

    base = photos_content() if backbones is None else with_backbones(photos_content(), named_backbones(backbones))
    wished = parse_study(base | {"data": str(data)}, overrides, origin="the study made for your photos")
    fixed = {override.partition("=")[0] for override in overrides}
    with looking() as progress:
        return fit_to(
            data,
            root=root,
            skip_unreadable=skip_unreadable,
            wished=wished,
            fixed=fixed,
            trial_share=trial_share,
            content=base,
            progress=progress,
        )
