"""An exported ONNX file is a model without torch, to the bits of its view; a changed one is refused."""

from __future__ import annotations

import copy
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper
from PIL import Image
from shipped import DIM, made_model, photos, shipped

import levelfield
from levelfield.data import decoders, read_image
from levelfield.data.views.basic import TestView as make_view
from levelfield.data.views.named import steps_view
from levelfield.embedder.model import Model
from levelfield.errors import BadInput, Damaged, MissingExtra
from levelfield.progress import CallbackProgress
from levelfield.randomness import numpy_stream
from levelfield.shipping import OnnxModel
from levelfield.shipping.description import DESCRIPTION, check_view, pixels, write_description
from levelfield.shipping.onnx_network import Network


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shipped")
    shipped(made_model(), folder)
    return folder


@pytest.fixture
def file(once: Path, tmp_path: Path) -> Path:
    """A copy of an exported model."""
    shutil.copytree(once, tmp_path / "exported")
    return tmp_path / "exported" / "model.onnx"


def in_double(model: Model, paths: list[Path]) -> np.ndarray:
    """Raw rows of the same pixels, computed in float64."""
    pixels = torch.stack([model.view(read_image(path)) for path in paths])
    with torch.no_grad():
        return copy.deepcopy(model.embedder).double()(pixels.double()).numpy()


def test_it_is_used_like_the_model_of_a_run(file: Path, tmp_path: Path) -> None:
    paths, theirs = photos(tmp_path / "photos", 18), made_model()
    ours = levelfield.load(str(file))
    assert isinstance(ours, OnnxModel)
    assert levelfield.load(file.parent).checksum == ours.checksum
    assert (ours.dim, ours.view, ours.about) == (DIM, theirs.view, {"method": "made"})
    assert "method='made'" in repr(ours)
    assert "<table" in ours._repr_html_()
    told: list[tuple[str, int, int]] = []
    rows = ours.embed(paths, progress=CallbackProgress(lambda *now: told.append(now)))
    assert told[-1] == ("embedding", 18, 18)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, theirs.embed(paths), atol=1e-6)
    exact = in_double(theirs, paths)  # two right roundings of a raw row may differ by more than either from it
    for model in (ours, theirs):
        np.testing.assert_allclose(model.embed(paths, normalize=False), exact, atol=1e-6)
    image = Image.open(paths[3])
    for same in (paths[3], str(paths[3]), image, np.asarray(image), [image]):
        np.testing.assert_array_equal(ours.embed(same, exact=True)[0], ours.embed(paths, exact=True)[3])
    assert ours.embed([]).shape == (0, DIM)


