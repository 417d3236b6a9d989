"""Options that change the objective of a method: a memory of earlier batches, classes divided among processes, and
Matryoshka embeddings (Kusupati et al. 2022), in which the first k numbers of a row are an embedding, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from levelfield.errors import BadSpecification
from levelfield.methods._contract import Assembly, Batch, Method, Setting, option
from levelfield.methods._parameters import Group, own_groups, put_proxies
from levelfield.objectives import CrossBatchMemory, Objective, ShardedClasses
from levelfield.objectives._parts.start import StartRows
from levelfield.objectives._sharded import SHARDED
from levelfield.settings import check_names, check_settings


@option("memory", conflicts={"sharded": "the memory is compared with images, not with class vectors"})
def with_memory(assembly: Assembly, memory: Any) -> Assembly:
    """A cross-batch memory: `memory: true`, its size, or its settings."""

    def make_objective(*, size: int = 1024, start: int = 0) -> CrossBatchMemory:
        return CrossBatchMemory(assembly.make_objective(), dim=assembly.settings["dim"], size=size, start=start)

    chosen = {} if memory is True else memory if isinstance(memory, Mapping) else {"size": memory}
    check_settings("memory", chosen, make_objective)
    return replace(assembly, make_objective=lambda: make_objective(**chosen))


@option("sharded")
def with_sharded_classes(assembly: Assembly, setting: Any) -> Assembly:
    """Class vectors divided among processes: `sharded: true`, or its settings."""
    if assembly.name not in SHARDED:
        raise BadSpecification(
            f"The method '{assembly.name}' has no 'sharded': only {', '.join(SHARDED)} can divide their classes among "
            "processes."
        )
    if setting is not True and not isinstance(setting, Mapping):
        raise BadSpecification(f"sharded: {setting!r}; expected true, or a sample of the classes: {{sample: 0.1}}.")
    chosen = {} if setting is True else setting
    check_names("The setting 'sharded'", chosen, ["sample"])
    objective = ShardedClasses(assembly.name, ranks=assembly.ranks, **chosen, **assembly.settings)
    return replace(assembly, make_objective=lambda: objective)


def nested_dims(setting: Any, dim: int) -> tuple[int, ...]:
    """The sizes of `matryoshka: [16, 32, 64, 128]`, smallest first; the largest is the embedding's.

    >>> nested_dims([64, 16, 32], 64)
    (16, 32, 64)
    """
    numbers = setting if isinstance(setting, list | tuple) else None
    if not numbers or not all(isinstance(k, int) and not isinstance(k, bool) and k >= 1 for k in numbers):
        raise BadSpecification(f"matryoshka: {setting!r}; expected a list of sizes such as [16, 32, {max(dim, 33)}].")
    dims = tuple(sorted(set(numbers)))
    if dims[-1] != dim:
        raise BadSpecification(
            f"matryoshka: the largest size is {dims[-1]}, but embeddings have {dim} numbers: the largest must be {dim}"
            + (", since no loss would train the numbers after it." if dims[-1] < dim else ".")
        )
    return dims


class Matryoshka(Method):
    """The mean of an objective's losses on the first k numbers of each row, for several k with equal weights.

    Each k has an objective with its own parameters (proxies, boundaries) of that size. The miner chooses anew for each.

    by_size: an objective for each k; the largest is that of the whole rows.
    """

    def __init__(self, by_size: Mapping[int, Objective], **shared: Any) -> None:
        *smaller, whole = sorted(by_size)
        super().__init__(by_size[whole], **shared)
        self._sizes: tuple[int, ...] = (*smaller, whole)
        self.smaller: Sequence[Objective] = nn.ModuleList(by_size[k] for k in smaller)  # type: ignore[assignment]
        if self.norm_rows:
            raise BadSpecification(
                "'matryoshka' cannot be combined with an objective that normalises the rows of the head, such as "
                "'hist': the first numbers of a normalised row are not normalised."
            )
        if self.refinement is not None:
            raise BadSpecification("'matryoshka' and 'refine' cannot be combined: messages need whole embeddings.")

    def losses(self, rows: Tensor, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """The losses by size, each divided by the number of sizes: their sum is the mean."""
        roles, losses = self.used_roles(batch.roles) or None, {}
        for k, objective in self._each():
            loss = objective(rows[:, :k], batch.labels, roles=roles, generator=generator)
            losses[f"first {k}"] = loss / len(self._sizes)
        return losses

    def groups(self) -> list[Group]:
        """Own parameters of the whole rows under their usual names, those of smaller sizes with their size."""
        groups = super().groups()
        for k, objective in zip(self._sizes, self.smaller, strict=False):
            groups += [replace(group, name=f"{group.name}_first_{k}") for group in own_groups(objective)]
        return groups

    def start_from(self, start: StartRows) -> None:
        super().start_from(start)
        for k, objective in zip(self._sizes, self.smaller, strict=False):
            part = StartRows(start.rows[:, :k], start.labels)
            put_proxies(objective.class_vectors, part.unit.means())
            objective.start_from(part)

    def deviations(self, setting: Setting) -> dict[str, Any]:
        declared = super().deviations(setting)
        if learned := sum(objective.learned_buffers for _, objective in self._each()):
            declared["learned_buffers"] = learned
        return declared | {"matryoshka": ", ".join(map(str, self._sizes))}

    def _each(self) -> Sequence[tuple[int, Objective]]:
        assert isinstance(self.objective, Objective)
        return list(zip(self._sizes, [*self.smaller, self.objective], strict=True))


@option(
    "matryoshka",
    kind=Matryoshka,
    conflicts={"memory": "the memory holds whole embeddings", "sharded": "each size has its own class vectors"},
)
def with_sizes(assembly: Assembly, sizes: Any) -> Assembly:
    """One objective per size. The largest is created first, so that it starts like that of the plain method."""
    dims = nested_dims(sizes, assembly.settings["dim"])
    return replace(
        assembly,
        make_objective=lambda: {k: assembly.make_objective(dim=k) for k in reversed(dims)},
        make_method=Matryoshka,
    )
