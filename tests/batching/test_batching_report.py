"""The report about a plan, against numbers counted by somebody else's code."""

import json
from pathlib import Path

import numpy as np
import pytest

from levelfield.batching import create, report

GOLDEN = Path(__file__).parents[1] / "golden" / "batching"
CASES = json.loads((GOLDEN / "index.json").read_text())["cases"]


def cases(what):
    chosen = [case for case in CASES if case["what"] == what]
    return pytest.mark.parametrize("case", chosen, ids=[case["name"] for case in chosen])


@cases("batch-stats")
def test_report_counts_what_the_golden_cases_count(case):
    arrays = np.load(GOLDEN / case["file"])
    facts = report(arrays["labels"], arrays["batches"])
    for name in case["outputs"]:
        np.testing.assert_allclose(getattr(facts, name), arrays[name], rtol=case["rtol"], err_msg=name)


@cases("spc")
def test_spc_with_replacement_has_the_expected_distribution(case):
    arrays = np.load(GOLDEN / case["file"])
    n, size = case["params"]["n"], case["params"]["batch_size"]
    batches = create("spc", arrays["labels"], batch_size=size, samples_per_class=n, replace=True)
    assert len(batches) == int(arrays["batches"])
    epochs = [batches.plan(epoch) for epoch in range(30)]
    facts = [report(arrays["labels"], plan) for plan in epochs]
    groups = np.stack(epochs).reshape(-1, n)
    assert np.mean([fact.coverage for fact in facts]) == pytest.approx(float(arrays["coverage"]), rel=0.03)
    assert np.mean([fact.classes for fact in facts]) == pytest.approx(float(arrays["classes_per_batch"]), rel=0.03)
    assert np.mean(groups[:, 0] == groups[:, 1]) == pytest.approx(float(arrays["same_image_pair"]), rel=0.1)
