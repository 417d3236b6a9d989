"""Mistakes, disagreement, same or not, and why, in a browser."""

from __future__ import annotations

import re

import numpy as np
from browsers import Opener
from playwright.sync_api import expect

from levelfield.reports.page.content import Data


def test_a_class_shows_its_images_and_what_it_is_taken_for(opened: Opener, shapes: Data) -> None:
    test = shapes["tests"][0]
    own, other, times = test["methods"][0]["classes"]["taken_for"][0]
    tab = opened(shapes, "#mistakes")
    tab.locator("#mistakes").get_by_label("Class", exact=True).fill(test["classes"][own])
    detail = tab.locator("#mistakes .detail")
    expect(detail.locator("h4")).to_have_text(test["classes"][own])
    expect(detail.locator(".taken li").first).to_contain_text(f"{test['classes'][other]} ×{times}")
    row = opened(shapes, "#mistakes?order=name").locator(".heats tbody tr").first
    first = sorted(test["classes"])[0]
    expect(row.locator("th")).to_have_text(first)
    recalls = [method["classes"]["recall"][test["classes"].index(first)] for method in test["methods"]]
    assert row.locator(".heat").all_inner_texts() == [f"{100 * recall:.0f} %" for recall in recalls]


def test_confused_classes_hubs_and_images_that_nobody_finds_change_with_the_method(
    opened: Opener, shapes: Data
) -> None:
    test = shapes["tests"][0]
    tab = opened(shapes, "#mistakes")
    tab.get_by_label("Mistakes of").select_option("margin")
    method = test["methods"][4]
    own, other, times = method["classes"]["taken_for"][0]
    words = f"{test['classes'][own]} taken for {test['classes'][other]} {times} time"
    expect(tab.locator(".pairs li").first).to_contain_text(words)
    expect(tab.locator("#mistakes")).to_contain_text(f"×{method['found_by'].max()}")
    nobody = int((method["found_by"] == 0).sum())
    found = tab.locator("#mistakes").get_by_text(
        re.compile(rf"^{nobody} images? (is|are) among the 16 nearest of no query")
    )
    expect(found).to_have_count(1 if nobody else 0)


def test_label_errors_duplicates_and_leaks_are_shown_with_their_reason(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, "#mistakes")
    mistakes = tab.locator("#mistakes")
    expect(mistakes.get_by_text("4 of 5 methods").first).to_be_visible()
    expect(mistakes.get_by_text("almost the same, in two classes")).to_be_visible()
    expect(mistakes.get_by_text("equal to a training image")).to_be_visible()


def test_two_methods_are_counted_tested_and_shown(opened: Opener, shapes: Data) -> None:
    first, last = (shapes["tests"][0]["methods"][number]["right"] == 1 for number in (0, 4))
    tab = opened(shapes, "#disagree")
    tab.get_by_label("Second").select_option("margin")
    cells = [int(text) for text in tab.locator(".cell strong").all_inner_texts()]
    counts = [(first & last).sum(), (first & ~last).sum(), (~first & last).sum(), (~first & ~last).sum()]
    assert cells == counts
    expect(tab.locator("#disagree .verdict")).to_contain_text("contrastive is better. recall@1: contrastive +0.")
    tab.locator(".cell.b").click()
    expect(tab.locator("#disagree .gallery .picture")).to_have_count(min(24, int(counts[2])))
    tab.locator(".cell.a").click()
    tab.locator("#disagree .gallery .picture").first.click()
    expect(tab.locator("#search .ranking .method")).to_have_text(["contrastive", "margin"])
    image = int(np.flatnonzero(first & ~last)[0])
    expect(tab.locator("#search .query")).to_contain_text(f"image {image + 1} of")
    verdict = opened(shapes, "#disagree?a=4&b=0").locator("#disagree .verdict")
    expect(verdict).to_contain_text("contrastive is better. recall@1: margin −0.")
    verdict = opened(shapes, "#disagree?a=0&b=1").locator("#disagree .verdict")
    expect(verdict).to_contain_text("The two cannot be told apart.")


def test_the_slider_changes_both_errors_and_the_pairs(opened: Opener, shapes: Data) -> None:
    threshold = shapes["tests"][0]["methods"][0]["threshold"]
    assert threshold
    tab = opened(shapes, "#same")
    rates = tab.locator("#same .rate strong")
    expect(tab.locator("#same output")).to_have_text("0.700")
    expect(tab.locator("#same .hint").first).to_contain_text("validation classes")
    expect(tab.locator("#same .halves > div").first.locator("li")).to_have_count(len(threshold["above"]))
    slider = tab.get_by_role("slider")
    slider.focus()
    for _ in range(5):
        tab.keyboard.press("ArrowLeft")
    expect(tab.locator("#same output")).to_have_text("0.600")
    expect(rates).to_have_text(
        [f"{100 * line[40]:.1f} %" for line in (threshold["false_accept"], threshold["false_reject"])]
    )
    above = [
        float(text.split()[0]) for text in tab.locator("#same .halves > div").first.locator(".note").all_inner_texts()
    ]
    assert above == sorted(above)
    assert 0.6 <= min(above) < 0.7
    tab.get_by_role("button", name="Back to it").click()
    expect(tab.locator("#same output")).to_have_text("0.700")
    options = tab.locator("#same").get_by_label("Method").locator("option").all_inner_texts()
    assert options == ["contrastive", "normalized_softmax", "triplet", "margin"]  # those with a threshold


def test_maps_of_a_query_say_whether_they_are_exact(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes, "#why")
    expect(tab.locator("#why .verdict")).to_contain_text("exact: the cosine is a sum over cells Cosine 0.800.")
    painted = """() => [...document.querySelectorAll('.heatmap')].map((one) =>
      one.getContext('2d').getImageData(0, 0, one.width, one.height).data.some((value) => value > 100))"""
    assert tab.evaluate(painted) == [True] * 4
    tab.locator("#why").get_by_label("Method").select_option("normalized_softmax")
    expect(tab.locator("#why .verdict")).to_contain_text("approximate")
    silent = {"queries": [], "maps": [], "notes": ["margin: its model was deleted"]}
    tab = opened(dict(shapes, tests=[dict(shapes["tests"][0], why=silent)]))
    expect(tab.locator("#why .empty")).to_have_text("margin: its model was deleted")


def test_another_test_set_changes_every_section(opened: Opener, shapes: Data) -> None:
    other = dict(
        shapes["tests"][0], name="other images", classes=[f"other {name}" for name in shapes["tests"][0]["classes"]]
    )
    tab = opened(dict(shapes, tests=[*shapes["tests"], other]), "#search?q=20")
    expect(tab.locator("#search .query .big")).not_to_contain_text("other")
    tab.get_by_label("Test images").select_option("other images")
    expect(tab.locator("#search .query .big")).to_contain_text("other")
    expect(tab.locator(".heats tbody th").first).to_contain_text("other")
