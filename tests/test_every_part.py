"""Laws of all kinds of parts: the tests iterate over the registries, so that they cover every new part.

Objectives, miners and batchings have more laws: `tests/testing`, `tests/miners/test_miner_alone.py` and
`tests/batching/test_batching_laws.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from levelfield import batching, data, evaluate, evaluation, methods, miners, objectives
from levelfield.data import Catalog, corruptions, protocols
from levelfield.embedder import Trunk, backbones
from levelfield.embedder.networks._registry import networks
from levelfield.errors import BadInput, BadSpecification, UnknownName
from levelfield.evaluation import engine
from levelfield.evaluation.search.arrangement import EVERYWHERE
from levelfield.index import modules_of
from levelfield.registry import Registry
from levelfield.reports import figures
from one_process import tool

KINDS: dict[str, ModuleType] = {
    "objective": objectives,
    "miner": miners,
    "batching": batching,
    "metric": evaluation,
    "dataset": data,
    "protocol": protocols,
    "corruption": corruptions,
    "figure": figures,
    "backbone": backbones,
    "method": methods,
}
RETRIEVAL = [name for name in evaluation.names() if evaluation.describe(name).kind == "retrieval"]
LABELS = np.repeat(np.arange(6), [2, 3, 4, 5, 6, 1])
ROWS = np.random.default_rng(0).integers(-2, 3, size=(len(LABELS), 3)) + 0.25  # with ties


def named(kind: str) -> list[str]:
    """Of backbones those that are written here; timm tests its own."""
    return networks.names() if kind == "backbone" else KINDS[kind].names()


REGISTRIES: dict[str, Registry[Any]] = tool("typed").registries()
EVERY = [(kind, name) for kind in KINDS for name in named(kind)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_name_is_refused_with_the_nearest_one(kind: str) -> None:
    known = named(kind)[0]
    with pytest.raises(UnknownName, match=f"Unknown {kind} .*{known}x"):
        KINDS[kind].describe(f"{known}x")


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_a_part_says_what_it_is(kind: str, name: str) -> None:
    result = KINDS[kind].describe(name)
    facts = result if isinstance(result, str) else [value for value in vars(result).values() if value]
    assert facts


@pytest.mark.parametrize("kind", REGISTRIES)
def test_what_is_registered_is_written_in_a_file_of_its_home(kind: str) -> None:
    registry = REGISTRIES[kind]
    files = modules_of(registry.home)
    assert {registry.get(name).__module__ for name in registry.names()} <= set(files)


@pytest.mark.parametrize("name", RETRIEVAL)
@pytest.mark.parametrize("form", [0, 1, 2])
def test_a_retrieval_metric_needs_only_its_reach(name: str, form: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forms = evaluation.describe(name).forms
    if form >= max(1, len(forms)):
        return
    asked = name.replace("@K", "@3") + (f"[{forms[form]}]" if forms else "")
    short = evaluate(ROWS, LABELS, metrics=[asked]).per_query[asked]
    monkeypatch.setattr(engine, "reach", lambda wanted, positives: np.full(len(positives), EVERYWHERE))
    whole = evaluate(ROWS, LABELS, metrics=[asked]).per_query[asked]
    np.testing.assert_array_equal(short, whole)
    assert short.shape == (len(ROWS),)
    assert np.isfinite(short).all()


@pytest.mark.parametrize("name", evaluation.names())
def test_the_order_of_rows_changes_no_metric(name: str) -> None:
    asked, order = name.replace("@K", "@3"), np.random.default_rng(1).permutation(len(ROWS))
    first, second = evaluate(ROWS, LABELS, metrics=[asked]), evaluate(ROWS[order], LABELS[order], metrics=[asked])
    np.testing.assert_array_equal(first[asked], second[asked])


def catalogs() -> Iterator[Catalog]:
    """What protocols may need: nothing, groups, the makers' split of classes or of images, roles."""
    labels = np.repeat(np.arange(16), 4)
    plain: dict[str, Any] = {"paths": (Path("x"),) * 64, "labels": labels, "class_names": tuple("abcdefghijklmnop")}
    yield Catalog("plain", **plain)
    yield Catalog("groups", **plain, groups=np.arange(16) // 2)
    yield Catalog("split", **plain, split=("train",) * 32 + ("test",) * 32)
    yield Catalog("closed", **plain, split=("train", "train", "test", "test") * 16)
    yield Catalog("roles", **plain, roles=("train",) * 32 + ("query", "query", "gallery", "gallery") * 8)


@pytest.mark.parametrize("name", protocols.names())
def test_a_protocol_divides_a_catalog_that_suits_it_the_same_way_each_time(name: str) -> None:
    divided = 0
    for catalog in catalogs():
        for validation in (0.0, 0.25):
            try:
                first, second = (protocols.create(name, catalog, validation) for _ in range(2))
            except (BadInput, BadSpecification):
                continue
            divided += 1
            assert protocols.fold_count(name) == len(first)
            for fold, other in zip(first, second, strict=True):
                assert fold.name == other.name
                assert all(np.array_equal(getattr(fold, p), getattr(other, p)) for p in ("train", "validation", "test"))
                assert len(fold.train)
    assert divided


@pytest.mark.parametrize("overlap", ["test", "validation"])
def test_a_protocol_cannot_train_on_a_class_that_judges(overlap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = next(catalogs())
    parts = {"train": np.arange(32), "validation": np.arange(32, 40), "test": np.arange(40, 64)}
    parts[overlap] = np.union1d(parts[overlap], [31]) if overlap == "validation" else np.arange(31, 32)

    def leaky(catalog: Catalog, *, validation: float = 0.0) -> list[protocols.Fold]:
        return [protocols.Fold("leaky", **parts)]

    monkeypatch.setitem(protocols.registry._entries, "leaky", leaky)
    with pytest.raises(BadInput, match=f"the same classes or groups of classes into train and {overlap}"):
        protocols.create("leaky", catalog)


@pytest.mark.parametrize("name", corruptions.names())
@pytest.mark.parametrize("shape", [(40, 40), (24, 61), (5, 3), (1, 1)])
def test_a_corruption_draws_from_its_stream_alone_and_keeps_the_image(name: str, shape: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    before, results = image.copy(), []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002 - a global draw must not matter
        results.append(corruptions.create(name)(image, corruptions.stream(name, "a")))
    assert np.array_equal(*results)
    assert np.array_equal(image, before)
    assert (results[0].shape, results[0].dtype) == (image.shape, image.dtype)


@pytest.mark.parametrize("name", networks.names())
def test_a_backbone_gives_finite_features_frozen_and_tuned(name: str) -> None:
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    backbone = backbones.create(name, weights="random")
    assert backbone.stages
    (features,) = Trunk(backbone, cut="frozen", image=64).below(images)
    assert features.isfinite().all()
    tuned = Trunk(backbone, cut="tuned", image=64).above(images)
    torch.testing.assert_close(tuned, features)
    assert tuned.requires_grad


@pytest.mark.parametrize("name", data.names())
def test_a_dataset_says_what_it_needs_before_it_opens_anything(name: str) -> None:
    facts = data.describe(name)
    assert facts.what
    settings = inspect.signature(REGISTRIES["dataset"].get(name)).parameters.values()
    needed = [setting.name for setting in settings if setting.default is setting.empty]
    assert set(needed) <= {facts.needs}
    if needed:
        with pytest.raises(BadSpecification, match=f"needs the setting '{needed[0]}'"):
            data.create(name)
