"""The threshold that a run's validation classes choose, where that needs no image to be decoded again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from levelfield import embedder as networks
from levelfield.embedder.devices import requested, usable
from levelfield.errors import LevelfieldError
from levelfield.evaluation import same_or_not
from levelfield.progress import SILENT
from levelfield.studies.runs.finished import how_refined
from levelfield.studies.runs.folder.store import spec_at_its_place
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.joined.members import spec_of
from levelfield.trust import trusting


@trusting()
def validation_threshold(folder: Path) -> float | None:
    """The cosine with equal error rates on the validation classes of the run in `folder`.

    None: the run has no validation classes, its images are gone, their features are not in the cache, or the run's
    model alone cannot repeat its embeddings. The test classes choose then, and the page says so.
    """
    try:
        device = usable(requested())
        inputs = inputs_for(spec_at_its_place(folder, spec_of(folder)), None, device)
        chosen = inputs.fold.validation
        if not len(chosen) or not inputs.is_cached or how_refined(folder):
            return None
        if inputs.missing(chosen, inputs.views[1], 0):
            return None
        model = networks.load(folder, device=device)
        if not isinstance(model, networks.Model):
            return None
        rows = inputs.embed(model.embedder, chosen, SILENT)
        names = np.array(inputs.catalog.class_names)[inputs.catalog.labels[chosen]]
        return same_or_not(rows, names, ci=None).value
    except LevelfieldError:
        return None
