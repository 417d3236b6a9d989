"""A study of a user's own photos: default losses, steps chosen by validation if possible, and several networks."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_world import NETWORK, completed, make_photos

from levelfield.errors import BadSpecification
from levelfield.studies import parse_study, resolve
from levelfield.studies.planning.one_method import chosen_steps
from levelfield.studies.planning.own_photos import fit_to, named_backbones, photos_content, with_backbones
from levelfield.studies.specification.study import Study

RANDOM = "conditions.weights=random"


def fitted(photos: Path, *overrides: str, backbones: str = "") -> tuple[Study, str]:
    """As `levelfield compare --data photos (--backbones ...)` does it: the study, and its messages."""
    base = with_backbones(photos_content(), named_backbones(backbones)) if backbones else photos_content()
    wished = parse_study(base | {"data": str(photos)}, overrides)
    fixed = {text.partition("=")[0] for text in overrides}
    content, changes, _ = fit_to(photos, wished=wished, fixed=fixed, content=base)
    return parse_study(content, overrides), " ".join(changes)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 classes: 10 train, and 4 of them can validate."""
    return make_photos(tmp_path_factory.mktemp("own") / "photos", classes=20, each=3)


def test_validation_classes_choose_the_steps(photos: Path) -> None:
    study, said = fitted(photos)
    assert not any(method.settings or method.conditions for method in study.methods), "every loss has its defaults"
    assert study.protocol.validation == pytest.approx(0.4)
    assert study.conditions.min_delta == pytest.approx(0.04)
    conditions = study.conditions
    assert (conditions.select, conditions.validate_start, conditions.patience) == ("map@r", True, 5)
    assert study.figures == ("curves",)
    assert conditions.dim == 512, "the default network has more features"
    assert "Trains on 6 classes (18 images), validates on 4 classes (12 images), tests on 10 classes (30" in said
    assert "4 of the 10 training classes" in said
    assert "at most 200" in said


def test_with_fewer_than_8_training_classes_the_steps_are_few_and_fixed(tmp_path: Path) -> None:
    study, said = fitted(make_photos(tmp_path / "photos", classes=14, each=3))
    assert (study.conditions.select, study.conditions.steps, study.protocol.validation) == ("budget", 10, 0)
    assert study.figures == ()
    assert "Steps: 10 for every run, because 7 training classes are too few" in said


def test_what_the_user_sets_is_left_alone(photos: Path) -> None:
    study, said = fitted(photos, "conditions.select=budget", "conditions.steps=300")
    assert (study.conditions.select, study.conditions.steps, study.protocol.validation) == ("budget", 300, 0)
    assert "Steps:" not in said
    study, said = fitted(photos, "conditions.steps=30", "conditions.patience=7")
    assert (study.conditions.steps, study.conditions.patience, study.conditions.select) == (30, 7, "map@r")
    assert "at most 30" in said
    study, said = fitted(photos, "protocol=standard")
    assert (study.conditions.select, study.conditions.steps) == ("budget", 10)
    assert "has no validation classes" in said
    study, said = fitted(photos, "protocol.validation=0.5")
    assert (study.protocol.validation, study.conditions.select) == (0.5, "map@r")
    assert "the 5 validation classes" in said


def test_a_network_with_few_features_has_as_many_dimensions(photos: Path) -> None:
    settings = {"backbone": "mobilenetv3_small_050", "weights": "random", "taps": "blocks.3", "pooling": "average"}
    study, said = fitted(photos, *(f"conditions.{key}={value}" for key, value in settings.items()))
    assert study.conditions.dim < 512
    assert f"The embedding has {study.conditions.dim} dimensions, like the network's features" in said


def test_classes_that_cannot_be_divided_do_not_validate(photos: Path, tmp_path: Path) -> None:
    """The training half is one group."""
    rows = [
        f"{path},{path.parent.name},{'first' if number < 30 else path.parent.name}"
        for number, path in enumerate(sorted(photos.glob("*/*.png")))
    ]
    listed = tmp_path / "list.csv"
    listed.write_text("path,label,group\n" + "\n".join(rows))
    study, said = fitted(listed)
    assert study.conditions.select == "budget"
    assert "none of the training classes can be held out" in said


def test_the_start_is_chosen_where_training_harms(photos: Path, tmp_path: Path) -> None:
    """Noise has nothing to learn from: with a rate that destroys the head, what is kept is the start itself."""
    overrides = [f"conditions.{key}={value}" for key, value in NETWORK.items()]
    overrides += ["conditions.image=32", "conditions.taps=final", "conditions.pooling=average", "conditions.lr=10.0"]
    study, _ = fitted(photos, *overrides, "methods=[start, contrastive]", "seeds=1", "metrics=[recall@1]")
    runs = completed(study, tmp_path)
    start, trained = (run.folder(tmp_path) for run in resolve(study).runs)
    assert (start / "embeddings.npy").read_bytes() == (trained / "embeddings.npy").read_bytes()
    assert len(runs) == 2


def test_without_compared_runs_nobody_knows_the_steps(tmp_path: Path) -> None:
    with pytest.raises(BadSpecification, match="run `levelfield compare` first"):
        chosen_steps(tmp_path / "nothing", {"margin"})


def test_every_network_has_five_rows_and_the_narrowest_decides_the_dimension(photos: Path) -> None:
    study, said = fitted(photos, RANDOM, "conditions.image=32", backbones="test_resnet, test_vit")
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
    named = "test_resnet,vit_small_patch14_dinov2"
    study, said = fitted(photos, RANDOM, backbones=named)
    assert study.conditions.image == 168
    assert "resized to 168 px" in said
    with pytest.raises(BadSpecification, match=r"such as 154 or 168\. Or leave 'vit_small_patch14_dinov2' out"):
        fitted(photos, RANDOM, "conditions.image=160", backbones=named)


def test_of_too_many_images_a_sample_of_the_classes_is_used_and_named(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=120, each=2)
    content, changes, _ = fit_to(photos, most=200)
    assert content["data"]["sample"] == 100  # so many classes at least
    assert "A random sample of 100 of 120 classes (200 of 240 images)." in changes
    assert any("data.sample=120 takes all" in change for change in changes)
    again, _, _ = fit_to(photos, most=200)
    assert content == again
    whole = parse_study(photos_content() | {"data": str(photos)}, ["data.sample=120"])
    assert fit_to(photos, wished=whole, most=200)[0]["data"]["sample"] == 120
