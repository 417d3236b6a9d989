"""Run everything that the pages tell a reader to type: `levelfield` commands, Python blocks, study files.

The commands are those of the pages, on a small folder of photos and with a few steps: the settings in SMALL come right
after the command, so that settings of a page override them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pages
import pytest
import yaml
from PIL import Image

import levelfield.objectives._contract as contract
from drawn_photos import make_photos
from levelfield import library
from levelfield.cli import main
from levelfield.cli.app import PANELS
from levelfield.papers import toy
from levelfield.reports.view.server import Server
from levelfield.studies.execution.cluster.nodes import Answer, Node, inspect_node
from levelfield.studies.specification.study import parse_study
from one_process import stay_in_this_process, without_garbage

CLASSES, EACH = 8, 6
STEPS = ["conditions.steps=3", "seeds=1"]
NETWORK = ["backbone=test_resnet", "weights=random", "taps=final", "image=32", "dim=8"]  # copied at no cost
NETWORK = [f"conditions.{word}" for word in NETWORK]
SMALL = [*STEPS, "data=photos", "conditions.batch=4x3", "conditions.dim=8"]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A reader's folder: photos, a query, and the finished runs of the demo."""
    room = tmp_path_factory.mktemp("reader")
    random = np.random.default_rng(0)
    make_photos(room / "photos", classes=CLASSES, each=EACH, side=64, suffix=".jpg")
    shutil.copy(room / "photos" / "class0" / "0.jpg", room / "query.jpg")
    (room / "new" / "teapot").mkdir(parents=True)  # a class that no study has
    for number in range(2):
        shades = random.integers(0, 256, size=(64, 64, 3), dtype=np.uint8)
        Image.fromarray(shades).save(room / "new" / "teapot" / f"{number}.jpg")
    listed = [f"photos/class{label}/{number}.jpg\n" for label in range(CLASSES) for number in range(EACH)]
    (room / "images.txt").write_text("".join(listed), encoding="utf-8")
    for rows, labels, first in (("e", "y", 0), ("g", "gy", 0), ("v", "vy", 100), ("t", "ty", 200)):
        # test, gallery, validation, training
        np.save(room / f"{rows}.npy", random.normal(size=(CLASSES * EACH, 8)))
        np.save(room / f"{labels}.npy", first + np.repeat(np.arange(CLASSES), EACH))
    for page in pages.PAGES:
        for block in pages.blocks(page):
            if block.file and not block.file.startswith(("src/", "tests/")):
                (room / block.file).write_text(block.text, encoding="utf-8")
            if block.file == "src/levelfield/methods/two_passes.py":  # the page says what my_methods.py has less
                own = block.text.replace('@register("two_passes")\n', "")
                (room / "my_methods.py").write_text(own, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(room)
        patch.setenv("LEVELFIELD_CACHE", str(room / "cache"))
        stay_in_this_process(patch)
        patch.setattr(toy, "STEPS", 5)
        patch.setattr(Server, "serve", Server.end)  # a server would wait for Ctrl-C
        patch.setattr("levelfield.cli.view._open", lambda address: None)
        patch.setattr("levelfield.cli.view._leave", lambda: None)  # it would end this process
        # a cluster of this machine alone, without Ray
        patch.setattr("levelfield.distributed.ray_connection.connected", lambda _: nullcontext())
        alone = Node("0", "this machine", 2.0, 0.0, 10**9)
        patch.setattr(
            "levelfield.studies.execution.cluster.nodes.survey",
            lambda _, *asked: [Answer(alone, inspect_node(*asked, Path.cwd()))],
        )
        run(["compare", "demo"])
        without_garbage()  # what these commands imported
        yield room


def run(arguments: list[str]) -> None:
    """One `levelfield` command, which has to end well."""
    with pytest.raises(SystemExit) as end:
        main(small([path for word in arguments for path in expanded(word)]))
    assert end.value.code == 0, f"levelfield {' '.join(arguments)} ended with {end.value.code}"


def small(arguments: list[str]) -> list[str]:
    if "--backbones" in arguments:
        arguments = networks_without_weights(arguments)
    if arguments[0] == "toy":
        return ["toy", "--seeds", "1", *arguments[1:]]
    if arguments[0] not in ("compare", "train", "tune"):
        return arguments
    ships = arguments[1] in library.names()
    if ships and "/" in arguments[1] and "--dry-run" in arguments:
        return arguments  # a paper's: it trains nothing and needs no data
    study = arguments[1] if ships or arguments[1].endswith(".yaml") else None
    added = [*STEPS, *small_network(study, arguments)]
    if study and ships:
        added = [
            *SMALL,
            *short_sweep(study),
            *few_classes(study),
            *few_methods(study, arguments),
            *small_network(study, arguments),
        ]
    if arguments[0] == "tune":  # some of the classes judge
        added = [*added, "conditions.batch=2x3", "methods=[lda, contrastive]"]
    if "--time" in arguments:  # few photos are seen so often that no more steps are made, in seconds
        added = [word for word in added if word not in STEPS]
    searches = arguments[0] == "tune" or {"--trials", "--time"} & set(arguments)
    if searches and not study:
        added = [*added, "methods=[contrastive]"]
    fewer = ["--trials", "2"] if searches and "--time" not in arguments else []
    return [*arguments[: 2 if study else 1], *added, *arguments[2 if study else 1 :], *fewer]


def networks_without_weights(arguments: list[str]) -> list[str]:
    """Small networks instead of those that a page compares."""
    position = arguments.index("--backbones") + 1
    return [*arguments[:position], "test_resnet,test_vit", *arguments[position + 1 :]]


def few_classes(study: str) -> list[str]:
    """Meta classes that the photos' classes can fill."""
    named = library.content(study)["methods"]
    has_dreml = any("dreml" in method for method in named)
    return ["methods.dreml.meta_classes=2", "methods.dreml.members=2"] if has_dreml else []


def few_methods(study: str, arguments: list[str]) -> list[str]:
    """Of a long list the first four, unless claims or the README's next commands are about the others; two that train
    in processes of their own, and in a folder of their own."""
    if "--processes" in arguments:
        return ["name=in-processes", "methods=[margin, proxy_anchor]"]
    content = library.content(study)
    many = len(content["methods"]) > 6 and "claims" not in content and study != "demo"
    return ["methods=" + json.dumps(content["methods"][:4])] if many else []


def small_network(study: str | None, arguments: list[str]) -> list[str]:
    """For all that trains, the demo too: test_wheel.py runs it with its own network."""
    if "--backbones" in arguments:
        return ["conditions.weights=random", "conditions.image=32"]
    return [] if study is None and "--dry-run" in arguments else NETWORK


def short_sweep(study: str) -> list[str]:
    """Two values of what varies, without claims about others; batches that the photos can fill, and small networks."""
    vary = library.content(study).get("vary", {})
    small = {"conditions.batch": ["4x2", "4x3"], "conditions.backbone": ["test_resnet", "test_efficientnet"]}
    vary |= {key: small[key] for key in vary.keys() & small.keys()}
    return ["vary=" + json.dumps({key: values[:2] for key, values in vary.items()}), "claims=[]"] if vary else []


def expanded(word: str) -> list[str]:
    """What a shell makes of `runs/demo/margin/seed0-*`."""
    return sorted(map(str, Path().glob(word))) or [word] if "*" in word else [word]


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.stem)
def test_what_a_page_says_works(page: Path, room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract.registry, "_entries", dict(contract.registry._entries))
    monkeypatch.setattr(contract.registry, "_facts", dict(contract.registry._facts))
    names: dict[str, object] = {"__name__": "page"}
    for block in pages.blocks(page):
        print(block.where)
        if block.file and block.file.startswith(("src/", "tests/")):
            continue  # pasted and tested by test_contributing_examples.py
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, str(block.page), "exec"), names)
        elif block.language == "yaml":
            parse_study({"data": "photos", "methods": ["lda"], **yaml.safe_load(block.text)}, origin=block.where)
        for command in block.commands("levelfield"):
            run(command)
    for name, value in list(names.items()):
        if name.startswith("test_"):
            assert callable(value)
            value()


def test_pages_show_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {words[0] for page in pages.PAGES for block in pages.blocks(page) for words in block.commands("levelfield")}
    assert {command for commands in PANELS.values() for command in commands} <= shown
