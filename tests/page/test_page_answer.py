"""The first screen in a browser: answer, leaderboard, cost, and the sections that are only read."""

from __future__ import annotations

import re

from browsers import Opener
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect

from levelfield.reports.page.content import Data


def methods(tab: Tab) -> list[str]:
    return tab.locator(".leaderboard tbody th").all_inner_texts()


def test_the_answer_is_the_headline_with_its_cautions_and_missing_runs(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes)
    expect(tab.locator("#answer h2")).to_have_text("Use contrastive")
    expect(tab.locator(".cautions li")).to_have_text(
        ["Only 24 test classes: other classes may give another order.", re.compile("angular is missing: The loss")]
    )
    assert tab.title().startswith("shapes")


def test_only_rows_that_share_a_letter_with_the_best_are_shaded(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes)
    assert tab.locator("tr.tied th").all_inner_texts()[:2] == ["contrastive", "normalized_softmax"]
    assert tab.locator(".leaderboard tr.tied").count() == 2


def test_sorting_by_another_column_and_back(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes)
    best_first = methods(tab)
    column = tab.locator("th", has=tab.get_by_role("button", name="Method"))
    tab.get_by_role("button", name="Method", exact=True).click()
    assert methods(tab) == sorted(best_first, key=str.lower)
    expect(column).to_have_attribute("aria-sort", "ascending")
    tab.get_by_role("button", name="Method").first.click()
    assert methods(tab) == sorted(best_first, key=str.lower, reverse=True)
    expect(column).to_have_attribute("aria-sort", "descending")
    tab.locator("th.value button").click()
    assert methods(tab) == best_first
    for _ in range(2):  # in either direction
        tab.locator("th.seconds button").click()
        assert methods(tab)[-1] == "LDA (closed form)", "a row without a value is last"


def test_another_metric_changes_values_order_and_address(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes)
    tab.get_by_role("button", name="nmi").click()
    expect(tab.locator("td.value").first).to_have_text("0.990")
    assert methods(tab)[0] == "triplet"
    expect(tab).to_have_url(re.compile("metric=nmi"))


def test_a_deviation_explains_itself_to_mouse_keyboard_and_finger(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes)
    letter = tab.get_by_role("button", name="Deviation b:")
    letter.hover()
    expect(tab.get_by_role("tooltip")).to_have_text("lr of proxies x0.846 (x1)")
    tab.mouse.move(5, 5)
    expect(tab.get_by_role("tooltip")).to_be_hidden()
    letter.focus()
    expect(tab.get_by_role("tooltip")).to_be_visible()
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("tooltip")).to_be_hidden()
    tab = opened(shapes, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    tab.get_by_role("button", name="Deviation c:").tap()
    expect(tab.get_by_role("tooltip")).to_have_text("steps 0 (500)")
    tab.locator("#answer-title").tap()
    expect(tab.get_by_role("tooltip")).to_be_hidden()


def test_the_front_of_cost_and_accuracy_leaves_out_what_is_beaten_in_both(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes)
    points = tab.locator(".cost circle")
    assert points.count() == 4  # the trained ones
    points.first.focus()
    expect(tab.get_by_role("tooltip")).to_have_text(re.compile(r"contrastive: recall@1 0\.\d+, 4\.6 s"))
    corners = tab.locator(".front").get_attribute("d") or ""
    recall = {row["label"]: row["cells"]["recall@1"]["mean"] for row in shapes["rows"]}
    assert recall["contrastive"] > recall["normalized_softmax"] > recall["triplet"] > recall["margin"]
    assert corners.count("V") == 3  # margin, then the better of two that cost the same, then the best


def test_curves_follow_the_chosen_methods_and_tables_open(opened: Opener, shapes: Data) -> None:
    tab = opened(shapes)
    assert tab.locator(".curves").count() == 4
    lines = tab.locator("#training svg").first.locator("path.run")
    assert lines.count() == 12
    tab.locator("#training").get_by_role("button", name="margin").click()
    expect(lines).to_have_count(9)
    ledger = tab.get_by_role("cell", name="extra parameters 1", exact=True)
    expect(ledger).to_be_hidden()
    tab.locator("summary", has_text="Ledger").click()
    expect(ledger).to_be_visible()


def test_a_study_without_embeddings_says_so_in_each_section(opened: Opener, shapes: Data) -> None:
    rows = [
        dict(row, embedded=None, seconds=None, peak_bytes=None, images_seen=None, passes=None) for row in shapes["rows"]
    ]
    tab = opened(dict(shapes, rows=rows, tests=[], curves=[], tables=[]))
    for name in ("search", "map", "mistakes", "disagree", "same", "why", "training", "tables"):
        expect(tab.locator(f"#{name} .empty")).to_have_count(1)
    expect(tab.locator(".cost .empty")).to_have_count(1)


def test_a_study_without_a_finished_run_is_no_blank_page(opened: Opener, shapes: Data) -> None:
    tab = opened(dict(shapes, answer=[], rows=[], comparisons=[], tests=[], curves=[], metrics=[], best=0))
    expect(tab.locator("#answer h2")).to_have_text("No run of this study is finished yet.")
    expect(tab.locator(".cautions")).to_contain_text("angular is missing")
