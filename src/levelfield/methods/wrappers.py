"""Options that change the objective of a method: a memory of earlier batches, and classes divided among processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from levelfield.errors import BadSpecification
from levelfield.methods._contract import Assembly, option
from levelfield.objectives import CrossBatchMemory, ShardedClasses
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
