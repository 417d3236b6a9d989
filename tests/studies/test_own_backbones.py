"""Several networks on a user's photos: one image size, one dimension, and rows that say whether training pays."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_world import make_photos

from levelfield.errors import BadSpecification, UnknownName
from levelfield.studies import parse_study, resolve
from levelfield.studies.planning.own_photos import fit_to, named_backbones, photos_content, with_backbones
from levelfield.studies.specification.study import Study

RANDOM = "conditions.weights=random"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photos(tmp_path_factory.mktemp("own") / "photos", classes=20, each=3)


def fitted(photos: Path, backbones: str, *overrides: str) -> tuple[Study, str]:
    """As `levelfield compare --data photos --backbones ...` does it: the study, and what it says."""
    base = with_backbones(photos_content(), named_backbones(backbones))
    wished = parse_study(base | {"data": str(photos)}, overrides)
    fixed = {text.partition("=")[0] for text in overrides}
    content, changes, _ = fit_to(photos, wished=wished, fixed=fixed, content=base)
    return parse_study(content, overrides), " ".join(changes)


def test_every_network_has_five_rows_and_the_narrowest_decides_the_dimension(photos: Path) -> None:
    study, said = fitted(photos, "test_resnet, test_vit", RANDOM, "conditions.image=32")
    assert study.vary == {"conditions.backbone": ["test_resnet", "test_vit"]}
    assert [method.label for method in study.methods] == ["untrained", "whitened", "LDA", "head", "last stage"]
    assert (study.conditions.pooling, study.conditions.dim) == ("own", 64)
    assert "2 networks: test_resnet, test_vit." in said
    assert "64 dimensions, like the narrowest features" in said
    assert (study.conditions.select, study.conditions.patience, study.conditions.validate_every) == ("map@r", 6, 20)
    assert study.figures == ("cost", "curves")
    runs = resolve(study).runs
    assert {run.row for run in runs} == {
        f"{method.label} [backbone={name}]" for name in ("test_resnet", "test_vit") for method in study.methods
    }
    assert {run.spec.conditions.cut for run in runs if run.label == "last stage"} == {"last-1"}


def test_an_image_size_is_chosen_that_all_patches_divide(photos: Path) -> None:
    """The recipe's 160 pixels are no multiple of the 14 pixels of DINOv2's patches."""
    study, said = fitted(photos, "test_resnet,vit_small_patch14_dinov2", RANDOM)
    assert study.conditions.image == 168
    assert "resized to 168 px" in said
    with pytest.raises(BadSpecification, match=r"such as 154 or 168\. Or leave 'vit_small_patch14_dinov2' out"):
        fitted(photos, "test_resnet,vit_small_patch14_dinov2", RANDOM, "conditions.image=160")


def test_a_network_without_stages_is_refused_before_training(photos: Path) -> None:
    with pytest.raises(
        BadSpecification, match=r"'regnetx_002' is not divided into stages.*'last-1'.*Or leave 'regnetx_002' out of"
    ):
        fitted(photos, "test_resnet,regnetx_002", RANDOM, "conditions.image=32")


def test_unknown_empty_and_repeated_names_are_refused() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'mobilenetv2'"):
        named_backbones("test_resnet,mobilenetv_2")
    with pytest.raises(BadSpecification, match="empty"):
        named_backbones(" , ")
    with pytest.raises(BadSpecification, match="'test_resnet' twice"):
        named_backbones("test_resnet,test_vit,test_resnet")
