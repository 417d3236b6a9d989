"""Numbers computed by other people's code (see index.json for each case's source)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelfield.evaluation import clustering, evaluate

GOLDEN = Path(__file__).parents[1] / "golden" / "metrics"
CASES = json.loads((GOLDEN / "index.json").read_text())["cases"]
RETRIEVAL = {"r_precision": "r_precision", "map_at_r": "map@r", "map": "map", "mrr": "mrr", "map_at_1000": "map@1000"}
CLUSTERING = {
    "nmi_arithmetic": clustering.nmi,
    "nmi_geometric": lambda table: clustering.nmi(table, form="geometric"),
    "nmi_min": lambda table: clustering.nmi(table, form="min"),
    "nmi_max": lambda table: clustering.nmi(table, form="max"),
    "pair_precision": clustering.pair_precision,
    "pair_recall": clustering.pair_recall,
    "pair_f1": clustering.f1,
    "ari": clustering.ari,
    "ami": clustering.ami,
}


def expected(case: dict[str, Any]) -> tuple[Any, dict[str, np.ndarray]]:
    """The arrays, and those to be matched: all outputs, or the corrected ones where the source was wrong."""
    arrays = np.load(GOLDEN / case["file"])
    if case["status"] == "bug":
        return arrays, {name.removesuffix("_right"): arrays[name] for name in arrays.files if name.endswith("_right")}
    return arrays, {name: arrays[name] for name in case["outputs"]}


def check(case: dict[str, Any], name: str, got: Any, want: np.ndarray) -> None:
    np.testing.assert_allclose(got, want, rtol=case["rtol"], atol=case["atol"], err_msg=f"{case['name']}: {name}")


def of(what: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in CASES if case["what"] == what]


def search(case: dict[str, Any], arrays: Any, metrics: list[str]) -> Any:
    settings = {key: case["params"][key] for key in ("distance", "ties", "lone") if key in case["params"]}
    settings["average"] = case["params"].get("reduction", "query")
    if "query" in arrays.files:
        ids = arrays["query_ids"] if "query_ids" in arrays.files else None
        return evaluate(arrays["query"], arrays["query_labels"], gallery=arrays["gallery"], query_ids=ids,
                        gallery_labels=arrays["gallery_labels"], metrics=metrics, **settings)
    return evaluate(arrays["embeddings"], arrays["labels"], metrics=metrics, **settings)


@pytest.mark.parametrize("case", of("retrieval"))
def test_retrieval_agrees_with_the_golden_numbers(case: dict[str, Any]) -> None:
    arrays, wanted = expected(case)
    names = {**RETRIEVAL}
    for kind in ("recall", "precision"):
        names.update({f"{kind}@{k}": f"{kind}@{k}" for k in case["params"]["ks"]})
    result = search(case, arrays, list(names.values()))
    for name, want in wanted.items():
        base = name.removeprefix("per_query_")
        values = result.per_query if name.startswith("per_query_") else result
        if base in ("n_queries", "n_lone"):
            got = getattr(result, base)
        elif base in ("recall_at_k", "precision_at_k"):
            got = np.stack([values[f"{base.split('_')[0]}@{k}"] for k in case["params"]["ks"]], axis=-1)
            got = got.T if got.shape != want.shape else got
        elif base.startswith(("recall_at_", "precision_at_")):
            got = values[base.replace("_at_", "@")]
        else:
            got = values[RETRIEVAL[base]]
        check(case, name, got, want)


@pytest.mark.parametrize("case", [*of("map_at_c"), *of("map_at_k")])
def test_forms_of_map_agree_with_the_golden_numbers(case: dict[str, Any]) -> None:
    arrays, wanted = expected(case)
    cut = "c" if case["what"] == "map_at_c" else case["params"]["k"]
    name = f"map@{cut}[{case['params']['form']}]"
    check(case, "value", search(case, arrays, [name])[name], wanted["value"])


@pytest.mark.parametrize("case", of("clustering"))
def test_clustering_agrees_with_the_golden_numbers(case: dict[str, Any]) -> None:
    arrays, wanted = expected(case)
    table = clustering.tabulate(arrays["labels"], arrays["clusters"])
    for name, want in wanted.items():
        check(case, name, CLUSTERING[name](table), want)
