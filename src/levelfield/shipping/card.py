"""MODEL_CARD.md: what an exported model was made of, how well it works, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import levelfield
from levelfield.files.writing import finite
from levelfield.shipping.index.decision import unknowns_text
from levelfield.shipping.measuring import Measured
from levelfield.studies.runs.folder.store import Result, read_result
from levelfield.studies.runs.joined.members import spec_of
from levelfield.studies.runs.spec import ENSEMBLE, RunSpec, described_in
from levelfield.table import Table, numbers

CARD = "MODEL_CARD.md"
NOT_KNOWN = "not known"


def card(run: Path, facts: Mapping[str, Any], measured: Measured | None) -> str:
    """The text of the card. facts: content of model.json."""
    spec, result = spec_of(run, trained=False), read_result(run)
    deviations = [] if result is None else result.deviation_texts
    weights = spec.conditions.own_weights or "pretrained"
    settings = {key: value for key, value in spec.data.settings.items() if key not in ("path", "root")}
    data = {"data": spec.data.name, **settings, "protocol": spec.protocol.name, "fold": spec.fold}
    parts = [
        f"# {facts['about'].get('method', spec.method.label)}, trained on {spec.data.name}\n",
        f"An image embedding of {facts['dim']} numbers, made by levelfield {levelfield.__version__}. Two images are "
        "compared by the cosine of their rows.\n",
        _section("Files", _files(facts)),
        _section("Preprocessing", _lines(facts["preprocessing"])),
        _section("Figures", _figures(measured, facts, result)),
        _section("Threshold", _threshold(measured)),
        _section("Data", _lines(data)),
        _section("Method", _method(run, spec)),
        _section("Conditions", _lines(spec.conditions.model_dump(mode="json") | {"weights": weights})),
        _section("Deviations from the conditions", [f"- {text}" for text in deviations] or ["None."]),
        _section("Licence of the backbone's weights", [licence(spec)]),
    ]
    return "\n".join(parts)


def licence(spec: RunSpec) -> str:
    """The licence of the weights that training began with, as far as their source declares it."""
    weights, name = spec.conditions.own_weights, spec.conditions.backbone
    if weights == "random":
        return "none: the network began with random weights."
    if weights is not None:
        return f"{NOT_KNOWN}: the weights came from the file {weights}."
    from levelfield.embedder.networks._registry import networks

    if ":" in name or name in networks:
        return f"{NOT_KNOWN}: the source of the weights of {name} does not declare one."
    import timm

    declared = getattr(timm.get_pretrained_cfg(name), "license", None)
    return f"{declared} (declared by timm for {name})." if declared else f"{NOT_KNOWN}: timm declares none for {name}."


def _section(title: str, lines: list[str]) -> str:
    return f"## {title}\n\n" + "\n".join(lines) + "\n"


def _lines(facts: Mapping[str, Any]) -> list[str]:
    return [f"- {key}: {_on_one_line(value)}" for key, value in facts.items()]


def _on_one_line(value: Any) -> str:
    return " ".join(str("none" if value is None else value).split())


def _files(facts: Mapping[str, Any]) -> list[str]:
    shape = ", ".join(map(str, facts["input"]["shape"]))
    return [
        f"- `{facts['file']}`: the network, weights in {facts['weights']}. Input `{facts['input']['name']}`, float32 "
        f"({shape}); output `{facts['output']['name']}`, float32 (batch, {facts['dim']}), not normalised"
        + (", each number 1 or -1." if facts["codes"] == "binary" else "."),
        "- `model.json`: how images are prepared, as plain data, and a checksum of both files.",
    ]


def _figures(measured: Measured | None, facts: Mapping[str, Any], result: Result | None) -> list[str]:
    if measured is None:
        stored = {} if result is None else result.values
        return [
            "The exported model was not measured (--no-measure). Figures of the run that it was made from:\n",
            *(_lines({name: f"{value:.4f}" for name, value in stored.items()}) or ["none"]),
        ]
    rows = []
    for name, (before, now) in measured.figures.items():
        interval = measured.original.intervals[name]
        ends = f"{interval.low:.4f} to {interval.high:.4f}" if math.isfinite(interval.low) else "needs 5 test classes"
        rows.append([name, f"{before:.4f}", ends, f"{now:.4f}"])
    counted = f"{measured.original.n_queries:,} test images of {len(measured.original.classes):,} classes"
    return [
        Table(["figure", *numbers("run", "95 % interval over test classes", "exported")], rows).markdown(),
        "",
        f"Measured on {counted}, which training never saw, from the files above. {measured.difference_text}",
    ]


def _threshold(measured: Measured | None) -> list[str]:
    if measured is None:
        return ["Not chosen: the exported model was not measured (--no-measure)."]
    threshold = measured.threshold
    if threshold is None:
        return [
            f"Not chosen. {measured.no_threshold} On the training classes, on which it looks better than it is: "
            "`levelfield threshold RUN --choose-on training`"
        ]
    low, high = threshold.interval
    ends = f" (95 % interval {low:.3f} to {high:.3f})" if math.isfinite(low) else ""
    lines = [
        f"Two images count as the same class from a cosine of {threshold.value:.3f}{ends}: equal rates of both errors "
        "on the validation classes."
    ]
    matched = measured.unknowns
    return lines if matched is None else [*lines, "", unknowns_text(finite(asdict(matched)))]


def _method(run: Path, spec: RunSpec) -> list[str]:
    """The method and its settings; for a run that joins others, those."""
    if (run / ENSEMBLE).is_file():
        members = described_in(run, [ENSEMBLE])["members"]
        return [f"- member: {_on_one_line(each['label'])}, seed {each.get('seed', NOT_KNOWN)}" for each in members]
    return _lines({"method": spec.method.name, "seed": spec.seed, **spec.method.settings})
