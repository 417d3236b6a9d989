"""The trunk: a backbone divided at the cut and read at its taps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.embedder.devices import key_of
from levelfield.embedder.trunk.backbones import Backbone
from levelfield.embedder.trunk.blockwise import BATCH_NORM, Context, blocks_of, by_blocks
from levelfield.embedder.trunk.depthwise import with_quick_gradients
from levelfield.embedder.trunk.pooling import as_maps, pool, resolved, squares
from levelfield.embedder.trunk.stages import check_image, check_taps, divide, first_trained
from levelfield.errors import BadSpecification
from levelfield.geometry import tf32
from levelfield.settings import checked

_TOKEN = "token"  # the piece that makes the token of a vision transformer
Change = tuple[str, Callable[[Tensor], Tensor]]
"""A change of hidden states: the stage whose output changes, and the function."""


class Trunk(nn.Module):
    """Below the cut: frozen, computed once per view (`below`). Above it: trained (`above`).

    cut: "frozen", "last-N" (the last N stages that are used, and what follows them), "tuned".
    taps: stages that are read, in this order; "final" is what timm calls the features. Later stages are dropped.
    batch_norm, above the cut: "statistics" (runs on its stored statistics, scale and shift train), "frozen" (nothing
    trains), "train" (as in ordinary training).
    image: side of the images; needed for the width of a grid.

    >>> from levelfield.embedder import backbones
    >>> trunk = Trunk(backbones.create("resnet18", weights="random"), cut="last-1", taps=["layer2", "layer3"], image=64)
    >>> [tuple(part.shape) for part in trunk.below(torch.zeros(1, 3, 64, 64))], trunk.width
    ([(1, 128, 8, 8)], 384)
    """

    @checked
    def __init__(
        self,
        backbone: Backbone,
        *,
        cut: str,
        taps: Sequence[str] = ("final",),
        pooling: str = "average",
        normalize_taps: bool = True,
        channels_last: bool = True,
        batch_norm: Literal["frozen", "statistics", "train"] = "statistics",
        image: int | None = None,
    ) -> None:
        super().__init__()
        division = divide(backbone.network)
        pieces = division.pieces()
        order = [name for name, _ in pieces]
        self.backbone_name = backbone.name
        self.weights_digest = backbone.weights_digest
        self.cut, self.normalize_taps = cut, normalize_taps
        self.channels_last, self.batch_norm, self.image = channels_last, batch_norm, image
        self.taps = tuple(taps)
        self.blockwise: Context | None = None  # train with the graph of one block in memory at a time, see `by_blocks`
        self.counter = Counter()
        self._read = [order[-1] if tap == "final" else tap for tap in taps]  # without a final piece: the last stage
        check_taps(self._read, self.taps, (*division.stage_names, "final"), backbone.name)
        check_image(image, division.patch, backbone.name)
        self.pooling = resolved(pooling, division, self._read, backbone.name)
        self._used = order[: max(order.index(tap) for tap in self._read) + 1]
        stages = [name for name in self._used if name in division.stage_names]
        self._first = first_trained(cut, self._used, stages, backbone=backbone.name)
        self._prefix_tokens, self._channels = division.prefix_tokens, division.channels
        self._image = backbone.image if image is None else image
        kept = {_key(name): piece for name, piece in pieces if name in self._used}
        if self.pooling == "token" and order[-1] in self._read and division.token is not None:
            kept[_TOKEN] = division.token  # reads the last piece; trains with it
        self.pieces = copy.deepcopy(nn.ModuleDict(kept))
        above = {_key(name) for name in self._used[self._first :]} | ({_TOKEN} if cut != "frozen" else set())
        self._above_cut = [name for name in kept if name in above]
        self.requires_grad_(False)
        for name in self._above_cut:
            with_quick_gradients(self.pieces[name])
            self.pieces[name].requires_grad_(True)
        for norm in self._norms() if batch_norm == "frozen" else ():
            norm.requires_grad_(False)
        if channels_last:
            self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._compiled: Callable[..., Tensor] | None = None
        super().train(False)  # the part below the cut stays in eval mode

    def below(self, images: Tensor) -> tuple[Tensor, ...]:
        """images: (rows, 3, side, side) -> the tensors to store for training above the cut; without gradient.

        "frozen": the features themselves, (rows, width). "last-N": the map at the cut, then the maps of taps below it.
        "tuned": the images. Always in full precision, even under autocast, because it is stored.
        """
        if self.cut == "tuned":
            return (images,)
        with torch.no_grad(), torch.autocast(images.device.type, enabled=False), tf32(False):
            now, seen = self._run(images, {}, 0, self._first)
            if self.cut == "frozen":
                return (self._join(seen),)
            return (now, *(seen[name] for name in self._kept()))

    def above(self, *stored: Tensor, change: Change | None = None) -> Tensor:
        """The output of `below` -> features (rows, width): taps pooled, normalised and concatenated.

        change: a stage and a function, which is applied to everything that leaves the stage upwards: its map and the
        taps before it. The stage may also be "input" (the images, if all is tuned) or "features" (the result).
        """
        self.counter.add(len(stored[0]), changed=change is not None)
        if change is None:
            return self._compiled(self, *stored) if self._compiled and self.training else self._above(*stored)
        at, function = change
        if at not in self.depths:
            raise BadSpecification(
                f"Hidden states cannot be changed at '{at}' with cut '{self.cut}'; use one of {', '.join(self.depths)}."
            )
        if at == "features":
            return function(self._above(*stored))
        if at == "input":
            return self._above(function(stored[0]))
        return self._above(*stored, change=change)

    def compile_steps(self) -> None:
        """Compile what training steps call. What is stored or compared is computed as before, in eval mode."""
        self._compiled = torch.compile(Trunk._above)

    def _above(self, *stored: Tensor, change: Change | None = None) -> Tensor:
        if self.cut == "frozen":
            return stored[0]
        now, seen = stored[0], dict(zip(self._kept(), stored[1:], strict=True))
        if self._first and self._used[self._first - 1] in self._read:
            seen[self._used[self._first - 1]] = now
        split = self._first if change is None else self._used.index(change[0]) + 1
        now, seen = self._run(now, seen, self._first, split)
        if change is not None:
            now, seen = change[1](now), {name: change[1](maps) for name, maps in seen.items()}
        _, seen = self._run(now, seen, split, len(self._used))
        return self._join(seen)

    def maps(self, images: Tensor) -> list[Tensor]:
        """The map of each tap, then that of the last used stage: (rows, channels, height, width), before pooling."""
        last, seen = self._all_stages(images)
        outputs = [*(seen[name] for name in self._read), last]
        return [squares(each, prefix_tokens=self._prefix_tokens, channels=self._channels) for each in outputs]

    @cached_property
    def width(self) -> int:
        """Length of a feature row."""
        if self.pooling == "grid" and self.image is None:
            raise BadSpecification("The width of a grid depends on the image size; pass it: Trunk(..., image=64).")
        return self._join(self._all_stages(self._blank(self._image))[1]).shape[1]

    def cost(self, image: int) -> dict[str, int]:
        """Weights of the used stages, and multiplications and additions for one image of this side."""
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            self._join(self._all_stages(self._blank(image))[1])
        weights = sum(parameter.numel() for parameter in self.parameters())
        return {"weights": weights, "operations": counter.get_total_flops()}

    def stored_shapes(self, image: int) -> list[tuple[int, ...]]:
        """Shape of one row of each tensor that `below` returns for images of this side (float32)."""
        return [tuple(part.shape[1:]) for part in self.below(self._blank(image))]

    @property
    def key(self) -> str:
        """Everything that determines the output of `below`, as text."""
        if self.cut == "tuned":
            return "images"
        layout = "channels_last" if self.channels_last else "contiguous"
        if self.cut == "frozen":
            taps = "+".join(self._read)
            what = f"taps={taps} pooling={self.pooling} normalized={str(self.normalize_taps).lower()}"
        else:
            what = "+".join([f"maps={self._used[self._first - 1]}", *self._kept()])
        device = key_of(next(self.parameters()).device)
        return f"{self.backbone_name} weights={self.weights_digest} {what} {layout} {device}"

    @property
    def settings(self) -> dict[str, object]:
        """Everything needed to recreate this trunk except the weights."""
        return {
            "backbone": self.backbone_name,
            "weights_digest": self.weights_digest,
            "cut": self.cut,
            "taps": list(self.taps),
            "pooling": self.pooling,
            "normalize_taps": self.normalize_taps,
            "channels_last": self.channels_last,
            "batch_norm": self.batch_norm,
            "image": self.image,
        }

    @property
    def depths(self) -> tuple[str, ...]:
        """Where `change` can be applied: "input" if all is tuned, pieces above the cut, and the "features"."""
        if self.cut == "frozen":
            return ("features",)
        return (*(("input",) if self.cut == "tuned" else ()), *self._used[max(self._first - 1, 0) :], "features")

    @property
    def stages(self) -> int:
        """The number of used stages, which a cut counts."""
        return len([name for name in self._used if name not in ("entrance", "final")])

    @property
    def frozen_prefixes(self) -> tuple[str, ...]:
        """Prefixes in `state_dict` of everything below the cut."""
        return tuple(f"pieces.{name}." for name in self.pieces if name not in self._above_cut)

    def equals_below(self, other: Trunk) -> bool:
        """Whether two trunks have the same settings and the same weights below the cut."""
        if self.key != other.key or self.frozen_prefixes != other.frozen_prefixes:
            return False
        others = other.state_dict()
        weights = {name: value for name, value in self.state_dict().items() if name.startswith(self.frozen_prefixes)}
        return all(torch.equal(value, others[name]) for name, value in weights.items())

    @property
    def blocks(self) -> int:
        """Number of blocks above the cut, of which `blockwise` keeps one at a time in memory."""
        return sum(len(blocks_of(self.pieces[_key(name)])) for name in self._used[self._first :])

    def trainable(self) -> list[tuple[str, nn.Parameter]]:
        """Parameters above the cut, by name."""
        return [(name, parameter) for name, parameter in self.named_parameters() if parameter.requires_grad]

    def train(self, mode: bool = True) -> Trunk:
        """Like `nn.Module.train`, but frozen parts stay in eval mode, and BatchNorm follows `batch_norm`."""
        self.training = mode
        for name in self._above_cut:
            self.pieces[name].train(mode)
        for norm in self._norms() if self.batch_norm != "train" else ():
            norm.eval()
        return self

    def _norms(self) -> list[nn.Module]:
        pieces = [self.pieces[name] for name in self._above_cut]
        return [module for piece in pieces for module in piece.modules() if isinstance(module, BATCH_NORM)]

    def _all_stages(self, images: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Output of the last used stage and of each tap, in eval mode without gradient."""
        training = self.training
        self.eval()
        with torch.no_grad():
            outputs = self._run(images, {}, 0, len(self._used))
        self.train(training)
        return outputs

    def _run(self, now: Tensor, seen: dict[str, Tensor], start: int, stop: int) -> tuple[Tensor, dict[str, Tensor]]:
        seen = dict(seen)
        for name in self._used[start:stop]:
            piece, now = self.pieces[_key(name)], self._laid_out(now, images=name == self._used[0])
            now = by_blocks(piece, now, self.blockwise) if self.blockwise and torch.is_grad_enabled() else piece(now)
            if name in self._read:
                seen[name] = now
        return now, seen

    def _laid_out(self, maps: Tensor, *, images: bool = False) -> Tensor:
        """`maps` in the trunk's memory layout. A 1x1 map is 'contiguous' in both layouts, so strides are compared."""
        if not self.channels_last or maps.ndim != 4 or (self._channels == "NHWC" and not images):
            return maps.contiguous()
        wanted = torch.empty_like(maps, memory_format=torch.channels_last, device="meta").stride()
        return maps if maps.stride() == wanted else maps.clone(memory_format=torch.channels_last)

    def _join(self, seen: dict[str, Tensor]) -> Tensor:
        """Concatenate pooled taps, at unit length each: otherwise the tap with the largest values dominates."""
        pooled = [self._pooled(name, seen[name]) for name in self._read]
        if self.normalize_taps:
            pooled = [functional.normalize(rows, dim=1) for rows in pooled]
        return torch.cat(pooled, dim=1)

    def _pooled(self, name: str, output: Tensor) -> Tensor:
        if self.pooling != "token":
            maps = as_maps(output, prefix_tokens=self._prefix_tokens, channels=self._channels)
            return pool(self._laid_out(maps, images=True), self.pooling)
        if name == self._used[-1] and _TOKEN in self.pieces:
            return self.pieces[_TOKEN](output)  # type: ignore[no-any-return]
        return output[:, 0]

    def _kept(self) -> list[str]:
        """Taps below the cut, except the map at the cut itself."""
        return [name for name in self._used[: max(self._first - 1, 0)] if name in self._read]

    def _blank(self, image: int) -> Tensor:
        return torch.zeros(1, 3, image, image, device=next(self.parameters()).device)


class Counter:
    """Rows passed through a trunk above the cut, in training or not, and those whose hidden states were changed.

    A copy of a trunk shares the counter of the original.
    """

    def __init__(self) -> None:
        self.rows = self.changed = 0

    def add(self, rows: int, *, changed: bool) -> None:
        self.rows += rows
        self.changed += rows if changed else 0

    def __deepcopy__(self, memo: object) -> Counter:
        return self


def _key(name: str) -> str:
    """A module name without dots."""
    return name.replace(".", "_")
