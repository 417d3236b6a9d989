"""Compute a teacher's outputs on the student's training images (seidenschwarz2021 C.4) before the student trains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch

from levelfield.embedder import Model, load
from levelfield.errors import BadInput, BadSpecification
from levelfield.evaluation import joined
from levelfield.files.arrays import read_array
from levelfield.files.writing import write_whole
from levelfield.methods import Method
from levelfield.methods.refine.groups import Groups, cluster_groups
from levelfield.methods.student import class_logits
from levelfield.objectives.message_passing import MessagePassing
from levelfield.progress import Progress
from levelfield.registry import references_in
from levelfield.studies.runs.folder.method_file import load_method
from levelfield.studies.runs.folder.store import read_spec
from levelfield.studies.runs.inputs import RunInputs, inputs_for
from levelfield.studies.runs.joined.members import spec_of
from levelfield.studies.runs.spec import ENSEMBLE, Needed, RunSpec, described_in, needed_folder
from levelfield.trust import permitted, trusting

OUTPUTS = "teacher.npy"
_ROWS = 4096  # rows per computation of logits


def teach(method: Method, spec: RunSpec, inputs: RunInputs, folder: Path, progress: Progress) -> bool:
    """Give the method the outputs of its teacher, which are stored in `folder`; returns whether it wants any."""
    if method.wants is None:
        return False
    stored = folder / OUTPUTS
    if not stored.exists():
        scratch = folder / f".{OUTPUTS}.tmp"
        outputs = outputs_of(needed_folder(folder, spec.needs[0]), method.wants, spec, inputs, progress, scratch)
        write_whole(stored, lambda file: np.save(file, outputs))
        scratch.unlink(missing_ok=True)
    method.taught(read_array(stored))
    return True


@trusting()
def check_code(folder: Path) -> None:
    """Refuse, before training, a teacher that needs untrusted code."""
    for reference in references_in(spec_of(folder).model_dump(mode="json")):
        permitted(reference)


def outputs_of(
    folder: Path, wants: str, student: RunSpec, inputs: RunInputs, progress: Progress, scratch: Path | None = None
) -> np.ndarray:
    """The "rows" or class "logits" of the run in `folder` for the training images of a student on `inputs`.

    scratch: a file for the logits, instead of memory. Rows of joined runs are concatenated; of folds only the student's
    own is used.
    """
    needs = _joined_in(folder)
    if needs is None:
        return _of_one(folder, read_spec(folder), wants, inputs, progress, scratch)
    needed = [needed_folder(folder, need) for need in needs]
    members = [one for one in needed if _joined_in(one) is not None or read_spec(one).fold == student.fold]
    if len(members) != 1 and wants == "logits":
        raise BadInput(
            f"The teacher {folder} joins {len(members)} runs and has no common classifier: 'distill' needs a single "
            "run, 'imitate' and 'relational' do not."
        )
    outputs = [outputs_of(one, wants, student, inputs, progress, scratch) for one in members]
    return outputs[0] if len(outputs) == 1 else joined(outputs)


def _joined_in(folder: Path) -> tuple[Needed, ...] | None:
    """The members of a joined run, by a study or by `levelfield ensemble`; None if the run trained a network."""
    if (folder / "run.yaml").is_file():
        spec = read_spec(folder)
        return spec.needs if spec.joined else None
    members = described_in(folder, [ENSEMBLE])["members"]
    return tuple(Needed(name=each["folder"], identity=each["identity"]) for each in members)


@trusting()
def _of_one(
    folder: Path, spec: RunSpec, wants: str, inputs: RunInputs, progress: Progress, scratch: Path | None
) -> np.ndarray:
    theirs = inputs_for(spec, inputs.cache_folder, inputs.device)
    ours, others = ([some.catalog.digests[i] for i in some.fold.train] for some in (inputs, theirs))
    if ours != others:
        raise BadInput(
            f"The teacher {folder} was trained on {len(others):,} images and the student on {len(ours):,}: the images "
            "and their order must be the same. Use the same data, protocol and validation classes."
        )
    if not np.array_equal(theirs.train_labels, inputs.train_labels):
        raise BadInput(f"The teacher {folder} was trained on the same images with other class labels than the student.")
    method, model = load_method(folder, device=inputs.device), load(folder, device=inputs.device)
    assert isinstance(model, Model)  # not a joined run
    rows = theirs.embed(model.embedder, theirs.fold.train, progress, "teacher", coded=False)
    objective = method.objective
    if isinstance(objective, MessagePassing) and objective.network is not None:
        layout = method.layout or spec.conditions.layout
        size = max(1, layout.per_class)
        groups = cluster_groups(theirs.train_labels, chunks=layout.batch_size // size, size=size, seed=spec.draws)
        return after_messages(objective, rows, groups, wants, scratch)
    if wants == "rows":
        return rows

    @torch.no_grad()
    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for positions in np.split(np.arange(len(rows)), range(_ROWS, len(rows), _ROWS)):
            yield positions, class_logits(objective, torch.from_numpy(rows[positions]).to(inputs.device)).cpu().numpy()

    try:
        return _collected(len(rows), blocks(), scratch)
    except BadSpecification as error:
        raise BadInput(f"The run {folder} cannot be a teacher: {error}") from error


def after_messages(
    objective: MessagePassing, rows: np.ndarray, groups: Groups, wants: str, scratch: Path | None = None
) -> np.ndarray:
    """Rows, or class logits, after message passing in groups like training batches; first occurrence of each row."""
    device = next(objective.parameters()).device

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        done = np.zeros(len(rows), bool)
        for members in groups.members:
            refined, logits = objective.lesson(torch.from_numpy(rows[members]).to(device))
            positions, first = np.unique(members, return_index=True)
            new = ~done[positions]
            done[positions] = True
            yield positions[new], (refined if wants == "rows" else logits).cpu().numpy()[first[new]]
        assert done.all()

    return _collected(len(rows), blocks(), scratch if wants == "logits" else None)


def _collected(count: int, blocks: Iterable[tuple[np.ndarray, np.ndarray]], scratch: Path | None) -> np.ndarray:
    """The outputs of `count` images, from positions and outputs of each block, in memory or in the file `scratch`."""
    result: np.ndarray | None = None
    for positions, outputs in blocks:
        if result is None:
            shape = (count, outputs.shape[1])
            if scratch is None:
                result = np.empty(shape, outputs.dtype)
            else:
                result = np.lib.format.open_memmap(scratch, mode="w+", dtype=outputs.dtype, shape=shape)
        result[positions] = outputs
    assert result is not None
    return result
