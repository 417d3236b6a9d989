"""Write the fidelity tables of the papers into papers.md: `make tables`.

What the text and the released code of a paper say is data: tools/fidelity.yaml. What levelfield does is read from the
studies, so that it is never out of date. `levelfield.papers.presets` lists where text and code of objectives differ.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from levelfield import methods
from levelfield.embedder.trunk.weights import public_file
from levelfield.evaluation import evaluate
from levelfield.reports.facts import as_written
from levelfield.reports.published_comparison import resolved_settings
from levelfield.studies import Study, read_study
from levelfield.studies.specification.choices import MethodSpec
from levelfield.training import Conditions
from levelfield.training.optimisers import build

PAGE = Path(__file__).parents[1] / "docs" / "papers.md"
FACTS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("fidelity.yaml").read_text(encoding="utf-8"))
# The conditions of each row of a table. "?": only where the value is not the default.
ROWS = {
    "network": "backbone cut taps? start_share?",
    "weights": "weights?",
    "pooling": "pooling normalize_taps",
    "head and its start": "head? dim head_init dropout? codes? proxies?",
    "norm": "layer_norm output_norm?",
    "BatchNorm": "batch_norm",
    "training view": "train_view augment? views?",
    "test view": "test_view crop?",
    "batch": "batch batching batches_per_epoch?",
    "optimiser and its groups": "optimiser eps? momentum? rmsprop_alpha? rmsprop_alpha_decay?",
    "rates": "lr trunk_lr rates?",
    "weight decay": "weight_decay decay?",
    "schedule": "schedule step_at? step_every? step_factor plateau_patience? warmup? trunk_warmup?",
    "clipping": "clip clip_value?",
    "length": "steps patience?",
    "selection": "select monitor validate_every validate_start? min_delta?",
}
# Conditions that do not change what is trained: the side follows from the views, the others concern the machine.
OTHERS = {"image", "test_image", "channels_last", "cache", "accumulate", "tuning_trials", "precision", "threads"}
OTHERS |= {"processes", "deterministic", "compile"}


class Trained(NamedTuple):
    """A method of a study, its conditions, and its own parameter groups as the optimiser gets them."""

    label: str
    name: str
    values: dict[str, Any]
    groups: list[dict[str, Any]]


def parts() -> dict[str, str]:
    """The generated parts of the page, by the names of their places."""
    tables = {f"fidelity of {paper}": table(paper) for paper in FACTS["papers"]}
    return {**tables, "text and code": differences()}


def table(paper: str) -> str:
    facts = FACTS["papers"][paper]
    studies = {name: trained(name, labels) for name, labels in facts["studies"].items()}
    rows = []
    for row, keys in ROWS.items():
        told = facts["rows"][row]
        rows.append((row, told["text"], told["code"], ours(row, keys.split(), studies), verified(told["verified"])))
    header = (f"`{next(iter(studies))}`", f"text ({facts['text']})", f"code ({facts['code']})", "here", "verified by")
    return _table(header, rows)


def trained(name: str, labels: Sequence[str]) -> tuple[Study, list[Trained]]:
    """A study, such as `lim2022/table11 on sop`, and its rows with these labels, or all with a preset of its paper."""
    file, _, data = name.partition(" on ")
    study, paper = read_study(file, on=data or None), name.partition("/")[0]
    return study, [
        _trained(study, spec)
        for spec in study.methods
        if (spec.label in labels if labels else str(spec.settings.get("preset", "")).startswith(paper))
    ]


def _trained(study: Study, spec: MethodSpec) -> Trained:
    conditions = spec.under(study.conditions)
    method = methods.create(spec.name, num_classes=4, dim=conditions.dim, **spec.settings)
    layout, drawn = conditions.batches(method)
    values: dict[str, Any] = {key: getattr(conditions, key) for key in Conditions.model_fields}
    values |= {"batch": str(layout), "batching": str(drawn), "lr": method.lr or conditions.lr}
    values["normalize"] = resolved_settings(spec.name, spec.settings).get("normalize")
    groups = [
        {**group, "optimiser": type(optimiser).__name__.lower()}
        for optimiser in build(method.groups(), conditions, lr=method.lr)
        for group in optimiser.param_groups
    ]
    return Trained(spec.label, spec.label if spec.name == "drml" else spec.name, values, groups)


def ours(row: str, keys: Sequence[str], studies: dict[str, tuple[Study, list[Trained]]]) -> str:
    """What the first study does, and what the others do differently."""
    (_, first), *others = [(name, _cell(row, keys, *found)) for name, found in studies.items()]
    told = ["; ".join(first)]
    for name, cell in others:
        told += [f"`{name}`: {'; '.join(new)}"] if (new := [text for text in cell if text not in first]) else []
    return ". ".join(told)


def _cell(row: str, keys: Sequence[str], study: Study, rows: list[Trained]) -> list[str]:
    texts = [text for key in keys for text in _condition(key, study, rows)]
    texts += [_weights(name) for name in _varied("backbone", study)] if row == "weights" else []
    if row == "norm":
        plain = [one.name for one in rows if one.values["normalize"] is False]
        texts.append("unit length in the loss" + (f", not of {_list(plain)}" if plain else ""))
        texts.append(f"test by {inspect.signature(evaluate).parameters['distance'].default}")
    elif row == "length":
        epochs, rest = divmod(study.conditions.steps, study.conditions.validate_every)
        texts += [] if rest else [f"{epochs} x `validate_every`"]
        texts.append(f"{len(study.seeds)} seed{'s' * (len(study.seeds) > 1)}")
    elif row == "selection":
        texts.append(f"protocol `{study.protocol.name}`")
    value = {"optimiser and its groups": "optimiser", "rates": "lr", "weight decay": "weight_decay"}.get(row)
    return texts + (_own_groups(rows, value) if value else [])


def _condition(key: str, study: Study, rows: list[Trained]) -> list[str]:
    """The value of a condition, and after it other values with the labels of their rows."""
    name, optional = key.rstrip("?"), key.endswith("?")
    if name not in Conditions.model_fields or (name == "step_factor" and study.conditions.schedule == "constant"):
        return []
    if len(varied := _varied(name, study)) > 1:
        return [" and ".join(_shown(name, value) for value in varied)]
    labels: dict[str, list[str]] = {}
    for one in rows:
        if not (optional and one.values[name] == Conditions.model_fields[name].default):
            labels.setdefault(_shown(name, one.values[name]), []).append(one.label)
    order = sorted(labels, key=lambda text: -len(labels[text]))
    return [
        text + ("" if _common(labels[text], rows, text == order[0]) else f" ({_list(labels[text])})") for text in order
    ]


def _common(labels: list[str], rows: list[Trained], first: bool) -> bool:
    """Whether a value needs no labels: that of all rows, or of more than half of them."""
    return first and 2 * len(labels) > len(rows)


def _varied(key: str, study: Study) -> list[Any]:
    return list(study.vary.get(f"conditions.{key}", [getattr(study.conditions, key)]))


def _own_groups(rows: list[Trained], value: str) -> list[str]:
    """A value of the objectives' own parameter groups, with the objectives that have it: `proxies: 0.01 (arcface)`."""
    users: dict[tuple[str, str], dict[str, None]] = {}
    for one in rows:
        for group in one.groups:
            shown = group[value] if value == "optimiser" else f"{group[value]:.6g}"
            users.setdefault((group["name"].replace("_", " "), shown), {})[one.name] = None
    names: dict[tuple[str, str], list[str]] = {}
    for (name, shown), found in users.items():
        names.setdefault((shown, _list(found)), []).append(name)
    several = len({one.name for one in rows}) > 1
    return [f"{_list(same)}: {shown}" + (f" ({who})" if several else "") for (shown, who), same in names.items()]


