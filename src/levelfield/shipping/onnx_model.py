"""`levelfield.load`: the model of a run, or an exported ONNX file, which is used without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from levelfield.data.decoders import decoders
from levelfield.data.images import Picture, listed, opened
from levelfield.embedder.devices import AUTO
from levelfield.errors import BadInput, Damaged
from levelfield.files.reading import MEGABYTE, read_bytes
from levelfield.progress import SILENT, Progress, Stage
from levelfield.shipping import description
from levelfield.shipping.onnx_network import Network
from levelfield.wording import Shown

if TYPE_CHECKING:
    from torch import nn

    from levelfield.embedder import Ensemble, Model

Rows = NDArray[np.float32]
SUFFIX = ".onnx"
_BLOCK = 16  # images at a time
_LARGEST = 2_000 * MEGABYTE  # an ONNX file cannot be larger
_TINY = 1e-12  # torch.nn.functional.normalize divides a shorter row by this


@dataclass(frozen=True, repr=False)
class OnnxModel(Shown):
    """An exported model with its test view. `about` holds the facts that its run stored, `checksum` that of its files,
    `measured` what the export measured. It is used like a `levelfield.embedder.Model`."""

    path: Path
    network: Network
    view: description.View
    dim: int
    codes: str
    weights: str
    about: Mapping[str, Any]
    checksum: str
    measured: Mapping[str, Any] | None = None

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "weights": self.weights, "dim": self.dim, "image": self.view.image}

    def embed(
        self,
        images: Picture | Sequence[Picture],
        *,
        normalize: bool = True,
        exact: bool = False,
        progress: Progress = SILENT,
    ) -> Rows:
        """The embeddings of images.

        Args:
            images: paths, PIL images or uint8 arrays (height, width, 3), one or many; also one array
                (images, height, width, 3).
            normalize: divide each row by its length.
            exact: fill the last block of 16 images, so that the bits of a row do not depend on the number of images.
            progress: gets one stage, whose steps are images (`levelfield.progress`).

        Returns:
            float32 (images, dim); one image gives one row.
        """
        pictures = listed(images)
        stage = progress.stage("embedding", len(pictures))
        rows = embedded(pictures, self.view, self.rows, self.dim, exact=exact, stage=stage)
        return unit(rows) if normalize else rows

    def rows(self, images: Rows) -> Rows:
        """Raw rows (images, dim) of normalised images (images, 3, side, side)."""
        return self.network.rows(images, self.dim)


def embedded(
    pictures: Sequence[Picture],
    view: description.View,
    rows_of: Callable[[Rows], Rows],
    dim: int,
    *,
    stage: Stage,
    exact: bool = False,
) -> Rows:
    """Raw rows of pictures, in blocks of 16. rows_of: normalised images to raw rows.

    Many images are decoded by threads, since worker processes need torch: the next block while one is computed.
    """

    def read(picture: Picture) -> Rows:
        return description.pixels(view, opened(picture, decoded=view.decoded))

    rows = np.empty((len(pictures), dim), dtype=np.float32)
    threads = decoders(len(pictures))
    with ThreadPoolExecutor(max(1, threads)) as readers:
        decoded: Callable[..., Iterator[Rows]] = readers.map if threads else map
        following = decoded(read, pictures[:_BLOCK])
        for start in range(0, len(pictures), _BLOCK):
            block = np.stack(list(following))
            following = decoded(read, pictures[start + _BLOCK : start + 2 * _BLOCK])
            missing = _BLOCK - len(block) if exact else 0
            filled = np.concatenate([block, np.repeat(block[-1:], missing, axis=0)]) if missing else block
            rows[start : start + _BLOCK] = rows_of(filled)[: len(block)]
            stage.advance(len(block))
    return rows


def load(folder: Path | str, *, device: str = "cpu", head: nn.Module | None = None) -> Model | Ensemble | OnnxModel:
    """The model in `folder`, ready to embed images: `load("runs/demo").embed(["a.jpg"])`.

    Nothing is downloaded: the folder holds every weight. Files whose checksum differs are refused. Code that the folder
    names is not run: a backbone from your own file needs `with levelfield.trusting(FILE):`.

    Args:
        folder: of a run, or of a study, meaning its best run (`runs/demo`, or `runs/demo/best`); or a file model.onnx
            of `levelfield export` (or its folder), which is used without importing torch.
        device: where the model computes, as torch names it: "cpu", "cuda:0"; "auto": CUDA, else MPS,
            else the CPU. An ONNX file computes on the CPU.
        head: needed only for a model with a custom head; its weights are read from the folder.

    Returns:
        A `Model`; of a run that joins several runs an `Ensemble`; of an ONNX file an `OnnxModel`. All have `embed`.
    """
    exported = Path(folder) / f"model{SUFFIX}"
    if exported.is_file() and not (Path(folder) / "model.yaml").exists():
        folder = exported
    if Path(folder).suffix.lower() != SUFFIX:
        from levelfield.embedder import load as load_run

        return load_run(folder, device=device, head=head)
    if device not in ("cpu", AUTO):
        raise BadInput(f"{folder} computes on the CPU, not on '{device}': leave out the device.")
    if head is not None:
        raise BadInput(f"{folder} holds the whole model: leave out the head.")
    return load_onnx(Path(folder))


def load_onnx(path: Path) -> OnnxModel:
    """The model in an exported file; refused if it or model.json beside it has changed."""
    if not path.is_file():
        raise BadInput(f"{path} does not exist: write it with `levelfield export RUN --to onnx --out DIR`.")
    content = read_bytes(path, most=_LARGEST)
    facts = description.read_description(path, content)
    view = description.view_of(facts, path)
    description.check_view(view)
    network = Network(content, path)
    _check_shapes(network, path, side=view.image, dim=facts["dim"])
    about = facts["about"] if isinstance(facts["about"], dict) else {}
    properties = (int(facts["dim"]), str(facts["codes"]), str(facts["weights"]))
    return OnnxModel(path, network, view, *properties, about, facts["checksum"], facts.get("measured"))


def _check_shapes(network: Network, path: Path, *, side: int, dim: int) -> None:
    """Refuse a network with another input or output than model.json says; a size left open is a name."""
    for name, wanted in ((description.INPUT, [3, side, side]), (description.OUTPUT, [dim])):
        sizes = network.shapes.get(name, [])[1:]
        fits = all(isinstance(size, str) or size == right for size, right in zip(sizes, wanted, strict=False))
        if len(sizes) != len(wanted) or not fits or len(network.shapes) != 2:
            raise Damaged(
                f"{path} does not have the input and output that {description.DESCRIPTION} beside it describes."
            )


def unit(rows: Rows) -> Rows:
    """Each row divided by its length; a zero row stays zero.

    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32))
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return np.asarray(rows / np.maximum(lengths, np.float32(_TINY)))