def test_photos_read_ahead_give_the_same_rows(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, model = photos(tmp_path / "photos", 50), levelfield.load(file)
    monkeypatch.setattr(decoders, "TINY", 0)
    rows = []
    for workers in (0, 2):
        with decoders.decoding(workers):
            rows.append(model.embed(paths, exact=True))
    np.testing.assert_array_equal(*rows)


def test_a_changed_file_is_refused(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(Damaged, match="was changed: the checksum does not match"):
        levelfield.load(file)


def test_a_changed_description_is_refused(file: Path) -> None:
    beside = file.with_name(DESCRIPTION)
    beside.write_text(beside.read_text().replace("0.4", "0.3"))
    with pytest.raises(Damaged, match="was changed"):
        levelfield.load(file)


VIEW = {"image": 32, "crop": 1.0, "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "has format 2; this levelfield reads 1"),
        ({"file": "other.onnx"}, "describes other.onnx"),
        ({"preprocessing": {"image": 32}}, "has invalid settings"),
        ({"preprocessing": 7}, "has invalid settings"),
        ({"dim": 0}, "has invalid settings"),
        ({"dim": 10**9}, r"model\.json has invalid settings: 'dim' is 1000000000; it must be between 1 and 1e\+06"),
        ({"preprocessing": VIEW | {"crop": 0.001}}, r"model\.json has invalid settings: 'crop' is 0\.001"),
        ({"preprocessing": VIEW | {"image": 10**6}}, r"model\.json has invalid settings: 'image' is 1000000"),
        ({"dim": 9}, "does not have the input and output"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(file: Path, changes: dict[str, object], said: str) -> None:
    facts = json.loads(file.with_name(DESCRIPTION).read_text())
    shutil.copy(file, file.with_name("other.onnx"))
    write_description(file.parent, {**facts, **changes})
    with pytest.raises(BadInput, match=said):
        levelfield.load(file)


def test_what_is_missing_or_no_model_is_told(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="does not exist: write it with `levelfield export"):
        levelfield.load(tmp_path / "no.onnx")
    with pytest.raises(BadInput, match="computes on the CPU"):
        levelfield.load(file, device="cuda")
    with pytest.raises(BadInput, match="holds the whole model"):
        levelfield.load(file, head=made_model().embedder.head)
    facts = json.loads(file.with_name(DESCRIPTION).read_text())
    file.write_bytes(b"no network")
    write_description(file.parent, facts)
    with pytest.raises(Damaged, match="is not a valid ONNX file"):
        levelfield.load(file)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r'pip install "levelfield\[onnx\]"'):
        levelfield.load(file)
    file.with_name(DESCRIPTION).write_text("[]")
    with pytest.raises(Damaged, match="does not describe an exported model"):
        levelfield.load(file)
    file.with_name(DESCRIPTION).unlink()
    with pytest.raises(BadInput, match="is missing: it says how images are prepared"):
        levelfield.load(file)


def exported(file: Path, nodes: list[onnx.NodeProto], sizes: dict[str, list[int]]) -> None:
    """Replace the network by another one, with a description whose checksum is right."""
    facts = json.loads(file.with_name(DESCRIPTION).read_text())
    side = facts["preprocessing"]["image"]
    images = helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, ["n", 3, side, side])
    rows = helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, ["n", DIM])
    constants = [numpy_helper.from_array(np.array(size, np.int64), name) for name, size in sizes.items()]
    graph = helper.make_graph(nodes, "crafted", [images], [rows], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 9
    file.write_bytes(model.SerializeToString())
    write_description(file.parent, facts)


def ending(*inputs: str) -> list[onnx.NodeProto]:
    """Nodes that add numbers to the mean of each image, and repeat it."""
    nodes = [helper.make_node("ReduceMean", ["images", "axes"], ["mean"], keepdims=0)]
    nodes += [helper.make_node("Add", ["mean", name], [f"with {name}"]) for name in inputs]
    nodes += [helper.make_node("Reshape", [f"with {inputs[-1]}" if inputs else "mean", "column"], ["one"])]
    return [*nodes, helper.make_node("Expand", ["one", "wide"], ["rows"])]


SIZES = {"axes": [1, 2, 3], "column": [-1, 1], "wide": [1, DIM]}


ANY_SIZE = [  # the sizes that a constant names, but only known when the network is computed
    helper.make_node("ReduceSum", ["images"], ["sum of images"], keepdims=0),
    helper.make_node("Cast", ["sum of images"], ["whole"], to=onnx.TensorProto.INT64),
    helper.make_node("Mul", ["whole", "nothing"], ["zero"]),
    helper.make_node("Add", ["size", "zero"], ["open size"]),
]


def as_tensor(value: float | bool) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array([value], dtype=bool if value is True else np.float32))


ENDS_WITH_A_SIZE = [
    helper.make_node("Size", ["huge"], ["count"]),
    helper.make_node("Cast", ["count"], ["sum"], to=onnx.TensorProto.FLOAT),
    *ending("sum"),
]
TOO_LARGE = {  # nodes, and a size
    "numbers": (
        [helper.make_node("ConstantOfShape", ["open size"], ["huge"])],
        [1 << 29],
    ),
    "positions": (  # 64 bytes for each byte, in memory that onnxruntime does not count
        [
            helper.make_node("ConstantOfShape", ["open size"], ["true"], value=as_tensor(True)),
            helper.make_node("NonZero", ["true"], ["huge"]),
        ],
        [1, 1, 1, 1, 1, 1, 1, 1 << 25],
    ),
    "text": (
        [
            helper.make_node("Expand", ["text 0", "open size"], ["text 1"]),
            *(helper.make_node("StringConcat", [f"text {k}"] * 2, [f"text {k + 1}"]) for k in range(1, 30)),
            helper.make_node("Identity", ["text 30"], ["huge"]),
        ],
        [1],
    ),
    "constants": (  # computed when the file is opened
        [
            *(helper.make_node("ConstantOfShape", ["size"], [f"{k}"], value=as_tensor(float(k))) for k in range(9)),
            helper.make_node("Sum", [f"{k}" for k in range(9)], ["huge"]),
        ],
        [1 << 26],
    ),
}


@pytest.mark.parametrize("kind", TOO_LARGE)
def test_a_network_that_takes_too_much_memory_ends_with_one_message(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("levelfield.shipping.onnx_network._MEMORY", 1_000_000_000)
    nodes, size = TOO_LARGE[kind]
    text = helper.make_node("Constant", [], ["text 0"], value_string="four")
    exported(file, [*ANY_SIZE, text, *nodes, *ENDS_WITH_A_SIZE], {**SIZES, "nothing": [0], "size": size})
    with pytest.raises(Damaged, match="it takes more than 1 GB of memory"):
        levelfield.load(file).embed(photos(tmp_path / "photos", 1))


def test_a_network_that_fails_ends_with_one_message(file: Path, tmp_path: Path) -> None:
    [photo] = photos(tmp_path / "photos", 1)
    exported(file, ending(), SIZES)
    assert levelfield.load(file).embed(photo, normalize=False).shape == (1, DIM)
    exported(file, ending(), {**SIZES, "column": [7, -1]})
    model = levelfield.load(file)
    with pytest.raises(Damaged, match=r"cannot be computed: .*Reshape"):
        model.embed(photo)
    with pytest.raises(Damaged, match="cannot be computed: its process"):  # which has ended
        model.embed(photo)
    exported(
        file, [*ending()[:-1], helper.make_node("Expand", ["one", "twice"], ["rows"])], {**SIZES, "twice": [2, DIM]}
    )
    with pytest.raises(Damaged, match=rf"gives rows of the shape \[2, {DIM}\] for 1 images"):
        levelfield.load(file).embed(photo)


def test_a_network_that_takes_too_long_ends_with_one_message(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levelfield.shipping.onnx_network._SECONDS", 0.5)
    sizes = {**SIZES, "nothing": [0], "size": [1, 1, 1 << 23], "width": [1, 1, 1 << 22]}
    long = [  # hours within one node, which onnxruntime does not interrupt
        helper.make_node("ConstantOfShape", ["open size"], ["line"]),
        helper.make_node("ConstantOfShape", ["width"], ["kernel"]),
        helper.make_node("Conv", ["line", "kernel"], ["huge"]),
        *ENDS_WITH_A_SIZE,
    ]
    exported(file, [*ANY_SIZE, *long], sizes)
    model = levelfield.load(file)
    with pytest.raises(Damaged, match=r"cannot be computed: it takes more than 0\.5 s"):
        model.embed(photos(tmp_path / "photos", 1))
    exported(file, [helper.make_node("Identity", ["size"], ["open size"]), *long], sizes)
    with pytest.raises(Damaged, match=r"is not a valid ONNX file: it takes more than 0\.5 s"):
        levelfield.load(file)  # computed when it is opened


KEY, VALUE = b"\x0a\x08location", b"\x12\x06secret"
OTHER_WAYS = {  # to write the same name of a file
    "as onnx": KEY + VALUE,
    "value first": VALUE + KEY,
    "long length": b"\x0a\x88\x00location" + VALUE,
    "longer length": b"\x0a\x88\x80\x80\x00location" + VALUE,
    "long tags": b"\x8a\x00\x08location\x92\x00\x06secret",
}


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_weights_in_other_files_are_refused_however_they_are_named(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secret").write_bytes(bytes(4 * DIM * 100))
    exported(file, [*ending()[:-1], helper.make_node("MatMul", ["one", "secret"], ["rows"])], SIZES)
    outside = onnx.TensorProto(name="secret", data_type=onnx.TensorProto.FLOAT, dims=[1, DIM], data_location=1)
    tensor = outside.SerializeToString() + _field(13, OTHER_WAYS[way])
    model = onnx.load(file)
    graph = model.graph.SerializeToString() + _field(5, tensor)
    model.ClearField("graph")
    facts = json.loads(file.with_name(DESCRIPTION).read_text())
    file.write_bytes(model.SerializeToString() + b"\x3a" + _length(graph) + graph)
    write_description(file.parent, facts)
    with pytest.raises(Damaged, match="names other files with its weights"):
        levelfield.load(file)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _length(content) + content


def _length(content: bytes) -> bytes:
    low, high = len(content) % 128, len(content) // 128
    return bytes([low]) if not high else bytes([low | 128, high])


def test_onnxruntime_prints_nothing_and_reads_only_onnx(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content = file.read_bytes()
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(file.with_suffix(".ort"))
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(content, options)
    capfd.readouterr()
    exported(file, [helper.make_node("\x1b[31mnothing", ["images"], ["rows"])], {})
    unknown = file.read_bytes()
    for bad in (unknown, unknown.replace(b"nothing", b"\x80\x81othing"[:7]), file.with_suffix(".ort").read_bytes()):
        with pytest.raises(Damaged, match="is not a valid ONNX file"):
            Network(bad, file)
    assert capfd.readouterr() == ("", "")


COLOUR = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
VIEWS = {
    "bicubic": make_view(image=32, **COLOUR),
    "crop": make_view(image=33, crop=0.875, **COLOUR),
    "bilinear": make_view(image=32, crop=0.9, interpolation="bilinear", **COLOUR),
    "nearest": make_view(image=24, interpolation="nearest", **COLOUR),
    "steps": steps_view([{"resize": 47}, {"centre": 32}], image=32, **COLOUR),
    "both sides": steps_view([{"resize": [41, 36]}, {"centre": 31}], image=31, **COLOUR),
}


@pytest.mark.parametrize("name", VIEWS)
def test_pixels_are_those_of_the_torch_view_to_the_bit(name: str) -> None:
    for height, width in ((32, 32), (47, 61), (120, 33), (5, 90), (1, 1)):
        colours = numpy_stream(0, height, width).integers(0, 256, size=(height, width, 3), dtype=np.uint8)
        image = Image.fromarray(colours)
        found = pixels(VIEWS[name], image)
        assert found.dtype == np.float32
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, VIEWS[name](image).numpy())


def test_a_step_with_random_numbers_is_refused() -> None:
    with pytest.raises(BadInput, match="the step 'crop'"):
        check_view(steps_view([{"resize": 40}, {"crop": 32}], image=32, **COLOUR))
