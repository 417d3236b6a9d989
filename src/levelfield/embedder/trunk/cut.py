"""Resolve cuts and taps to the pieces of a trunk."""

from __future__ import annotations

import re

from levelfield.errors import BadSpecification, unknown


def check_taps(read: list[str], given: tuple[str, ...], possible: tuple[str, ...], backbone: str) -> None:
    """Refuse unknown or repeated taps."""
    if not read:
        raise BadSpecification(f"At least one tap is needed. '{backbone}' has: {', '.join(possible)}.")
    for tap in given:
        if tap not in possible:
            raise unknown(f"tap of '{backbone}'", tap, possible, see=f"levelfield list backbones {backbone}")
    if len(set(read)) < len(read):
        raise BadSpecification(f"The taps {', '.join(given)} name one stage twice.")


def check_image(image: int | None, patch: int, backbone: str) -> None:
    """Refuse images that a vision transformer cannot divide into patches.

    >>> check_image(160, 14, "vit_small_patch14_dinov2")
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: 'vit_small_patch14_dinov2' reads patches of 14 pixels, so images of 160 pixels \
do not fit: use a multiple, such as 154 or 168.
    """
    if image is not None and image % patch:
        below = image // patch * patch
        near = f"{below} or {below + patch}" if below else str(patch)
        raise BadSpecification(
            f"'{backbone}' reads patches of {patch} pixels, so images of {image} pixels do not fit: use a multiple, "
            f"such as {near}."
        )


def first_trained(cut: str, used: list[str], stages: list[str], *, whole: bool, backbone: str) -> int:
    """Number of pieces below the cut.

    >>> first_trained("last-1", ["entrance", "layer1", "layer2"], ["layer1", "layer2"], whole=False, backbone="mine")
    2
    """
    if cut == "frozen":
        return len(used)
    if cut == "tuned":
        return 0
    last = re.fullmatch(r"last-([1-9]\d*)", cut)
    if last is None:
        raise BadSpecification(f"Unknown cut '{cut}'; use frozen, last-N (such as last-2) or tuned.")
    if whole:
        raise BadSpecification(
            f"'{backbone}' is not divided into stages, so it cannot be cut at '{cut}': use the cut frozen or tuned."
        )
    if int(last[1]) > len(stages):
        raise BadSpecification(
            f"The cut '{cut}' needs more stages than '{backbone}' uses ({', '.join(stages)}): use at most "
            f"last-{len(stages)}, or tuned."
        )
    return used.index(stages[-int(last[1])])
