"""Damaged or malicious model files: one message, without side effects."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from levelfield.embedder import Embedder, Head, Trunk, load, save_ensemble, save_model
from levelfield.embedder.model_files import _checksum
from levelfield.embedder.trunk import backbones
from levelfield.errors import BadInput, Damaged

VIEW = {"image": 32, "mean": [0.5] * 3, "std": [0.5] * 3}


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    trunk = Trunk(backbones.create("test_resnet", weights="random"), cut="frozen")
    return Embedder(trunk, Head(trunk.width, 4))


@pytest.fixture
def home(embedder: Embedder, tmp_path: Path) -> Path:
    save_model(tmp_path / "run", embedder, VIEW)
    return tmp_path / "run"


@pytest.fixture
def pair(home: Path, tmp_path: Path) -> Path:
    save_ensemble(tmp_path / "pair", [home, home], {})
    return tmp_path / "pair"


def rewritten(home: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A description as a stranger could write it, with a matching checksum."""
    facts = yaml.safe_load((home / "model.yaml").read_text())
    del facts["checksum"]
    change(facts)
    text, weights = yaml.safe_dump(facts), home / "model.safetensors"
    checksum = _checksum(text, weights if weights.exists() else None)
    (home / "model.yaml").write_text(f"{text}checksum: '{checksum}'\n")
    return home


@pytest.mark.parametrize("name", ["model.safetensors", "model.yaml"])
def test_a_flipped_bit_anywhere_and_a_lost_end_are_noticed(name: str, home: Path) -> None:
    path, whole = home / name, (home / name).read_bytes()
    damaged = [whole[:-100]]
    for position in np.random.default_rng(0).choice(len(whole), 12, replace=False):
        damaged.append(bytes([*whole[:position], whole[position] ^ 4, *whole[position + 1 :]]))
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(BadInput, match=r"damaged|format|model"):
            load(home)
    path.write_bytes(whole)
    load(home)


