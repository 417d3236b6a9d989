"""Conditions: the settings shared by all methods. One pydantic model for YAML, command line and Python."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, field_validator, model_validator

from levelfield import batching as batchings
from levelfield.batch_layout import Layout, nearest_divisor
from levelfield.errors import LevelfieldError
from levelfield.settings import Count, Natural, NotNegative, Positive

if TYPE_CHECKING:
    from levelfield.methods import Method

BelowOne = Annotated[float, Field(ge=0, lt=1)]
Names = Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]
"""One name may stand alone."""


class Conditions(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """Settings shared by all methods of a study."""

    # trunk
    backbone: str = Field(
        "tf_efficientnet_lite0", description="any timm network by name, bninception, or `my_networks.py:function`"
    )
    weights: str | dict[str, str | None] | None = Field(
        None,
        description="a .safetensors or .pth file, or `random`; by default the backbone's own pretrained weights. "
        "One for each backbone: `{bninception: FILE}`",
    )
    cut: str = Field("frozen", description="frozen, last-N (the last N used stages train) or tuned (all train)")
    taps: Names = Field(("final",), description="stages whose outputs are concatenated")
    pooling: Literal["average", "max", "average+max", "grid", "token", "own"] = Field(
        "average",
        description="how a tap's map is pooled to a row; grid keeps the layout, token reads the class token (or the "
        "attention pooling) of a vision transformer, own is token for networks that have one and average for others",
    )
    normalize_taps: bool = Field(True, description="normalise each tap to unit length before concatenation")
    batch_norm: Literal["frozen", "statistics", "train"] = Field(
        "statistics", description="above the cut: all frozen, only the running statistics frozen, or trained"
    )
    channels_last: bool = Field(True, description="memory layout of the maps; faster on CPUs")
    # head
    head: Literal["linear", "dropped"] = Field(
        "linear",
        description="dropped: a linear head takes part in training, and the embedding is the features below it, as of "
        "projection heads (Chen et al. 2020); `dim` is their number",
    )
    dim: Annotated[int, Field(ge=1, le=65_536)] = Field(128, description="embedding dimension")
    head_init: Literal["random", "torch", "he_normal", "pca", "whitened"] = Field(
        "random",
        description="random (uniform, bias 0), torch (the start of nn.Linear: its bias is random, too), he_normal (fan "
        "out, bias 0), or the principal components of the training features: pca (half-whitened), whitened",
    )
    layer_norm: Literal["none", "plain", "affine"] = Field("none", description="before the head's linear map")
    output_norm: bool = Field(False, description="a layer norm without parameters after the head's linear map")
    dropout: BelowOne = Field(0.0, description="before the head's linear map")
    proxies: Literal["random", "class_means"] = Field(
        "random", description="initialisation of the objective's own parameters"
    )
    codes: Literal["float32", "binary"] = Field(
        "float32", description="compare numbers, or one bit per number (above 0 or not)"
    )
    # images
    image: Annotated[int, Field(ge=16, le=1024)] = Field(224, description="side of the square input image, in pixels")
    test_image: Annotated[int, Field(ge=16, le=1024)] | None = Field(
        None, description="side of the images that are evaluated, if another than that of the training images"
    )
    crop: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="share of the shorter side that is kept")
    augment: Literal["none", "light", "standard"] = Field(
        "none", description="light: rotation, scale, shift, colour; standard: random resized crop and flip"
    )
    train_view: tuple[dict[str, Any], ...] | None = Field(
        None, description="instead of augment: steps by name, e.g. [{resize: 256}, {crop: 224}, flip]"
    )
    test_view: tuple[dict[str, Any], ...] | None = Field(
        None, description="instead of crop: steps by name, e.g. [{resize: 256}, {centre: 224}]"
    )
    views: Natural = Field(1, description="training views stored per image; 0: a new one each time")
    cache: bool = Field(True, description="cache the output below the cut, once per view")
    # budget
    steps: Count = Field(500, description="training steps (batches) of every method")
    batch: str = Field("25x4", description="classes x images per class, or a plain number for random batches")
    batching: dict[str, dict[str, Any]] | None = Field(
        None, description="how batches are drawn, e.g. {spc: {replace: true}}; default: follows from `batch`"
    )
    batches_per_epoch: Count | None = Field(None, description="default: training images / batch size")
    accumulate: Count = Field(
        1,
        description="number of pieces in which a batch is embedded, if it does not fit into memory at once; with "
        "`batch_norm: train` (2 or more) the batch stays whole, and the network is computed block by block",
    )
    tuning_trials: Natural = Field(0, description="settings tried per method before this study")
    # optimiser
    optimiser: Literal["adam", "adamw", "rmsprop", "sgd", "radam"] = Field(
        "adamw",
        description="optimiser of all parameters; adamw and radam subtract the decay from the weights themselves",
    )
    lr: Positive = Field(
        3e-3, description="learning rate of the head; the objective's own parameters use multiples of it"
    )
    rates: Literal["relative", "published"] = Field(
        "relative",
        description="published: multiples of `lr` in presets and defaults are rescaled, so that own parameters keep "
        "their published rates",
    )
    trunk_lr: Positive = Field(3e-4, description="learning rate of the trunk above the cut")
    weight_decay: NotNegative = Field(1e-4, description="weight decay of network and head")
    decay: Literal["weights", "all", "network"] = Field(
        "weights",
        description="what else decays: weights (the objective's own ones, not its boundaries, biases and gains), all "
        "of its own parameters, or network (none of them)",
    )
    momentum: BelowOne = Field(0.9, description="momentum of sgd and rmsprop")
    eps: Positive = Field(1e-8, description="added to the denominator of adam, adamw, radam and rmsprop")
    rmsprop_alpha: BelowOne = Field(0.99, description="share of the past in rmsprop's mean of squared gradients")
    rmsprop_alpha_decay: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="factor of rmsprop_alpha after each epoch (fehervari2019, structured clustering: 0.94)"
    )
    schedule: Literal["constant", "step", "cosine", "plateau"] = Field(
        "cosine", description="schedule of all learning rates"
    )
    warmup: Natural = Field(10, description="steps over which the learning rates rise from 0")
    trunk_warmup: Natural = Field(0, description="initial steps with a frozen trunk")
    step_every: Count = Field(1000, description="steps between drops of schedule 'step'")
    step_at: tuple[Count, ...] | None = Field(
        None, description="instead of step_every: the steps at which the learning rates drop"
    )
    step_factor: Annotated[float, Field(gt=0, le=1)] = Field(0.5, description="factor of a drop")
    plateau_patience: Count = Field(3, description="evaluations without improvement before a drop")
    clip: Positive | None = Field(None, description="maximum gradient norm")
    clip_value: Positive | None = Field(None, description="maximum absolute value of each number in a gradient")
    precision: Literal["float32", "tf32", "bf16", "fp16"] = Field(
        "float32",
        description="of the network above the cut, in training: float32 without TF32, tf32, bf16, or fp16 with scaled "
        "gradients; all but float32 and bf16 need an NVIDIA GPU",
    )
    # selection
    select: str = Field("budget", description="budget (the last step), or a metric evaluated on the validation classes")
    validate_every: Count = Field(
        100, description="steps between evaluations on the validation classes, and between those of `monitor`"
    )
    validate_start: bool = Field(
        False, description="also evaluate before the first step, so that the start can be selected"
    )
    min_delta: NotNegative = Field(
        0.0, description="minimum gain over the best value so far for a later step to be selected"
    )
    monitor: Literal["none", "test"] = Field(
        "none", description="test: record the first metric on training and test classes (not used for selection)"
    )
    patience: Count | str | None = Field(
        None, description="evaluations without improvement before training stops; or steps, e.g. '900 steps'"
    )
    start_share: BelowOne = Field(
        0.0,
        description="share of the start weights that is mixed into the trained network: the mean of both keeps what "
        "few images would make it forget (Wortsman et al. 2022)",
    )
    # machine
    threads: Annotated[int, Field(ge=1, le=1024)] = Field(1, description="threads per process")
    processes: Annotated[int, Field(ge=1, le=4096)] = Field(1, description="processes per run, which divide each batch")
    deterministic: bool = Field(False, description="on CUDA: only kernels that give the same bits again; slower")
    compile: bool = Field(False, description="torch.compile for the training steps of the trunk above the cut")

    @property
    def layout(self) -> Layout:
        return Layout.parse(self.batch)

    @property
    def pieces(self) -> int:
        """Pieces of a batch that are embedded one after another: one if BatchNorm needs all of its images at once."""
        return 1 if self.batch_norm == "train" and self.cut != "frozen" else self.accumulate

    @property
    def own_weights(self) -> str | None:
        """The weights of this backbone."""
        return self.weights.get(self.backbone) if isinstance(self.weights, dict) else self.weights

    def batches(self, method: Method) -> tuple[Layout, batchings.Choice]:
        """Layout and batching of a method: its own choice, or that of the conditions.

        The common batching applies only if both layouts are random or both have images per class.
        """
        layout = method.layout or self.layout
        common = self.batching if (layout.per_class > 0) == (self.layout.per_class > 0) else None
        return layout, batchings.Choice.of(common if method.batching is None else method.batching, layout)

    @property
    def tested_side(self) -> int:
        """Side of the images that are evaluated."""
        return self.test_image or self.image

    @property
    def patience_steps(self) -> int | None:
        """The patience in steps; None if it is a number of evaluations."""
        return int(self.patience.split()[0]) if isinstance(self.patience, str) else None

    @model_validator(mode="before")
    @classmethod
    def _selection_in_words(cls, value: Any) -> Any:
        """Translate `selection` (last, validation or best_on_test, as in papers) into other keys.

        Most papers used best_on_test. Here it selects nothing: the test classes are monitored (`monitor: test`), and
        the best test score is reported next to the regular score.
        """
        if not isinstance(value, dict) or "selection" not in value:
            return value
        rest = {key: entry for key, entry in value.items() if key != "selection"}
        selection, chosen = value["selection"], rest.get("select", "budget")
        if selection not in ("last", "validation", "best_on_test"):
            raise ValueError(f"selection is '{selection}'; it must be last, validation or best_on_test")
        if (selection == "validation") != (chosen != "budget"):
            wanted = "set select to a metric, e.g. map@r" if selection == "validation" else "leave select out"
            raise ValueError(f"selection: {selection} contradicts select: {chosen}; {wanted}")
        return rest | {"monitor": "test"} if selection == "best_on_test" else rest

    @field_validator("weights", mode="before")
    @classmethod
    def _backbones_have_their_dots(cls, value: object) -> object:
        """Join the keys that `conditions.weights.resnet50.tv_in1k=FILE` divides at the dots of a backbone's name."""
        by_backbone = _joined(value)
        if not all(isinstance(file, str | None) for file in by_backbone.values()):
            raise ValueError("must be a file or `random`, or one of them for each backbone: {bninception: FILE}")
        return by_backbone if isinstance(value, dict) else value

    @field_validator("patience", mode="before")
    @classmethod
    def _patience_is_readable(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        if value.strip().isdecimal():
            return int(value)
        if not re.fullmatch(r"[1-9]\d* steps", value):
            raise ValueError(f"invalid patience '{value}': use a number of evaluations, or steps such as '900 steps'")
        return value

    @field_validator("train_view", "test_view", mode="before")
    @classmethod
    def _steps_are_readable(cls, value: object) -> object:
        """Expand every step to {name: {setting: value}}."""
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise ValueError("expected a list of steps, e.g. [{resize: 256}, {centre: 224}]")

        from levelfield.data.views.named import parse_steps

        try:
            return tuple(step.plain for step in parse_steps(value))
        except LevelfieldError as error:
            raise ValueError(str(error).rstrip(".")) from error

    @field_validator("batching", mode="before")
    @classmethod
    def _batching_is_readable(cls, value: Any) -> Any:
        if value is None:
            return None

        try:
            chosen = batchings.Choice.of(value)
            chosen.check()
        except LevelfieldError as error:
            raise ValueError(str(error).rstrip(".")) from error
        if "samples_per_class" in chosen.settings:
            raise ValueError("samples_per_class follows from 'batch', e.g. batch: 25x4: leave it out")
        return {chosen.name: chosen.settings}

    @field_validator("batch", mode="before")
    @classmethod
    def _layout_is_readable(cls, value: object) -> str:
        return str(Layout.parse(str(value)))

    @field_validator("cut")
    @classmethod
    def _cut_is_known(cls, value: str) -> str:
        if not re.fullmatch(r"frozen|tuned|last-[1-9]\d*", value):
            raise ValueError(f"unknown cut '{value}': use frozen, last-1, last-2, ... or tuned")
        return value

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Conditions:
        if self.views == 0 and self.cache and self.cut != "tuned":
            raise ValueError("views: 0 (a fresh view each time) cannot be cached: set cache: false or views: 4")
        if self.head == "dropped" and self.select != "budget":
            raise ValueError(f"select: {self.select} would judge the head that is dropped: set select: budget")
        if self.tested_side != self.image and self.pooling == "grid":
            raise ValueError("pooling: grid needs one size of images: leave test_image out")
        if self.train_view is not None and self.augment != "none":
            raise ValueError("train_view replaces augment: leave augment out")
        if self.test_view is not None and self.crop != 1.0:
            raise ValueError("test_view replaces crop: leave crop out")
        if self.crop < 1:
            from levelfield.data.views.basic import LARGEST

            side = max(self.image, self.tested_side)
            if self.crop * LARGEST < side:
                least = f"{side / LARGEST:.3g}"
                raise ValueError(f"crop: {self.crop} of images of {side} pixels: it must be at least {least}")
        random = []
        for name, steps in (("train_view", self.train_view), ("test_view", self.test_view)):
            if steps is not None:
                from levelfield.data.views.named import final_side, is_random, parse_steps

                random += [name] if is_random(steps) else []
                wanted = "test_image" if name == "test_view" and self.test_image else "image"
                if (side := final_side(parse_steps(steps))) != getattr(self, wanted):
                    raise ValueError(f"{name} ends with {side} pixels, but {wanted} is {getattr(self, wanted)}")
        if "test_view" in random:
            raise ValueError("test_view must not be random: use only the steps resize and centre")
        if self.augment == "none" and self.views > 1 and "train_view" not in random:
            raise ValueError("views > 1 without augmentation gives equal views: set augment: light or views: 1")
        if self.schedule == "plateau" and self.select == "budget":
            raise ValueError("schedule: plateau needs validation: set select to a metric, e.g. map@r")
        if self.layout.batch_size % self.accumulate:
            raise ValueError(f"accumulate: {self.accumulate} does not divide the batch of {self.layout.batch_size}")
        if self.layout.batch_size % self.processes:
            raise ValueError(
                f"processes: {self.processes} does not divide the batch of {self.layout.batch_size} ({self.batch}); "
                f"the nearest that does is {nearest_divisor(self.layout.batch_size, self.processes)}"
            )
        return self


def _joined(value: object, name: str = "") -> dict[str, object]:
    """The entries of nested mappings by dotted keys."""
    if not isinstance(value, dict):
        return {name: value}
    below = [_joined(entry, f"{name}.{key}".lstrip(".")) for key, entry in value.items()]
    return {key: entry for each in below for key, entry in each.items()}
