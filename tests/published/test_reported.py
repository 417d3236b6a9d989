"""Published results of a method: the most similar setting first, with its differences."""

from __future__ import annotations

from levelfield.papers.published import reported

OURS = {
    "protocol": "standard",
    "backbone": "resnet50",
    "dim": 128,
    "image": 224,
    "batch": 112,
    "sampler": "SPC-2",
    "epochs": 150,
    "selection": "last",
}


def test_the_most_similar_setting_comes_first() -> None:
    [first, *_] = reported("cub", "n_pair", "recall@1", conditions=OURS)
    assert (first.line.source, first.value) == ("roth2020 table4", 61.63)
    wide = {**OURS, "backbone": "bninception", "dim": 64, "batch": 120}
    [first, *_] = reported("cub", "n_pair", "recall@1", conditions=wide)
    assert (first.line.source, first.value) == ("fehervari2019 table2", 53.7)


def test_what_differs_and_what_is_not_stated_is_in_the_note() -> None:
    [first, *_] = reported("cub", "n_pair", "recall@1", conditions={**OURS, "dim": 256, "batch": 80})
    assert "dim 128 (here 256)" in first.note
    assert "batch 112 (here 80)" in first.note
    assert "selection best_on_test (here last)" in first.note
    assert {"backbone", "image", "protocol"} <= set(first.same)
    every = reported("cub", "n_pair", "recall@1", conditions=OURS)
    [quoted] = [one for one in every if one.line.source == "seidenschwarz2021 table1"]
    assert "not stated there: backbone" in quoted.note


def test_a_printed_name_that_says_another_setting_is_another_method() -> None:
    def names(**settings: object) -> set[str]:
        found = reported("cub", "triplet", "recall@1", conditions={**OURS, **settings})
        return {one.line.printed_method for one in found if one.line.paper == "roth2020"}

    assert names(miner="random") == {"Triplet (R)"}
    assert names(miner="distance_weighted", switch=0.4) == {"R-Triplet (D)"}
    assert names(miner="distance_weighted") == {"Triplet (D)"}


def test_a_metric_of_another_definition_is_shown_with_its_ceiling() -> None:
    [first, *_] = reported("sop", "margin", "map@r", conditions={**OURS, "beta": 1.2, "epochs": 100})
    assert first.line.printed_metric == "mAP@C"
    assert "81.3 %" in first.note
    assert "class size with the query counted" in first.note
    [same, *_] = reported("sop", "margin", "map@c[released]", conditions={**OURS, "beta": 1.2, "epochs": 100})
    assert "divides" not in same.note
    assert "81.3 %" in same.note


def test_recall_and_precision_at_one_are_one_and_at_two_are_not() -> None:
    assert any(one.line.printed_metric == "P@1" for one in reported("cub", "cosface", "recall@1"))
    assert {one.line.printed_metric for one in reported("imagenet", "softmax", "recall@2")} == {"R@2"}


def test_a_dash_is_no_number_and_other_data_has_none() -> None:
    assert not [
        one for one in reported("sop", "proxy_nca", "recall@10") if one.line.source == "seidenschwarz2021 table1"
    ]
    assert reported("emoji", "margin", "recall@1") == []


def test_numbers_that_cannot_be_right_are_said_to_be() -> None:
    [found] = reported("imagenet", "softmax", "map@r")
    assert "probably exchanged" in found.note
