"""Write the tables of the documentation pages from the code: `make docs`.

A page holds `<!-- table: NAME -->` and `<!-- end -->`; the text between them is replaced.
"""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import torch
import typer
import yaml
from rich.text import Text

from levelfield import batching, data, evaluation, methods, miners, objectives
from levelfield.cli.app import app
from levelfield.data import corruptions, protocols
from levelfield.objectives._parts.start import StartRows
from levelfield.papers import published
from levelfield.reports import figures
from levelfield.reports.facts import as_range, as_written, grouped
from levelfield.testing import LAWS
from levelfield.training import Conditions
from levelfield.training.ledger import own_starts

DOCS = Path(__file__).parents[1] / "docs"
_PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """The up-to-date text of every page with a table."""
    found = {}
    for path in [DOCS.parent / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        if _PLACE.search(text):
            found[path] = _PLACE.sub(lambda place: f"{place[1]}{TABLES[place[2]]()}\n{place[3]}", text)
    return found


def conditions() -> str:
    rows = []
    for key, field in Conditions.model_fields.items():
        values = _kind(field.annotation, field.metadata)
        rows.append((f"`{key}`", _shown(field.default), values, field.description or ""))
    return _table(("key", "default", "values", "meaning"), rows)


def starts() -> str:
    """Own parameters of every objective, how they start with `proxies: class_means`, and their default rates."""
    generator = torch.Generator().manual_seed(0)
    start = StartRows(torch.randn(12, 8, generator=generator), torch.arange(4).repeat(3))
    rows = []
    for name in objectives.names():
        method = methods.create(name, num_classes=4, dim=8)
        before = {key: parameter.detach().clone() for key, parameter in method.named_parameters()}
        method.start_from(start)
        random, facts = own_starts(before, method), objectives.describe(name)
        for group in method.groups():
            part = group.name.removesuffix("_biases_and_gains")
            rate = "" if group.multiplier == 1 else f" of {facts.published_lr:g}"
            how = "random, a deviation in the ledger" if part in random else "a setting or constant"
            if group.parameters[0] is method.proxies:
                how = "class means"
            elif any(not torch.equal(before[key], own) for key, own in _named(method, group)):
                told = inspect.getdoc(type(method.objective).start_from) or ""
                how = told[:1].lower() + told[1:].split(".")[0]
            rows.append((f"`{name}`", f"`{part}`", how, f"x{group.multiplier:g}{rate}"))
    return _table(("objective", "parameters", "start", "published rate"), dict.fromkeys(rows))


def benchmark(name: str) -> str:
    """What `benchmarks/NAME.py` measured last."""
    path = DOCS.parent / "benchmarks" / "results" / f"{name}.json"
    rows = []
    for one in json.loads(path.read_text(encoding="utf-8"))["figures"]:
        shown = "{:.0f}" if one["unit"] == "losses" else "{:.2f} x"
        target = "" if one["target"] is None else ("at most " if one["at_most"] else "at least ") + f"{one['target']:g}"
        reached = "" if one["target"] is None else "yes" if one["reached"] else "**no**"
        rows.append((one["what"], one["peer"], shown.format(one["value"]), target, reached))
    return _table(("what", "against", "measured", "target", "reached"), rows)


def closed_forms() -> str:
    """Gains of closed forms over their definitions, as `benchmarks/objectives.py --lane definition` measured last."""
    path = DOCS.parent / "benchmarks" / "results" / "objectives.json"
    gains: dict[str, dict[str, list[float]]] = {}
    for figure in json.loads(path.read_text(encoding="utf-8"))["figures"]:
        if figure["peer"] == "definition":
            size = figure["what"].partition("batch ")[2]
            gains.setdefault(figure["part"], {}).setdefault(size, []).append(figure["value"])
    sizes = list(dict.fromkeys(size for by_size in gains.values() for size in by_size))
    rows = []
    for part, by_size in gains.items():
        measured = (", ".join(f"{gain:.3f}" for gain in by_size[size]) for size in sizes)
        rows.append((part, *measured, "yes" if min(map(min, by_size.values())) >= 1.2 else ""))
    return _table(("objective", *(f"batch {size}" for size in sizes), "closed form"), rows)


def beyond_memory() -> str:
    """What `benchmarks/big_evaluation.py` measured last."""
    path = DOCS.parent / "benchmarks" / "results" / "big_evaluation.json"
    rows = []
    for name, one in json.loads(path.read_text(encoding="utf-8")).items():
        own = one["jobs"] == 0  # with more processes, time and memory of the first alone say little
        rows.append(
            (
                name,
                f"{one['seconds']:,.0f} s",
                f"{one['cpu']:,.0f} s" if own or one["jobs"] < 0 else "",
                f"{one['growth'] / 10**6:,.0f} MB" if own else "",
                f"{one['limit'] / 10**6:,.0f} MB" if own else "",
            )
        )
    return _table(("queries", "time", "of one core", "more memory", "limit"), rows)


def _named(method: methods.Method, group: methods.Group) -> list[tuple[str, Any]]:
    own = {id(parameter) for parameter in group.parameters}
    return [(key, parameter) for key, parameter in method.named_parameters() if id(parameter) in own]


def which() -> str:
    """Objectives that fit a situation, from their facts."""
    facts = {name: objectives.describe(name) for name in objectives.names()}
    alone = [name for name, fact in facts.items() if fact.batch == "any"]
    pairs = [name for name, fact in facts.items() if fact.batch != "any"]
    known = [name for name, fact in facts.items() if "num_classes" in fact.needs]
    free = [name for name, fact in facts.items() if "num_classes" not in fact.needs]
    whole = [name for name, fact in facts.items() if not fact.miners]
    mined = [name for name, fact in facts.items() if fact.miners]
    parts = [name for name, fact in facts.items() if fact.separable]
    rows = [
        ("many classes have one image, or batches are drawn at random", alone),
        ("a batch can hold two or more images of a class", pairs + alone),
        ("labels are not 0, 1, 2, ... or new classes appear while training", free),
        ("the classes are fixed; one learned vector per class is acceptable", known),
        ("you do not want to choose a miner", whole),
        ("you want to choose which pairs or triplets count", mined),
        ("the batch does not fit in memory: `accumulate` in one pass (all others: two)", parts),
    ]
    return _table(("your situation", "objectives that fit"), [(text, _names(fitting)) for text, fitting in rows])


def objective_facts() -> str:
    rows = []
    for name in objectives.names():
        fact = objectives.describe(name)
        rows.append((f"[`{name}`](objectives.md#{name})", fact.use, fact.paper, fact.batch, _names(fact.needs)))
    return _table(("objective", "when", "paper", "batch", "needs"), rows)


def compatibility() -> str:
    """Which miners fit which objective."""
    rows = []
    for name in objectives.names():
        fitting = objectives.describe(name).miners
        words = {miner: "default" if number == 0 else "yes" for number, miner in enumerate(fitting)}
        if fitting:
            rows.append((f"[`{name}`](#{name})", *(words.get(miner, "") for miner in miners.names())))
    return _table(("objective", *(f"`{miner}`" for miner in miners.names())), rows)


def batches_that_fit() -> str:
    """Result of `batching.fits` for every batching with its defaults: batches of 40, 60 classes of 12 images."""
    labels = np.repeat(np.arange(60), 12)
    made = {f"`{name}`": batching.create(name, labels, batch_size=40) for name in batching.names()}
    made["`spc`, 1 per class"] = batching.create("spc", labels, batch_size=40, samples_per_class=1)
    rows = []
    for name in objectives.names():
        verdicts = [batching.fits(one, objectives.describe(name)).verdict for one in made.values()]
        rows.append((f"[`{name}`](#{name})", *("" if verdict == "no" else verdict for verdict in verdicts)))
    return _table(("objective", *made), rows)


def gallery() -> str:
    """One section per objective, with all its facts."""
    sections = []
    for name in objectives.names():
        fact = objectives.describe(name)
        known = [
            ("Source", f"{fact.paper}; {fact.equation}" if fact.equation else fact.paper),
            ("Batch", fact.batch),
            ("Miners", _names(fact.miners) or "none; the objective uses the whole batch by its own rule"),
            ("Needs", _names(fact.needs)),
            ("Cross-batch memory", "yes" if fact.memory else "no"),
            ("Per-anchor weights", "yes" if fact.weights else "no"),
            ("Passes over a batch in pieces (`accumulate`)", "one" if fact.separable else "two"),
            *((f"Law that cannot hold ({law.replace('_', ' ')})", reason) for law, reason in fact.tags.items()),
        ]
        lines = [f"- {key}: {text}" for key, text in known if text]
        sections += [f"### {name}", fact.use, f"```text\n{fact.formula}\n```"]
        sections += [f"![What {name} does to a sample](pictures/{name}.png)", "\n".join(lines), _settings(fact)]
        if fact.presets:
            rows = [(names, f"`{text}`") for names, text in grouped(fact.presets).items()]
            sections.append(_table(("preset", "sets"), rows))
    return "\n\n".join(section for section in sections if section) + "\n"


def _settings(fact: objectives.ObjectiveFacts) -> str:
    rows = []
    for key, default in fact.defaults.items():
        if default is not inspect.Parameter.empty and key not in ("generator", "num_classes", "dim"):
            searched, source = as_range(fact.search.get(key)), fact.sources.get(key, "")
            rows.append((f"`{key}`", _shown(default), searched, source))
    return _table(("setting", "default", "search range", "source of the default"), rows)


def miner_facts() -> str:
    rows = []
    for name in miners.names():
        fact = miners.describe(name)
        settings = ", ".join(f"`{key}` {_shown(value)}" for key, value in fact.defaults.items())
        users = [o for o in objectives.names() if name in objectives.describe(o).miners]
        drawn = "yes" if fact.random else "no"
        rows.append((f"`{name}`", f"`{fact.rule}`", fact.returns, drawn, settings, _names(users)))
    return _table(("miner", "selects", "returns", "random", "settings", "used by"), rows)


def method_facts() -> str:
    rows = []
    for name in methods.names():
        if name not in objectives.names():
            what = methods.describe(name) or ""
            rows.append((f"`{name}`", what.partition("\n")[0]))
    return _table(("method", "description"), rows)


def batching_facts() -> str:
    rows = []
    for name in batching.names():
        about = batching.describe(name)
        own = ", ".join(f"`{key}` {_shown(default)}" for key, default in about.settings.items())
        rows.append((f"`{name}`", about.what, own))
    return _table(("batching", "what a batch contains", "settings"), rows)


def published_batches() -> str:
    rows = []
    for entry in published.batches():
        data = "" if entry["dataset"] == "all" else f" on {entry['dataset']}"
        epoch = f", `batches_per_epoch: {entry['batches_per_epoch']}`" if entry["batches_per_epoch"] else ""
        written = yaml.safe_dump(entry["batching"], default_flow_style=True, sort_keys=False).split("\n")[0]
        how = f"`batch: {entry['batch']}`, `batching: {written}`{epoch}"
        rows.append((entry["paper"], f"{entry['methods']}{data}", how, entry["source"]))
    return _table(("paper", "methods", "in a study", "source"), rows)


def dataset_facts() -> str:
    rows = []
    for name in data.names():
        fact = data.describe(name)
        size = f"{fact.images:,} images of {fact.classes:,} classes" if fact.images and fact.classes else ""
        rows.append((f"`{name}`", fact.what, size, f"`{fact.needs}`" if fact.needs else ""))
    return _table(("data", "what it is", "size", "needs"), rows)


def benchmark_facts() -> str:
    rows = []
    for name in data.official.names():
        fact = data.describe(name)
        parts = "; ".join(f"{part} {images:,} / {classes:,}" for part, (images, classes) in fact.parts.items())
        page = f"[page]({fact.page})"
        rows.append((f"`{name}`", fact.what, f"{fact.images:,}", f"{fact.classes:,}", parts, fact.licence, page))
    header = ("data", "what it is", "images", "classes", "images / classes of each part", "terms", "official page")
    return _table(header, rows)


def metric_facts() -> str:
    """All metrics, kind by kind: retrieval, clustering, geometry."""
    order = ("retrieval", "clustering", "geometry")
    rows = []
    for name in sorted(evaluation.names(), key=lambda name: order.index(evaluation.describe(name).kind)):
        fact = evaluation.describe(name)
        forms = [f"`{name}[{form}]`" for form in fact.forms[1:]]
        forms += [f"`{name}[{key}=N]`, N: {number}" for key, number in fact.numbers.items()]
        forms += [f"only for {' and '.join(fact.distances)}"] if fact.distances else []
        rows.append((f"`{name}`", fact.kind, fact.text, "; ".join(forms)))
    return _table(("metric", "kind", "value", "other forms"), rows)


def protocol_facts() -> str:
    return _table(("protocol", "classes"), [(f"`{name}`", protocols.describe(name)) for name in protocols.names()])


def commands() -> str:
    """One section per command in the groups of `levelfield --help`, with its arguments and options."""
    sections, group = [], None
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        if command.rich_help_panel != group:
            group = command.rich_help_panel
            sections.append(f"## {group}")
        sections += _command(f"levelfield {name}", command)
        for inner, part in getattr(command, "commands", {}).items():
            sections += _command(f"levelfield {name} {inner}", part)
    return "\n\n".join(sections) + "\n"


def _command(name: str, command: Any) -> list[str]:
    arguments = [one for one in command.params if not one.opts[0].startswith("-")]
    options = [one for one in command.params if one.opts[0].startswith("-") and not one.hidden]
    words = [name, *(_argument(one) for one in arguments), *(["[OPTIONS]"] if options else [])]
    rows = [(f"`{one.opts[0].upper()}`", Text.from_markup(one.help or "").plain, "") for one in arguments]
    for one in options:
        default = (
            "" if one.is_flag or one.default in (None, [], ()) else f"`{getattr(one.default, 'value', one.default)}`"
        )
        spelt = _names([*one.opts, *one.secondary_opts])
        rows.append((spelt, Text.from_markup(one.help or "").plain, default))
    table = [_table(("argument", "meaning", "default"), rows)] if rows else []
    return [f"### {name}", (command.help or "").strip(), f"```text\n{' '.join(words)}\n```", *table]


def _argument(one: Any) -> str:
    word = f"{one.opts[0].upper()}{'...' if one.nargs < 0 else ''}"
    return word if one.required else f"[{word}]"


def laws() -> str:
    lines = []
    for law in LAWS:
        more = (inspect.getdoc(law) or "").partition("\n")[0]
        lines.append(f"- {law.__name__.replace('_', ' ')}" + (f" ({more.rstrip('.')})" if more else ""))
    return "\n".join(lines)


def corruption_facts() -> str:
    rows = []
    for name in corruptions.names():
        own = ", ".join(f"`{key}` {_shown(value)}" for key, value in corruptions.create(name).settings.items())
        rows.append((f"`{name}`", corruptions.describe(name), own))
    return _table(("corruption", "what it does", "settings"), rows)


def figure_facts() -> str:
    return _table(("figure", "what it shows"), [(f"`{name}`", figures.describe(name).what) for name in figures.names()])


def lunch() -> str:
    """benchmarks/lunch.py: a row for each folder of photos and number of CPU minutes."""
    results = json.loads((DOCS.parent / "benchmarks" / "results" / "lunch.json").read_text(encoding="utf-8"))
    rows = []
    for photos, by_name in results.items():
        scripts = {entry["minutes"]: entry for entry in by_name.get("script", [])}
        for entry in by_name.get("levelfield", []):
            script = scripts.get(entry["minutes"])
            other = "not run" if script is None else f"{script['recall@1']:.3f} ({script['untrained']:.3f})"
            ours = f"{entry['recall@1']:.3f} ({entry['untrained']:.3f})"
            rows.append((photos, f"{entry['minutes']:g}", ours, other, f"{entry['cpu_seconds'] / 60:.1f}"))
    header = ("photos", "minutes", "levelfield (untrained)", "script (untrained)", "CPU minutes of levelfield")
    return _table(header, rows)


def recipe() -> str:
    """benchmarks/recipe.py: a row for each way to train."""
    results = json.loads((DOCS.parent / "benchmarks" / "results" / "recipe.json").read_text(encoding="utf-8"))
    rows = []
    for one in results:
        head = {"none": "no head"}.get(one["head"], f"{one['head']} head of {one['dim']}")
        rates = f"rate {one['lr']:g}" + (f", weights averaged ({one['average']:g})" if one["average"] else "")
        part = "average " if one["average"] else ""
        scores = [f"{one[f'{part}{kind}@{side}']:.3f}" for kind in ("head", "features") for side in (160, 224)]
        how = f"{rates}, {one['freeze']} pieces frozen"
        rows.append((one["loss"], str(one["image"]), head, how, str(one["steps"]), *scores))
    columns = ("loss", "pixels", "head", "how", "steps", "head at 160", "at 224", "features at 160", "at 224")
    return _table(columns, rows)


def calibration() -> str:
    """Ten methods: the worst case of each number of classes, before and now, and power beside other tests."""
    found, rows = [one for one in _calibrated()["scenarios"] if one["methods"] == 10 and not one["fewer"]], []
    for classes in sorted({one["classes"] for one in found}):
        own = [one for one in found if one["classes"] == classes]
        peers = [one for one in own if "covered_before" in one]
        power = next(one["power"] for one in peers if "power" in one)
        covered = [one["covered"] for one in own if one["covered"] is not None]
        shown = ("crossed", "classes only", "sign flips", "oracle")
        rows.append(
            (
                str(classes),
                _per_cent(max(one["false_verdicts_before"] for one in peers)),
                _per_cent(max(one["false_verdicts"] for one in own)),
                _per_cent(min(one["covered_before"] for one in peers)),
                _per_cent(min(covered)) if covered else "none",
                *(f"{power[name]:.2f}" if covered else "none" for name in shown),
            )
        )
    head = (
        "classes",
        "false verdicts before",
        "false verdicts now",
        "coverage before",
        "coverage now",
        "power now",
        "power: t over classes",
        "power: sign flips",
        "power: oracle",
    )
    return _table(head, rows)


def calibration_small() -> str:
    """Two and three rows: the worst case of each number of seeds."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for one in _calibrated()["scenarios"]:
        if one["methods"] < 10 and not one["fewer"]:
            trained, fixed = one["methods"] - one["fixed"], one["fixed"]
            rows = f"{trained} trained" + (f", {fixed} without training" if fixed else "")
            found.setdefault((rows, one["seeds"]), []).append(one)
    shown = [
        (
            rows,
            str(seeds),
            _per_cent(max(one["false_verdicts"] for one in own)),
            _per_cent(min(one["covered"] for one in own)),
        )
        for (rows, seeds), own in found.items()
    ]
    return _table(("rows", "seeds", "false verdicts", "coverage"), sorted(shown, key=lambda row: row[0]))


def calibration_unequal() -> str:
    """Rows with different numbers of seeds: the worst case of each."""
    found: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    for one in _calibrated()["scenarios"]:
        if one["fewer"]:
            found.setdefault((one["methods"], one["fewer"], one["seeds"]), []).append(one)
    rows = [
        (
            str(methods),
            str(few),
            str(many),
            _per_cent(max(one["false_verdicts"] for one in own)),
            _per_cent(min(one["covered"] for one in own)),
        )
        for (methods, few, many), own in sorted(found.items())
    ]
    return _table(("rows", "seeds of the noisy row", "seeds of the others", "false verdicts", "coverage"), rows)


def calibration_rates() -> str:
    """Rates of wrong pairs: the worst case of each number of classes, before and now."""
    found, rows = _calibrated()["rates"], []
    for classes in sorted({one["classes"] for one in found}):
        cells = []
        for kind in ("false matches", "false non-matches"):
            own = [one for one in found if one["classes"] == classes and one["kind"] == kind]
            cells += [_per_cent(min(one[key] for one in own)) for key in ("covered_before", "covered")]
        rows.append((str(classes), *cells))
    head = ("false matches before", "false matches now", "false non-matches before", "false non-matches now")
    return _table(("classes", *head), rows)


def calibration_needed() -> str:
    rows = [
        (
            f"{one['classes']} classes, {one['seeds']} seeds, {one['methods']} methods; seed noise {one['noise']}; "
            f"class sizes {one['sizes']}",
            f"{one['number']} {one['missing']}",
            _per_cent(one["power"]),
            _per_cent(one["interval_holds"]),
        )
        for one in _calibrated()["needed"]
    ]
    return _table(("study", "needs", "power then", "coverage"), rows)


def calibration_runs() -> str:
    rows = []
    for one in _calibrated()["runs"]:
        shares = (_per_cent(one[key]) for key in ("before", "false_verdicts"))
        rows.append((one["kind"], one["method"], str(one["classes"]), *shares))
    return _table(("equal because", "method", "classes", "before", "now"), rows)


def _calibrated() -> dict[str, Any]:
    path = DOCS.parent / "benchmarks" / "results" / "calibration.json"
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def _per_cent(share: float) -> str:
    return f"{100 * share:.1f} %"


TABLES: dict[str, Callable[[], str]] = {
    "lunch": lunch,
    "recipe": recipe,
    "calibration": calibration,
    "calibration_small": calibration_small,
    "calibration_needed": calibration_needed,
    "calibration_runs": calibration_runs,
    "calibration_unequal": calibration_unequal,
    "calibration_rates": calibration_rates,
    "corruptions": corruption_facts,
    "conditions": conditions,
    "starts": starts,
    "which": which,
    "objectives": objective_facts,
    "compatibility": compatibility,
    "fits": batches_that_fit,
    "published_batches": published_batches,
    "gallery": gallery,
    "miners": miner_facts,
    "methods": method_facts,
    "batchings": batching_facts,
    "datasets": dataset_facts,
    "benchmarks": benchmark_facts,
    "metrics": metric_facts,
    "protocols": protocol_facts,
    "figures": figure_facts,
    "scale": partial(benchmark, "scale"),
    "feeding": partial(benchmark, "feeding"),
    "closed_forms": closed_forms,
    "beyond_memory": beyond_memory,
    "laws": laws,
    "commands": commands,
}


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _shown(value: Any) -> str:
    return f"`{as_written(value)}`"


def _kind(annotation: Any, metadata: Sequence[Any]) -> str:
    """The values of a field, in words."""
    if get_origin(annotation) is typing.Annotated:
        inner, *more = get_args(annotation)
        return _kind(inner, [*more, *metadata])
    if get_origin(annotation) is Literal:
        return _names(get_args(annotation))
    if get_origin(annotation) in (types.UnionType, typing.Union):
        return " or ".join(_kind(one, metadata if one is not type(None) else ()) for one in get_args(annotation))
    if get_origin(annotation) is tuple:
        inside = get_args(annotation)[0]
        return f"list of {'steps' if get_origin(inside) is dict else 'names' if inside is str else 'whole numbers'}"
    if get_origin(annotation) is dict:
        return "a name with settings" if get_args(annotation)[1] != str | None else "names with texts"
    words = {int: "whole number", float: "number", str: "text", bool: "`true`, `false`", type(None): "`null`"}
    return words[annotation] + _bounds(metadata)


def _bounds(metadata: Sequence[Any]) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    flat = [part for entry in metadata for part in getattr(entry, "metadata", [entry])]
    found = [f"{sign} {getattr(part, name):g}" for name, sign in signs.items() for part in flat if hasattr(part, name)]
    return f" {' and '.join(found)}" if found else ""


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
        print(f"wrote {page.relative_to(DOCS.parent)}")
