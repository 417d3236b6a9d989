"""The nodes of a cluster and the state of each: versions, CPU, device, data and output folder."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield import data as datasets
from levelfield.embedder.devices import usable
from levelfield.errors import BadInput, LevelfieldError
from levelfield.files.writing import temporary_path, write_text
from levelfield.studies.runs.machine import machine
from levelfield.studies.runs.run import versions
from levelfield.studies.specification.choices import Data
from levelfield.trust import as_trusted
from levelfield.wording import first_few, plural

LONGEST = 180.0  # seconds for a node to start Python and import PyTorch


@dataclass(frozen=True)
class Node:
    """A node and its resources; memory in bytes."""

    identity: str
    name: str
    cpus: float
    gpus: float
    memory: int


@dataclass(frozen=True)
class Mark:
    """A file with random content in a folder, by which a node knows whether it sees this folder."""

    path: Path
    content: str

    @property
    def is_seen(self) -> bool:
        """Whether this machine sees the file with this content."""
        try:
            return self.path.read_text(encoding="utf-8") == self.content
        except OSError:
            return False


@dataclass(frozen=True)
class NodeState:
    """What one node has. described: versions and machine, as in run.yaml. no_data, no_device: empty, or the reason."""

    described: dict[str, Any]
    sees_folder: bool
    images: int = 0
    no_data: str = ""
    no_device: str = ""


@dataclass(frozen=True)
class Answer:
    """The answer of a node; `error`: why it has no state."""

    node: Node
    state: NodeState | None
    error: str = ""


def nodes_of(ray: Any) -> list[Node]:
    """The nodes that are alive."""
    nodes = []
    for node in filter(lambda node: node["Alive"], ray.nodes()):
        has, name = node["Resources"], node.get("NodeManagerHostname") or node["NodeManagerAddress"]
        memory = int(has.get("memory", 0))
        nodes.append(Node(node["NodeID"], name, has.get("CPU", 0.0), has.get("GPU", 0.0), memory))
    return nodes


def pinned(node: str) -> Any:
    """The scheduling strategy of a task or actor that must be on one node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def inspect_node(
    data: Data | None, mark: Mark, device: str, trust: tuple[str, ...] | None, working_directory: Path
) -> NodeState:
    """What this machine has for the runs."""
    if working_directory.is_dir():
        os.chdir(working_directory)
    images, no_data, no_device = 0, "", ""
    if data is not None:
        settings = {key: value for key, value in data.settings.items() if key != "skip_unreadable"}
        try:
            with as_trusted(trust):
                images = len(datasets.create(data.name, **settings))
        except LevelfieldError as error:
            no_data = str(error)
    try:
        usable(device)
    except LevelfieldError as error:
        no_device = str(error)
    return NodeState({"versions": versions(), "machine": machine()}, mark.is_seen, images, no_data, no_device)


def survey(ray: Any, data: Data | None, mark: Mark, device: str, trust: tuple[str, ...] | None) -> list[Answer]:
    """Ask every node that can do runs. A node that is lost meanwhile is left out."""
    asked = []
    for node in (node for node in nodes_of(ray) if node.cpus):
        gpu = min(1.0, node.gpus) if device.startswith("cuda") else 0
        task = ray.remote(inspect_node).options(
            num_cpus=0, num_gpus=gpu, max_retries=1, scheduling_strategy=pinned(node.identity)
        )
        asked.append((node, task.remote(data, mark, device, trust, Path.cwd())))
    answers = [_answer(ray, node, promised) for node, promised in asked]
    alive = {node.identity for node in nodes_of(ray)}
    return [answer for answer in answers if answer.state is not None or answer.node.identity in alive]


def _answer(ray: Any, node: Node, promised: Any) -> Answer:
    try:
        return Answer(node, ray.get(promised, timeout=LONGEST))
    except ray.exceptions.GetTimeoutError:
        ray.cancel(promised, force=True)
        return Answer(node, None, f"it does not answer within {LONGEST:.0f} s")
    except ray.exceptions.RayTaskError as error:
        return Answer(node, None, f"{type(error.cause).__name__}: {error.cause}")
    except ray.exceptions.RayError as error:
        return Answer(node, None, first_line(error) or type(error).__name__)


def first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


@contextmanager
def marked(folder: Path) -> Iterator[Mark]:
    """Context with a mark in `folder`. The marks of killed drivers are removed with other temporary files."""
    mark = Mark(temporary_path(folder / "cluster"), secrets.token_hex(16))
    write_text(mark.path, mark.content)
    try:
        yield mark
    finally:
        mark.path.unlink(missing_ok=True)


def ready(answers: list[Answer]) -> list[NodeState]:
    """The states of all nodes. Refuses, before training, a node that cannot do the runs, in a message that names it."""
    lost = [answer for answer in answers if answer.state is None]
    if lost:
        raise BadInput(
            f"{_names(lost)} cannot run levelfield: {lost[0].error}. Install the same versions on every node; "
            "`levelfield cluster check` shows them."
        )
    states = [(answer, answer.state) for answer in answers if answer.state is not None]
    for reason, remedy in (
        ("no_data", "Make the data available there under the same path."),
        ("no_device", "Choose another --device."),
    ):
        if unready := [answer for answer, state in states if getattr(state, reason)]:
            raise BadInput(f"{_names(unready)}: {getattr(unready[0].state, reason)} {remedy}")
    here, there = versions()["levelfield"], {state.described["versions"]["levelfield"] for _, state in states}
    if there - {here}:
        raise BadInput(
            f"The nodes have levelfield {', '.join(sorted(there))}, this machine has {here}: install the same version "
            "everywhere."
        )
    return [state for _, state in states]


def _names(answers: list[Answer]) -> str:
    return f"{plural(len(answers), 'node', 'nodes')} ({first_few([answer.node.name for answer in answers])})"
