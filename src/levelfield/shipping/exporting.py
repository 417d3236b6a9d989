"""Export the model of a run, measured before it is there: one file in a common format, its description, and
MODEL_CARD.md, which says what the model was made of, how well it works, and what is not known."""

from __future__ import annotations

import importlib.util
import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import levelfield
from levelfield.embedder import Model, load
from levelfield.embedder.best import run_folder
from levelfield.embedder.model_files import MEMBERS, member_folders, read_description
from levelfield.embedder.networks._registry import networks
from levelfield.errors import BadInput, MissingExtra, unknown
from levelfield.files.reading import read_json
from levelfield.files.writing import finite, temporary_folder, write_text
from levelfield.progress import SILENT, Progress
from levelfield.shipping.description import DESCRIPTION, check_view, describe, write_description
from levelfield.shipping.formats import FORMATS, PlainNetwork, common_view
from levelfield.shipping.index.decision import unknowns_text
from levelfield.shipping.measuring import Measured, TestImages, check_batches, compare_with_run
from levelfield.studies.runs.finished import how_refined
from levelfield.studies.runs.folder.files import TRAINED
from levelfield.studies.runs.folder.store import Result, read_result
from levelfield.studies.runs.joined.members import spec_of
from levelfield.studies.runs.spec import ENSEMBLE, RunSpec, described_in
from levelfield.table import Table, numbers
from levelfield.trust import trusting
from levelfield.wording import first_few

CARD = "MODEL_CARD.md"
NOT_KNOWN = "not known"
_OURS = ("model.onnx", "model.pt", "model.safetensors", "model.yaml", MEMBERS, CARD, DESCRIPTION)
_OF_RUNS = ("run.yaml", "ensemble.yaml", "runs.json")


@dataclass(frozen=True)
class Exported:
    """The folder of an export, the bytes of its files, and its figures; None if it was not measured."""

    folder: Path
    files: Mapping[str, int]
    measured: Measured | None


@trusting()
def export(
    run: Path | str,
    out: Path | str,
    *,
    to: str = "onnx",
    int8: bool = False,
    measured: bool = True,
    force: bool = False,
    progress: Progress = SILENT,
) -> Exported:
    """Write the model of a run into the folder `out`: all files, or none if something fails.

    The written model is loaded again from its files and embeds the run's test images. If a number of an embedding, or
    recall@1 or map@r, differs by more than the tolerance (`measuring.TOLERANCES`), the export fails.

    Args:
        run: folder of a run, or of a study, meaning its best run.
        out: folder for the files; created if necessary.
        to: "onnx", "torchscript" or "safetensors" (levelfield's own format, for `levelfield.load`).
        int8: store the weights of an ONNX file in 8 bits.
        measured: False to skip the measurement, for example if the test images are no longer there.
        force: replace an earlier export in `out`.
        progress: gets a stage whose steps are test images.
    """
    if to not in FORMATS:
        raise unknown("format", to, FORMATS)
    if int8 and to != "onnx":
        raise BadInput(f"Weights in 8 bits need the format onnx, not {to}.")
    chosen, home, out = FORMATS[to], run_folder(run), Path(out)
    if missing := [name for name in chosen.needs if importlib.util.find_spec(name) is None]:
        raise MissingExtra(f'Exporting {chosen.file} needs {" and ".join(missing)}: pip install "levelfield[onnx]"')
    _check_run(home)
    _check_out(out, home, force=force)
    images = TestImages.of(home) if measured else None
    model = load(home)
    view = common_view(model)
    check_view(view)
    network, weights = PlainNetwork(model), "int8" if int8 else "float32"
    binary = isinstance(model, Model) and model.embedder.codes == "binary"
    codes, result = "binary" if binary else "float32", None
    facts = describe(chosen.file, weights=weights, codes=codes, dim=model.dim, view=view.description, about=model.about)
    with temporary_folder(out) as folder:
        chosen.write(home, network, view, folder, int8)
        write_description(folder, facts)
        rows_of, written_view = chosen.read(folder)
        check_batches(network, rows_of, view, weights=weights, binary=binary)
        if images is not None:
            result = compare_with_run(
                images, rows_of, written_view, run=home, weights=weights, binary=binary, progress=progress
            )
        write_description(folder, {**facts, "measured": None if result is None else result.as_data()})
        write_text(folder / CARD, card(home, facts, result))
        _move_files(folder, out)
    written = [path for name in _OURS for path in (out / name, *(out / name).rglob("*")) if path.is_file()]
    return Exported(out, {str(path.relative_to(out)): path.stat().st_size for path in sorted(written)}, result)


def _check_run(home: Path) -> None:
    """Refuse a folder without a model, and models that are more than a network from images to rows."""
    _refuse_custom_heads(home, home)
    if not (home / TRAINED).is_file():
        raise BadInput(f"{home} is not a finished run: it has no {TRAINED}. Pass the folder of a finished run.")
    if refined := how_refined(home):
        raise BadInput(
            f"{home} cannot be exported: its method refines embeddings at test time ({refined}), so the row of an "
            "image depends on the other images. Train without 'refine' to export it."
        )


def _refuse_custom_heads(home: Path, run: Path) -> None:
    facts = read_description(home)
    if MEMBERS in facts:
        for member in member_folders(home, facts):
            _refuse_custom_heads(member, run)
    elif "own" in (facts.get("head") or {}):
        raise BadInput(f"{run} cannot be exported: its head is code of your own ({facts['head']['own']}).")


def _check_out(out: Path, home: Path, *, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise BadInput(f"--out {out} is a file; give a folder.")
    if out.exists() and out.samefile(home):
        raise BadInput(f"--out {out} is the folder of the run itself. Give another folder, such as exported.")
    if any((out / name).exists() for name in _OF_RUNS):
        raise BadInput(f"--out {out} is the folder of a run or study. Give another folder, such as exported.")
    there = [str(out / name) for name in _OURS if (out / name).exists()]
    if there and not force:
        raise BadInput(
            f"{first_few(there)} already exists. Choose another folder with --out, or replace it with --force."
        )


def _move_files(folder: Path, out: Path) -> None:
    """Move the files of `folder` to `out`, the description last: without it nothing else is read."""
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(out)
        return
    for name in _OURS:
        if name == MEMBERS and (out / name).is_dir() and not (out / name).is_symlink():
            shutil.rmtree(out / name)
        if (folder / name).exists():
            (folder / name).replace(out / name)
        else:
            (out / name).unlink(missing_ok=True)


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
    return _lines({"method": spec.method.name, "seed": spec.seed, **spec.method.settings, **_choice(run, spec)})


def _choice(run: Path, spec: RunSpec) -> dict[str, Any]:
    """How the recipe for photos chose the method, if its study had one."""
    board = run.parent.parent / "leaderboard.json"
    recipe = read_json(board).get("facts", {}).get("recipe") if board.is_file() else None
    if not recipe:
        return {}
    by = f"{recipe['metric']} of {recipe['judged_by']}"
    preferred = "the choice" if recipe["best"] == spec.method.label else f"{recipe['best']} was preferred"
    return {"chosen among": ", ".join(recipe["scores"]), "in": recipe["time"], "by": by, "outcome": preferred}
