"""Choice of pairs for pair objectives: given, from roles, mined, or the first two rows of each class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from levelfield.errors import BadInput
from levelfield.geometry import Geometry
from levelfield.labels import on_host, positive_pairs, to_device
from levelfield.miners import Tuples
from levelfield.objectives._contract import LossInputs, Objective
from levelfield.objectives._inputs import check_rows

Form = Literal["all", "sampled", "pairs"]


def chosen_pairs(objective: Objective, geometry: Geometry, inputs: LossInputs, form: Form) -> Tensor | None:
    """The given, mined or default pairs (N, 2); None for the form `all`, which does not list pairs."""
    if form == "all":
        if inputs.tuples is not None:
            raise BadInput(f"Objective '{objective.facts.name}' with form 'all' uses every pair and takes no tuples.")
        return None
    if inputs.tuples is None and inputs.roles is not None:
        return pairs_of_roles(inputs, objective.facts.name)
    if form == "pairs" and inputs.tuples is None:
        return first_pairs(inputs.labels)
    tuples: Tuples | None = objective.chosen(geometry, inputs)
    if tuples is None:
        return positive_pairs(inputs.labels)
    pairs = tuples if isinstance(tuples, Tensor) else tuples[0]
    if not pairs.numel():
        return pairs.new_empty(0, 2)
    if pairs.dim() != 2 or pairs.shape[1] not in (2, 3):
        raise BadInput(
            f"Objective '{objective.facts.name}' needs pairs, a tensor of shape (N, 2), but got shape "
            f"{tuple(pairs.shape)}."
        )
    return pairs[:, :2]  # for triplets: anchor and positive


def pairs_of_roles(inputs: LossInputs, objective: str) -> Tensor:
    """Pairs (N, 2) from `roles`: {"anchor": rows, "positive": rows}, matched by position."""
    roles = inputs.roles
    if not isinstance(roles, Mapping) or set(roles) != {"anchor", "positive"}:
        what = sorted(roles) if isinstance(roles, Mapping) else type(roles).__name__
        raise BadInput(f'Objective \'{objective}\' got roles {what}; it needs {{"anchor": rows, "positive": rows}}.')
    ends = [torch.as_tensor(roles[name]).long() for name in ("anchor", "positive")]
    for name, rows in zip(("anchors", "positives"), ends, strict=True):
        check_rows(rows, len(inputs.labels), objective, name)
    if ends[0].shape != ends[1].shape or ends[0].dim() != 1:
        raise BadInput(f"Objective '{objective}' got {len(ends[0])} anchors but {len(ends[1])} positives.")
    return to_device(torch.stack(ends, 1), inputs.labels.device)


def first_pairs(labels: Tensor) -> Tensor:
    """The first two rows of each class as a pair (N, 2), in order of first occurrence of the classes.

    >>> first_pairs(torch.tensor([4, 2, 2, 4, 4, 7])).tolist()
    [[0, 3], [1, 2]]
    """
    ordered, order = on_host(labels).sort(stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = (first[:-1] & ~first[1:]).nonzero().squeeze(1)
    pairs = torch.stack((order[starts], order[starts + 1]), 1)
    return to_device(pairs[pairs[:, 0].argsort()], labels.device)
