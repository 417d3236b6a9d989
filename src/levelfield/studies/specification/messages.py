"""Error messages for invalid specifications."""

from __future__ import annotations

from typing import get_args

from pydantic import BaseModel, ValidationError

from levelfield.errors import suggestion


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
            lines.append(f"unknown key '{where}'.{suggestion(location[-1], known, otherwise='Valid keys')}")
        elif finding["type"] == "missing":
            lines.append(f"the key '{where}' is missing.")
        else:
            text = finding["msg"].removeprefix("Value error, ")
            came = "" if isinstance(finding["input"], dict) else f" (got {finding['input']!r})"
            message = f"{where}: {text}{came}" if where else text
            lines.append(message if message.endswith((".", "?")) else f"{message}.")
    return f"In {origin}: " + "\n".join(lines)


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    for part in location:
        kind = model.model_fields[str(part)].annotation if str(part) in model.model_fields else None
        for candidate in (kind, *get_args(kind)):  # the type, or the entries of a list of it
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                model = candidate
    return sorted(model.model_fields)
