"""The recipe for somebody's own photos within a time limit: what trains, at which size, and how many trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from levelfield import methods
from levelfield.progress import SILENT, Progress
from levelfield.studies import Study, resolve
from levelfield.studies.planning.cost_measured import estimate
from levelfield.studies.runs.run import Options

# While a part of the network trains, validation scores first fall and pass their start only after about 100 steps
# (docs/own-photos.md), so runs are more patient than with a frozen network, and rates are lower.
TRAINING_THE_NETWORK = {
    "conditions.lr": "0.0003",
    "conditions.trunk_lr": "0.0002",
    "conditions.warmup": "30",
    "conditions.validate_every": "20",
    "conditions.patience": "6",
}


@dataclass(frozen=True)
class Recipe:
    """One step of the ladder. image: None keeps the size that fits the photos."""

    cut: str
    image: int | None
    views: int
    trials: int

    def overrides(self, fixed: Set[str]) -> list[str]:
        """As overrides of the study; what the user set stays."""
        chosen = {"conditions.cut": self.cut}
        if self.cut != "frozen":
            chosen |= TRAINING_THE_NETWORK
        if self.views > 1:
            chosen |= {"conditions.augment": "standard", "conditions.views": str(self.views)}
        if self.image is not None:
            chosen["conditions.image"] = str(self.image)
        return [f"{key}={value}" for key, value in chosen.items() if key not in fixed]

    @property
    def text(self) -> str:
        trunk = {"frozen": "the network stays as it is", "last-1": "the network's last stage trains"}
        parts = [trunk.get(self.cut, f"{self.cut} of the network trains")]
        parts += [f"images at {self.image} px"] if self.image is not None else []
        parts += [f"{self.views} augmented views of each image"] if self.views > 1 else []
        parts.append(f"{self.trials} trials of every method" if self.trials > 1 else "settings are not searched")
        return ", ".join(parts)


# the richest first; what each step is worth: docs/own-photos.md
LADDER = (
    Recipe("last-1", 224, 4, 16),
    Recipe("last-1", None, 4, 16),
    Recipe("last-1", None, 4, 8),
    Recipe("last-1", None, 4, 4),
    Recipe("frozen", None, 4, 8),
    Recipe("frozen", None, 1, 8),
    Recipe("frozen", None, 1, 4),
    Recipe("frozen", None, 1, 1),
)


@dataclass(frozen=True)
class Fitted:
    """The recipe that was chosen for a time limit, and the time that it is expected to take."""

    recipe: Recipe
    seconds: float
    fits: bool


def fit_recipe(
    study_of: Callable[[list[str]], Study],
    limit: float,
    *,
    fixed: Set[str],
    largest: int,
    jobs: int,
    options: Options,
    ladder: Sequence[Recipe] = LADDER,
    progress: Progress = SILENT,
) -> Fitted:
    """The richest recipe whose search and comparison are expected to take at most `limit` seconds.

    study_of: the study for the photos with some overrides. largest: the shorter side of the photos in pixels, above
    which no image is enlarged. One method is timed for each recipe: what trains costs the same for all of them.
    """
    possible = [one for one in ladder if one.image is None or one.image <= largest]
    stage = progress.stage("timing recipes", len(possible))
    fitted = Fitted(possible[-1], 0.0, fits=False)
    for recipe in possible:
        fitted = Fitted(recipe, expected := _expected(study_of(recipe.overrides(fixed)), recipe, jobs, options), True)
        if expected <= limit:
            return fitted
        stage.advance()
    return Fitted(fitted.recipe, fitted.seconds, fits=False)


def _expected(study: Study, recipe: Recipe, jobs: int, options: Options) -> float:
    """Seconds of the search and of the comparison after it, if no run ends early."""
    trained = [method for method in study.methods if methods.trains(method.name)]
    if not trained:
        return 0.0
    one = study.model_copy(update={"methods": (trained[0],), "seeds": study.seeds[:1]})
    resolved = resolve(one, options=options)
    with resolved.in_use():
        cost = estimate(one, resolved.runs, options=options, jobs=1)
    runs = len(trained) * (len(study.seeds) + (recipe.trials if recipe.trials > 1 else 0))
    return (cost.feature_seconds + runs * cost.rows[0].seconds) / jobs