def _weights(backbone: str) -> str:
    """The pretrained weights that a backbone's name means."""
    return f"`{public_file(backbone)}`"


def verified(told: str) -> str:
    """`trajectory CASE`, `preset OBJECTIVE NAME` and `reading`, separated by semicolons."""
    texts = []
    for kind, *names in (one.split() for one in told.split(";")):
        if kind == "preset":
            texts.append(f"preset `{names[1]}` of `{names[0]}`")
        else:
            texts.append(" ".join([kind, *(f"`{name}`" for name in names)]))
    return ", ".join(texts)


def differences() -> str:
    """Where text and code differ: settings of objectives have presets for both, conditions an override."""
    rows = [
        (
            one["paper"],
            f"{one['what']} ({one['methods']})",
            one["text"],
            one["code"],
            "code",
            f"preset `{one['preset']}`",
        )
        for one in FACTS["preset_differences"]
    ]
    for one in FACTS["differences"]:
        rows.append((one["paper"], one["what"], one["text"], one["code"], *followed(one)))
    return _table(("paper", "what", "text", "code", "the study follows", "the other one"), sorted(rows))


def followed(one: dict[str, str]) -> tuple[str, str]:
    """Whether a study follows text or code, and the override with which it follows the other one."""
    if "study" not in one:
        return one["follows"], one["other"]
    common = read_study(one["study"]).conditions
    for kind, other in (("text", "code"), ("code", "text")):
        if read_study(one["study"], [one[f"as_{kind}"]]).conditions == common:
            return kind, f"`{one[f'as_{other}']}`"
    return "neither", f"`{one['as_text']}`"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def _shown(key: str, value: Any) -> str:
    return f"`{key}: {f'{value:.10g}' if isinstance(value, float) else as_written(value)}`"


def _list(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, text in parts().items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        page = place.sub(lambda found, text=text: found[1] + text + found[2], page)
    PAGE.write_text(page, "utf-8")
    print(f"wrote {PAGE.relative_to(PAGE.parents[1])}")


if __name__ == "__main__":
    main()
