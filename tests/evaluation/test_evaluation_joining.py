"""Joined members: no member dominates, and a row depends only on its image."""

from __future__ import annotations

import numpy as np
import pytest

from levelfield.errors import BadInput
from levelfield.evaluation import joined
from levelfield.randomness import numpy_stream


def members(count: int = 30) -> list[np.ndarray]:
    draw = numpy_stream(0, "members")
    return [draw.normal(size=(count, dim)).astype(np.float32) for dim in (3, 17, 1)]


def test_each_part_has_length_one_and_nothing_more_is_done():
    rows = joined(members())
    assert rows.dtype == np.float32
    for start, end in ((0, 3), (3, 20), (20, 21)):
        np.testing.assert_allclose(np.linalg.norm(rows[:, start:end], axis=1), 1, rtol=1e-6)
    for place, one in enumerate(members()):
        slow = one.astype(np.float64) / np.sqrt((one.astype(np.float64) ** 2).sum(1, keepdims=True))
        np.testing.assert_allclose(rows[:, [0, 3, 20][place] : [3, 20, 21][place]], slow, rtol=1e-6)


def test_zero_rows_stay_zero():
    parts = members()
    parts[1][4] = 0
    rows = joined(parts)
    assert not rows[4, 3:20].any()
    assert np.isfinite(rows).all()


def test_the_scale_of_a_member_changes_nothing():
    parts = members()
    scaled = [parts[0] * np.float32(1024), parts[1] * np.float32(2**-100), parts[2].astype(np.float64) * 2.0**900]
    np.testing.assert_array_equal(joined(scaled), joined(parts))


def test_a_row_depends_on_itself_alone():
    many = [np.concatenate([part] * 300) for part in members()]  # more than one block
    rows = joined(many)
    np.testing.assert_array_equal(rows[8970:], joined(members()))
    np.testing.assert_array_equal(rows[17], joined([part[17:18] for part in many])[0])
    assert joined([part[:0] for part in members()]).shape == (0, 21)
    strided = [np.asfortranarray(part)[::-1][::-1] for part in members()]
    np.testing.assert_array_equal(joined(strided), rows[:30])


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([], "No members to join"),
        ([np.zeros((3, 2)), np.zeros((4, 2))], "Member 1 has 4 rows but member 0 has 3"),
        ([np.zeros(3)], r"shape \(3,\)"),
    ],
)
def test_what_cannot_be_joined_is_refused(parts, said):
    with pytest.raises(BadInput, match=said):
        joined(parts)
