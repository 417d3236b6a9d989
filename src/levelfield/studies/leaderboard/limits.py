"""One sentence, above the table, if a study established no difference: what it would take."""

from __future__ import annotations

from collections.abc import Sequence

from levelfield.evaluation.statistics import MIN_CLASSES, Comparison, Needed

_FEW = 20  # with fewer test classes only large differences can be established


def limit_sentence(comparisons: Sequence[Comparison]) -> str:
    """If no difference was established: how many classes (or seeds) would detect the largest one.

    >>> few = Comparison("a", "b", 0.1, None, None, None, None, None, None, 4, (3, 3), True, "classes", None,
    ...                  Needed(14, 6, None))
    >>> limit_sentence([few])
    '4 test classes: no difference can be established; 14 classes would be needed to detect a difference of 0.100.'
    """
    if not comparisons or any(one.better() for one in comparisons):
        return ""
    widest = max(comparisons, key=lambda one: abs(one.difference))
    sentence = f"{widest.classes} test class{'es' * (widest.classes != 1)}"
    if widest.retrained and widest.classes >= MIN_CLASSES:
        sentence += f" and {max(widest.seeds)} seed{'s' * (max(widest.seeds) != 1)}"
    sentence += f": no difference {'can be' if widest.classes < _FEW else 'was'} established"
    numbers = needed_text(widest, brief=True)
    if numbers:
        return f"{sentence}; {numbers} would be needed to detect a difference of {abs(widest.difference):.3f}."
    least = f"; at least {MIN_CLASSES} are needed." if widest.classes < MIN_CLASSES else "."
    return sentence + least


def needed_text(one: Comparison, *, brief: bool = False) -> str:
    """How many seeds or classes would resolve a tie, with 80 % power; empty if unknown.

    >>> tie = Comparison("a", "b", 0.01, -0.01, 0.03, 1.0, 9.0, 0.3, 0.3, 50, (3, 3), True, "seeds", Needed(9, 4, None))
    >>> needed_text(tie)
    '9 seeds (95 %: 4 or more)'
    """
    parts: list[tuple[Needed | None, str]] = []
    if one.missing in ("seeds", "both"):
        parts.append((one.needed_seeds, "seeds"))
    if one.missing in ("classes", "both"):
        parts.append((one.needed_classes, "classes"))
    return " and ".join(
        f"{number.number:,} {word}" if brief else number.text(word) for number, word in parts if number is not None
    )
