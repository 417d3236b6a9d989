"""Run the laws on the losses of pytorch-metric-learning and write the failures into own-loss.md: `make docs`."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from torch import nn

from levelfield.randomness import isolated
from levelfield.table import Table
from levelfield.testing import CLASSES, DIM, LAWS, Verdict, verdicts

PAGE = Path(__file__).parents[1] / "docs" / "own-loss.md"
_PLACE = re.compile(r"(<!-- laws of pml -->\n).*?(<!-- end of laws -->)", re.DOTALL)
# Settings without a default, or which the tiny batches of the laws need.
SETTINGS: dict[str, dict[str, Any]] = {"RankedListLoss": {"margin": 0.4, "Tn": 10}, "HistogramLoss": {"n_bins": 10}}
# No loss of labelled batches, a wrapper around another, or in need of batches of a certain kind.
LEFT_OUT = {
    *("BaseMetricLossFunction", "BaseLossWrapper", "CrossBatchMemory", "GenericPairLoss", "ManifoldLoss"),
    *("MultipleLosses", "SelfSupervisedLoss", "SmoothAPLoss", "VICRegLoss"),
}


def names() -> list[str]:
    from pytorch_metric_learning import losses

    kinds = [name for name, kind in vars(losses).items() if isinstance(kind, type) and issubclass(kind, nn.Module)]
    return sorted(name for name in kinds if name not in LEFT_OUT and not name.endswith("Mixin"))


def broken(name: str) -> list[Verdict]:
    """The laws that the loss `name` breaks, as it comes: behind our call, but without our generator."""
    from pytorch_metric_learning import losses

    kind = getattr(losses, name)
    sizes = {"num_classes": CLASSES, "embedding_size": DIM, "descriptors_dim": DIM}

    def make(**extra: Any) -> nn.Module:
        with isolated(0, "pml"):  # equal class vectors each time
            for given in (
                {**sizes},
                {k: sizes[k] for k in ("num_classes", "embedding_size")},
                {k: sizes[k] for k in ("num_classes", "descriptors_dim")},
                {},
            ):
                try:
                    return kind(**given, **SETTINGS.get(name, {}), **extra)
                except TypeError:
                    continue
        raise TypeError(f"{name} cannot be made.")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [verdict for verdict in verdicts(make) if verdict.holds is False]


def table() -> str:
    rows: dict[tuple[str, str], list[str]] = {}
    good = []
    for name in names():
        found = broken(name)
        if not found:
            good.append(f"`{name}`")
        for verdict in found:
            rows.setdefault((verdict.law.replace("_", " "), _short(verdict.seen)), []).append(f"`{name}`")
    order = [law.__name__.replace("_", " ") for law in LAWS]
    broken_laws = sorted(rows.items(), key=lambda row: order.index(row[0][0]))
    cells = [[law, ", ".join(losses), seen] for (law, seen), losses in broken_laws]
    columns = ["law", "losses that break it", "what was observed"]
    return Table(columns, cells, notes=[f"No law is broken by {', '.join(good)}."]).markdown()


def _short(seen: str) -> str:
    """The first sentence, without what the reader does not need."""
    line = seen.strip().partition("\n")[0].replace("torch.", "").replace(" (float32)", "")
    line = re.sub(r"'([^']+)', '\1' \(bfloat16\)", r"'\1'", line)
    for noise in ("Scalars are not close!", "Scalars are not equal!", " for output 0 with respect to input"):
        line = line.partition(noise)[0]
    return line.partition(". ")[0].partition(" (or directly")[0].strip(" ,:")


def main() -> None:
    import pytorch_metric_learning

    told = (
        f"pytorch-metric-learning {pytorch_metric_learning.__version__}, {len(names())} losses, {len(LAWS)} laws.\n\n"
    )
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_PLACE.sub(lambda place: f"{place[1]}{told}{table()}\n{place[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