def test_a_model_without_a_checksum_is_damaged(home: Path) -> None:
    path = home / "model.yaml"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(Damaged, match="checksum"):
        load(home)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f["trunk"].update(backbone="hf-hub:timm/resnet18"), "is a download location"),
        (lambda f: f["trunk"].update(backbone="local-dir:/tmp/network"), "is a download location"),
        (lambda f: f["trunk"].update(backbone="os.system"), "Unknown backbone"),
        (lambda f: f["trunk"].update(weights="evil.pth"), "damaged"),
        (lambda f: f["view"].update(steps=[{"evil.py:Loss": 3}]), "damaged"),
        (lambda f: f["head"].update(kind="evil.py:Head"), "damaged"),
        (lambda f: f["head"].update(dim=-3), "damaged"),
        (lambda f: f.update(head={"own": "evil.py:Head"}), "a custom head"),
        (lambda f: f.update(trunk=["evil"]), "damaged"),
        (lambda f: f.update(codes="evil"), "codes|evil"),
        (lambda f: f.update(evil=1), "unknown key 'evil'"),
        (lambda f: f["view"].update(crop=0.001), r"run/model\.yaml is damaged.*'crop' is 0\.001: .* to 32000 pixels"),
        (lambda f: f["view"].update(crop=1e-9), "'crop' is 1e-09.*at least 0.00781"),
        (lambda f: f["view"].update(crop=1e-320), "'crop' is"),
        (lambda f: f["view"].update(image=10**9), "'image' is 1000000000; it must be between 1 and 1024"),
        (lambda f: f["view"].update(image=1025), "'image' is 1025"),
        (lambda f: f["view"].update(std=[float("inf")] * 3), "'std' is inf"),
        (lambda f: f["view"].update(std=[1e-320] * 3), "'std' is 1e-320; it must be between 1e-06"),
        (lambda f: (f["view"].pop("crop"), f["view"].update(steps=[{"resize": 10**6}, {"centre": 32}])), "'size' is"),
        (lambda f: f["trunk"].update(image=10**6), r"model\.yaml is damaged.*'trunk\.image' is 1000000"),
        (lambda f: f["trunk"].update(taps=["final"] * 10**4), "name one stage twice"),
        (lambda f: f["head"].update(dim=10**9), r"'head\.dim' is 1000000000; it must be between 1 and 65536"),
        (lambda f: f["head"].update(width=10**12), r"'head\.width' is"),
        (lambda f: f["head"].update(dim=60_000, width=9_000_000), "'head.linear.bias' .* is another one in model"),
        (lambda f: f["head"].update(kind="relation", branches=10**9), r"'head\.branches' is"),
        (lambda f: f.update(head={"kind": "relation", "width": 9 * 10**6, "dim": 60_000}), "is another one in model"),
    ],
)
def test_a_crafted_description_gives_one_message(change, message, home, monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", _no_network)
    with pytest.raises(Exception, match=message) as told:
        load(rewritten(home, change))
    assert type(told.value).__module__ == "levelfield.errors"


def test_a_huge_network_is_refused_before_memory_is_allocated_for_it(home: Path, monkeypatch) -> None:
    devices, make = [], backbones.timm.create_model

    def watched(*arguments: Any, **options: Any) -> Any:
        devices.append(torch.empty(0).device.type)
        return make(*arguments, **options)

    monkeypatch.setattr(backbones.timm, "create_model", watched)
    rewritten(home, lambda facts: facts["trunk"].update(backbone="vit_giant_patch14_clip_224"))
    with pytest.raises(Damaged, match=r"run/model\.yaml is damaged .* is another one in model\.safetensors"):
        load(home)
    assert devices == ["meta"]


def test_a_network_that_needs_memory_while_it_is_made_can_be_loaded(home: Path, monkeypatch) -> None:
    make = backbones.timm.create_model
    monkeypatch.setattr(
        backbones.timm, "create_model", lambda *args, **options: (torch.ones(1).item(), make(*args, **options))[1]
    )
    assert load(home).dim == 4


@pytest.mark.parametrize(
    ("count", "message"), [(1001, "names 1,001 members; 1,000 are the most"), (2, "a member twice")]
)
def test_an_ensemble_has_at_most_a_thousand_members_and_each_once(pair: Path, count: int, message: str) -> None:
    with pytest.raises(Damaged, match=message):
        load(rewritten(pair, lambda facts: facts.update(members=["members/0"] * count)))


def _no_network(*_: object) -> None:
    raise AssertionError("the network was asked")


@pytest.mark.parametrize(
    "text", ["!!python/object/apply:os.system ['touch pwned']", "[1, 2]", "", "format: 1\nmembers: []\n", "a: &a [*a]"]
)
def test_text_that_describes_no_model_gives_one_message(text: str, home: Path) -> None:
    (home / "model.yaml").write_text(text)
    with pytest.raises(BadInput):
        load(home)


@pytest.mark.parametrize("content", [b"", b"\xff" * 8 + b"{}", (10**12).to_bytes(8, "little"), b"\x80\x04pickle."])
def test_weights_that_are_none_give_one_message(content: bytes, home: Path) -> None:
    (home / "model.safetensors").write_bytes(content)
    rewritten(home, lambda facts: None)
    with pytest.raises(Damaged, match="not a valid safetensors"):
        load(home)


@pytest.mark.parametrize(
    "members", [["../../.."], ["/etc"], ["members/../../x"], [".."], "members/0", [3], ["members/0/../1"]]
)
def test_members_lie_in_the_folder_and_nothing_is_written_elsewhere(members: Any, pair: Path, tmp_path: Path) -> None:
    rewritten(pair, lambda facts: facts.update(members=members))
    with pytest.raises(Damaged, match="member"):
        load(pair)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Damaged, match="member"):
        save_ensemble(tmp_path / "out" / "inner" / "deep", [pair], {})
    assert [path for path in sorted(tmp_path.rglob("*")) if "out" not in path.parts] == before
    assert not (tmp_path / "out" / "model.yaml").exists()


def test_a_member_that_is_a_link_to_its_parent_is_refused(pair: Path) -> None:
    (pair / "members" / "0" / "model.yaml").unlink()
    (pair / "members" / "0" / "model.safetensors").unlink()
    (pair / "members" / "0").rmdir()
    (pair / "members" / "0").symlink_to(pair)
    with pytest.raises(BadInput, match="is a link to "):
        load(pair)


def test_a_linked_file_is_not_copied_into_an_ensemble(home: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    (home / "model.yaml").rename(secret)
    (home / "model.yaml").symlink_to(secret)
    with pytest.raises(BadInput, match="is a link to "):
        save_ensemble(tmp_path / "out", [home], {})
