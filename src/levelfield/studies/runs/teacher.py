"""Compute a teacher's outputs on the student's training images (seidenschwarz2021 C.4) before the student trains."""

from __future__ import annotations

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
    if method.teacher_output is None:
        return False
    stored = folder / OUTPUTS
    if not stored.exists():
        outputs = outputs_of(needed_folder(folder, spec.needs[0]), method.teacher_output, spec, inputs, progress)
        write_whole(stored, lambda file: np.save(file, outputs))
    method.receive_teacher(read_array(stored))
    return True


@trusting()
def check_code(folder: Path) -> None:
    """Refuse, before training, a teacher that needs untrusted code."""
    for reference in references_in(spec_of(folder).model_dump(mode="json")):
        permitted(reference)


def outputs_of(folder: Path, output: str, student: RunSpec, inputs: RunInputs, progress: Progress) -> np.ndarray:
    """The "rows" or class "logits" of the run in `folder` for the training images of a student on `inputs`.

    Rows of joined runs are concatenated; of folds only the student's own is used.
    """
    needs = _joined_in(folder)
    if needs is None:
        return _of_one(folder, read_spec(folder), output, inputs, progress)
    needed = [needed_folder(folder, need) for need in needs]
    members = [run for run in needed if _joined_in(run) is not None or read_spec(run).fold == student.fold]
    if len(members) != 1 and output == "logits":
        raise BadInput(
            f"The teacher {folder} joins {len(members)} runs and has no common classifier: 'distill' needs a single "
            "run, 'imitate' and 'relational' do not."
        )
    outputs = [outputs_of(run, output, student, inputs, progress) for run in members]
    return outputs[0] if len(outputs) == 1 else joined(outputs)


def _joined_in(folder: Path) -> tuple[Needed, ...] | None:
    """The members of a joined run, by a study or by `levelfield ensemble`; None if the run trained a network."""
    if (folder / "run.yaml").is_file():
        spec = read_spec(folder)
        return spec.needs if spec.joined else None
    members = described_in(folder, [ENSEMBLE])["members"]
    return tuple(Needed(name=each["folder"], identity=each["identity"]) for each in members)


@trusting()
def _of_one(folder: Path, spec: RunSpec, output: str, inputs: RunInputs, progress: Progress) -> np.ndarray:
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
        chunks = layout.batch_size // size
        groups = cluster_groups(theirs.train_labels, chunks=chunks, size=size, seed=spec.training_seed)
        return after_messages(objective, rows, groups, output)
    if output == "rows":
        return rows
    try:
        with torch.no_grad():
            blocks = (block.to(inputs.device) for block in torch.from_numpy(rows).split(_ROWS))
            return np.concatenate([class_logits(objective, block).cpu().numpy() for block in blocks])
    except BadSpecification as error:
        raise BadInput(f"The run {folder} cannot be a teacher: {error}") from error


def after_messages(objective: MessagePassing, rows: np.ndarray, groups: Groups, output: str) -> np.ndarray:
    """Rows, or class logits, after message passing in groups like training batches; first occurrence of each row."""
    device = next(objective.parameters()).device
    outputs: np.ndarray | None = None
    done = np.zeros(len(rows), bool)
    for members in groups.members:
        refined, logits = (part.cpu().numpy() for part in objective.lesson(torch.from_numpy(rows[members]).to(device)))
        lesson = refined if output == "rows" else logits
        if outputs is None:
            outputs = np.empty((len(rows), lesson.shape[1]), lesson.dtype)
        positions, first = np.unique(members, return_index=True)
        new = ~done[positions]
        outputs[positions[new]] = lesson[first[new]]
        done[positions] = True
    assert outputs is not None
    assert done.all()
    return outputs
