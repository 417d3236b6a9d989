"""The study that a command is about: a built-in one, a file, or one made for the user's photos."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelfield import studies
from levelfield.cli.console import checking_images, console, is_quiet
from levelfield.cli.option_groups import Environment, Parallel, Source
from levelfield.cli.options import root_override
from levelfield.errors import BadSpecification

if TYPE_CHECKING:
    from levelfield.tuning.recipe import Recipe

DEFAULT_SHARE = 0.25  # of the training classes, which judge trials
_FOR_PHOTOS = "the study made for your photos"


def choose_study(
    study: str | None, overrides: list[str], source: Source, *, trial_share: float = 0.0, backbones: str | None = None
) -> studies.Study:
    """The study to run: a built-in one, a file, or six losses (or several networks) fitted to the user's photos."""
    from levelfield.studies.specification.methods import check_names

    if study is None:
        if source.mini or source.small or source.on:
            raise BadSpecification("--mini, --small and --on choose a variant of a study: name a study, too.")
        content, changes, _ = _fit_photos(overrides, source, trial_share, backbones)
        _print_changes(changes)
        chosen = studies.parse_study(content, overrides, origin=_FOR_PHOTOS)
    else:
        # quoted, since a folder's name may look like YAML; settings of the study's own data do not apply to other data
        data = [] if source.data is None else ["data=" + json.dumps({"name": str(source.data)}, ensure_ascii=False)]
        # after the overrides, which may name the data
        after = root_override(source.root) + (["data.skip_unreadable=true"] if source.skip_unreadable else [])
        words = [*data, *overrides, *after]
        chosen = studies.read_study(study, words, mini=source.mini, small=source.small, on=source.on)
    check_names(chosen)
    return chosen


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


def _fit_photos(
    overrides: list[str],
    source: Source,
    trial_share: float,
    backbones: str | None = None,
    *,
    base: dict[str, Any] | None = None,
    kept: Set[str] = frozenset(),
    most: int | None = None,
) -> tuple[dict[str, Any], list[str], int]:
    """The content of a study fitted to the photos, what was chosen and why, and the usual shorter side in pixels.

    base: the study before fitting, by default six losses or networks. kept: its keys that are not fitted. most:
    images that can be used.
    """
    if source.data is None:
        raise BadSpecification(
            "Name a study (levelfield compare demo), its file, or photos (levelfield compare --data FOLDER)."
        )
    from levelfield.studies.planning.own_photos import fit_to, named_backbones, photos_content, with_backbones

    if base is None:
        base = photos_content() if backbones is None else with_backbones(photos_content(), named_backbones(backbones))
    wished = studies.parse_study(base | {"data": str(source.data)}, overrides, origin=_FOR_PHOTOS)
    with checking_images() as progress:
        return fit_to(
            source.data,
            root=source.root,
            skip_unreadable=source.skip_unreadable,
            wished=wished,
            fixed=_keys(overrides) | kept,
            trial_share=trial_share,
            content=base,
            most=most,
            progress=progress,
        )


def _print_changes(changes: Sequence[str]) -> None:
    for change in () if is_quiet() else changes:
        console.print(f"- {change}")


def _keys(overrides: list[str]) -> set[str]:
    return {override.partition("=")[0] for override in overrides}


def photos_recipe(
    time_limit: str | None,
    overrides: list[str],
    source: Source,
    parallel: Parallel,
    environment: Environment,
    *,
    spent: float,
) -> Recipe | None:
    """The recipe for the user's photos; None if no method trains. time_limit: by default what suits the photos.

    spent: seconds since the command began.
    """
    from levelfield.methods import trains
    from levelfield.studies.planning.own_photos import LARGEST_SHARE, photos_content
    from levelfield.studies.specification.methods import check_names
    from levelfield.studies.specification.yaml_file import merged
    from levelfield.tuning.budget import Budget
    from levelfield.tuning.recipe import TRAINING, Recipe
    from levelfield.tuning.recipe_plan import most_images

    limit = None if time_limit is None else Budget.parse(time_limit).seconds
    if time_limit is not None and limit is None:
        raise BadSpecification(f"--time {time_limit}: a time is needed, e.g. 30m or 2h.")
    base, fixed = merged(photos_content(), {"conditions": TRAINING}), _keys(overrides)
    if "conditions" in fixed:
        raise BadSpecification("Training in stages fits the conditions: set single ones, e.g. conditions.image=96.")
    options = environment.options()
    cores = parallel.all(options.device)
    kept = fixed | {"conditions.select", "conditions.image", "conditions.taps", "conditions.pooling"}
    most = most_images(limit, cores)
    content, changes, side = _fit_photos(overrides, source, LARGEST_SHARE, base=base, kept=kept, most=most)
    study = studies.parse_study(content, overrides, origin=_FOR_PHOTOS)
    check_names(study)
    if limit is None and not any(trains(method.name) for method in study.methods):
        return None
    _print_changes(changes)
    cores = max(1, cores // study.conditions.processes)
    return Recipe(study, environment.out / f"{study.name}-recipe", limit, side, fixed, cores, options, spent=spent)
