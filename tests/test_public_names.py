"""Public names by package. Adding or removing a name is a decision: it changes this table.

The classes of objectives, miners and batchings are not listed: their registries list them.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable

import pytest

from levelfield import batching, miners, objectives
from levelfield.testing import CLASSES, DIM
from one_process import tool

NAMES = {
    "levelfield": """__version__ batching compare data embedder errors evaluate evaluation geometry library load methods
        miners objectives papers randomness reports shipping studies testing training trusting tuning""",
    "levelfield.objectives": """CrossBatchMemory LossInputs Objective ObjectiveFacts ShardedClasses as_objective create
        describe names register""",
    "levelfield.miners": """BaseMiner Miner MinerChoice MinerFacts Switched Tuples create describe names register
        resolve""",
    "levelfield.batching": """Batching Choice Fit Layout PlanReport Promise check_fit create describe fit_batch
        fits names register report""",
    "levelfield.geometry": "Geometry gather unit",
    "levelfield.evaluation": """ClassMeans Compacted Definition Density Division Evaluation Interval MetricFacts Rate
        Rates Representation Sample Shards Signature Threshold Unknowns alignment class_spectra class_spectrum compact
        create density describe evaluate in_processes joined kmeans names on_ray paired_differences parse
        register same_or_not spectral_decay spectrum split uniformity unknowns""",
    "levelfield.data": """Catalog CatalogFacts DatasetFacts Fold as_rgb check_images create default_cache_folder
        describe is_image names official protocols read_image register survey""",
    "levelfield.embedder": """BLOCK Backbone Embedder Ensemble FeatureCache Head Model Rows Trunk backbones in_blocks
        lda load save_ensemble save_model start_at start_pca start_random""",
    "levelfield.methods": """Assembly Batch Deviation Group Inputs Method Setting TrainingFeatures create describe names
        option register""",
    "levelfield.training": "Conditions Divided Observer Pace TrainingState train",
    "levelfield.studies": """Leaderboard PlannedRun ResolvedStudy RunSpec Study execute_study gather parse_study plan
        read_study resolve""",
    "levelfield.reports": "Report as_csv as_markdown compare finish show with_published write_all",
    "levelfield.shipping": "Exported Index OnnxModel add_to_index build_index export load remembered",
    "levelfield.library": "FOLDER StudyFacts content copy describe name_of names path",
    "levelfield.papers": "presets published toy",
    "levelfield.testing": """CLASSES DIM Factory Finding LAWS Law LawBroken Verdict applicable broken_laws
        check_objective degenerate findings ordinary verdicts""",
    "levelfield.tuning": "Budget Judge SearchSettings Trial Tuned TuningProgress tune",
    "levelfield.randomness": "drawn_from isolated numpy_stream reseed seed_globals stream",
    "levelfield.errors": """BadInput BadSpecification CommandEnded Damaged LevelfieldError LostProcess MissingData
        MissingExtra NotTrusted RunFailed Unfair UnknownName UnreadableImage nearest suggestion unknown""",
}
PARTS: dict[str, Callable[[], list[type]]] = {
    "levelfield.objectives": lambda: [
        type(objectives.create(name, num_classes=CLASSES, dim=DIM)) for name in objectives.names()
    ],
    "levelfield.miners": lambda: [type(miners.create(name)) for name in miners.names()],
    "levelfield.batching": lambda: [
        kind for name in batching.names() if isinstance(kind := batching._registry.registry.get(name), type)
    ],
}


@pytest.mark.parametrize("room", NAMES)
def test_a_room_exports_what_this_table_and_its_registry_say(room: str) -> None:
    module = importlib.import_module(room)
    parts = [kind.__name__ for kind in PARTS[room]()] if room in PARTS else []
    listed, exported = {*NAMES[room].split(), *parts}, set(module.__all__)
    assert len(exported) == len(module.__all__)
    assert (exported - listed, listed - exported) == (set(), set()), "not in the table, and not exported"
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_every_room_of_the_front_door_is_in_the_table() -> None:
    front = importlib.import_module("levelfield")
    rooms = {f"levelfield.{name}" for name in front.__all__ if importlib.util.find_spec(f"levelfield.{name}")}
    assert rooms == set(NAMES) - {"levelfield"}


def test_the_index_and_the_imports_for_type_checkers_are_those_that_make_tables_writes() -> None:
    stale = [str(path) for path, text in tool("typed").written().items() if path.read_text(encoding="utf-8") != text]
    assert not stale, f"run `make tables`: {', '.join(stale)}"
