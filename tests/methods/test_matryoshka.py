"""`matryoshka: [2, 4, 8]`: the mean of the losses on the first numbers of each row."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from levelfield import methods, objectives
from levelfield.errors import BadSpecification
from levelfield.methods import Batch, Setting
from levelfield.objectives._parts.start import StartRows

SIZES = [2, 4, 8]
LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])
ROWS = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
BATCH = Batch(ROWS, LABELS, np.arange(8), None, 0, 0)


def create(name: str, sizes=SIZES, **settings):
    generator = torch.Generator().manual_seed(0)
    return methods.create(name, num_classes=3, dim=8, generator=generator, matryoshka=sizes, **settings)


def losses(method, rows=ROWS):
    return method.losses(rows, BATCH, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("name", "settings"), [("contrastive", {"miner": "all"}), ("multi_similarity", {}), ("fast_ap", {})]
)
def test_the_loss_is_the_mean_over_the_first_numbers(name, settings):
    found, plain = losses(create(name, **settings)), objectives.create(name, **settings)
    assert list(found) == ["first 2", "first 4", "first 8"]
    for k in SIZES:
        torch.testing.assert_close(found[f"first {k}"], plain(ROWS[:, :k], LABELS) / 3)
    expected = sum(plain(ROWS[:, :k].contiguous(), LABELS) for k in SIZES) / 3
    torch.testing.assert_close(sum(found.values()), expected)


def test_whole_rows_start_like_the_plain_method_and_every_size_has_its_own_proxies():
    plain = methods.create("proxy_anchor", num_classes=3, dim=8, generator=torch.Generator().manual_seed(0))
    only, method = create("proxy_anchor", [8]), create("proxy_anchor")
    assert torch.equal(losses(only)["first 8"], losses(plain)["loss"])
    assert torch.equal(method.objective.proxies, plain.objective.proxies)
    groups = {group.name: [tuple(one.shape) for one in group.parameters] for group in method.groups()}
    assert groups == {"proxies": [(3, 8)], "proxies_first_2": [(3, 2)], "proxies_first_4": [(3, 4)]}
    assert {group.multiplier for group in method.groups()} == {plain.groups()[0].multiplier}
    declared = method.deviations(Setting(8, 16))
    assert declared["extra_parameters"] == 3 * (2 + 4 + 8)
    assert declared["matryoshka"] == "2, 4, 8"


def test_proxies_of_every_size_start_at_the_class_means_of_the_first_numbers():
    method = create("proxy_anchor")
    method.start_from(StartRows(ROWS, LABELS))
    for k, objective in zip(SIZES, [*method.smaller, method.objective], strict=True):
        rows = torch.nn.functional.normalize(ROWS[:, :k], dim=1)
        means = torch.stack([rows[label == LABELS].mean(0) for label in range(3)])
        torch.testing.assert_close(objective.proxies.detach(), means)


@pytest.mark.parametrize(
    ("sizes", "settings", "told"),
    [
        ([2, 16], {}, "the largest size is 16, but embeddings have 8 numbers: the largest must be 8"),
        ([2, 4], {}, "since no loss would train the numbers after it"),
        *((sizes, {}, "expected a list of sizes") for sizes in ([], [0, 8], [2.5, 8], True, "16,32")),
        (SIZES, {"memory": 64}, "'matryoshka' and 'memory' cannot be combined"),
        (SIZES, {"mixup": True}, "'matryoshka' and 'mixup' cannot be combined"),
        (SIZES, {"student": {"teacher": "big"}}, "'matryoshka' and 'student' cannot be combined"),
    ],
)
def test_bad_sizes_and_combinations_are_refused(sizes, settings, told):
    with pytest.raises(BadSpecification, match=told):
        create("contrastive", sizes, **settings)


def test_objectives_that_normalise_whole_rows_are_refused():
    with pytest.raises(BadSpecification, match="normalises the rows of the head"):
        create("hist")
