"""Error messages for invalid specifications."""

from __future__ import annotations

from typing import get_args

from pydantic import BaseModel, ValidationError

from levelfield.errors import nearest


def explain(error: ValidationError, model: type[BaseModel], origin: str) -> str:
    """Pydantic's errors as one readable message."""
    lines = []
    findings = error.errors()
    for finding in findings:
        location = finding["loc"]
        if finding["type"] == "too_short" and any(f["loc"][: len(location)] == location != f["loc"] for f in findings):
            continue  # too short only because of wrong entries, which are reported themselves
        where = ".".join(str(part) for part in location)
        if finding["type"] == "extra_forbidden":
            known = _keys_at(model, location[:-1])
            close = nearest(str(location[-1]), known)
            lines.append(
                f"unknown key '{where}'."
                + (f" Did you mean '{close}'?" if close else f" Valid keys: {', '.join(known)}.")
            )
        elif finding["type"] == "missing":
            lines.append(f"the key '{where}' is missing.")
        else:
            text = finding["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            came = "" if isinstance(finding["input"], dict) else f" (got {finding['input']!r})"
            message = f"{where}: {text}{came}" if where else text
            lines.append(message if message.endswith((".", "?")) else f"{message}.")
    return f"In {origin}: " + " ".join([*lines[:1], *map(_sentence, lines[1:])])


def _sentence(line: str) -> str:
    """A line with a capital letter, unless it begins with a key.

    >>> _sentence("unknown key 'x'."), _sentence("conditions.steps: too few.")
    ("Unknown key 'x'.", 'conditions.steps: too few.')
    """
    return line if line.split()[0].endswith(":") else line[0].upper() + line[1:]


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    for part in location:
        kind = model.model_fields[str(part)].annotation if str(part) in model.model_fields else None
        for one in (kind, *get_args(kind)):  # the type, or the entries of a list of it
            if isinstance(one, type) and issubclass(one, BaseModel):
                model = one
    return sorted(model.model_fields)
