from __future__ import annotations

import pytest
import torch

from levelfield.labels import class_masks, class_table


def test_labels_that_are_equal_as_float32_are_still_different_classes() -> None:
    positive, negative = class_masks(torch.tensor([2**25, 2**25 + 1]))
    assert not positive.any()
    assert negative.sum() == 2


@pytest.mark.parametrize("labels", [[3], [1, 1, 1], [5, 9, 5, 5], [2**40, -1, 2**40, 0, -1], []])
def test_the_class_table_lists_every_other_member_once(labels: list[int]) -> None:
    table = class_table(torch.tensor(labels, dtype=torch.int64))
    for row, label in enumerate(labels):
        others = [k for k, other in enumerate(labels) if other == label and k != row]
        assert table.others[row][table.valid[row]].tolist() == others
        assert table.others[row][~table.valid[row]].tolist() == [row] * int((~table.valid[row]).sum())
        assert table.counts[row] == len(others)
