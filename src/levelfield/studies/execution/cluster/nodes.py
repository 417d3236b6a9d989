"""The nodes of a cluster and the state of each: versions, CPU, device, data and output folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield import data as datasets
from levelfield.embedder.devices import usable
from levelfield.errors import BadInput, LevelfieldError
from levelfield.files.writing import is_alive, write_text
from levelfield.studies.execution.cluster.task import is_marked
from levelfield.studies.runs.run import described_machine, versions
from levelfield.studies.specification.choices import Data
from levelfield.trust import as_trusted
from levelfield.wording import first_few

LONGEST = 180.0  # seconds for a node to start Python and import PyTorch
_MARK = ".cluster"


@dataclass(frozen=True)
class Node:
    """A node, with what it has to give."""

    identity: str
    name: str
    cpus: float
    gpus: float
    memory: int


@dataclass(frozen=True)
class Question:
    """What a node is asked for."""

    data: Data | None = None
    mark: tuple[Path, str] | None = None
    device: str = "cpu"
    trust: tuple[str, ...] | None = None
    working_directory: Path | None = None


@dataclass(frozen=True)
class NodeState:
    """What one node has. Empty `no_...`: it has it."""

    described: dict[str, Any]
    """Versions and machine, as in run.yaml."""
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
    for node in ray.nodes():
        if node["Alive"]:
            has = node["Resources"]
            name = node.get("NodeManagerHostname") or node["NodeManagerAddress"]
            nodes.append(
                Node(node["NodeID"], name, has.get("CPU", 0.0), has.get("GPU", 0.0), int(has.get("memory", 0)))
            )
    return nodes


def inspect_node(question: Question) -> NodeState:
    """What this machine has for the runs."""
    if question.working_directory is not None and question.working_directory.is_dir():
        os.chdir(question.working_directory)
    images, no_data, no_device = 0, "", ""
    if question.data is not None:
        settings = {key: value for key, value in question.data.settings.items() if key != "skip_unreadable"}
        try:
            with as_trusted(question.trust):
                images = len(datasets.create(question.data.name, **settings))
        except LevelfieldError as error:
            no_data = str(error)
    try:
        usable(question.device)
    except LevelfieldError as error:
        no_device = str(error)
    return NodeState(
        described_machine(), question.mark is not None and is_marked(*question.mark), images, no_data, no_device
    )


def survey(ray: Any, question: Question) -> list[Answer]:
    """Ask every node that can do runs. A node that is lost meanwhile is left out."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    asked = []
    for node in (node for node in nodes_of(ray) if node.cpus):
        gpu = min(1.0, node.gpus) if question.device.startswith("cuda") else 0
        task = ray.remote(inspect_node).options(
            num_cpus=0, num_gpus=gpu, max_retries=1, scheduling_strategy=On(node.identity, soft=False)
        )
        asked.append((node, task.remote(question)))
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
        return Answer(node, None, next(iter(str(error).splitlines()), type(error).__name__))


@contextlib.contextmanager
def marked(folder: Path) -> Iterator[tuple[Path, str]]:
    """A file with a random content in `folder`, by which a node knows whether it sees this folder."""
    content, machine = secrets.token_hex(16), socket.gethostname()
    for left in folder.glob(f"{_MARK}~{machine}~*"):
        process = left.name.split("~")[2]
        if process.isdigit() and not is_alive(int(process)):  # a killed driver's
            left.unlink(missing_ok=True)
    path = folder / f"{_MARK}~{machine}~{os.getpid()}~{content[:8]}"
    write_text(path, content)
    try:
        yield path, content
    finally:
        path.unlink(missing_ok=True)


def refuse_unready(answers: list[Answer], *, needs_data: bool) -> None:
    """Refuse, before training, a cluster with a node that cannot do the runs: in one message, which names the nodes."""
    lost = [answer for answer in answers if answer.state is None]
    if lost:
        raise BadInput(
            f"{_names(lost)} cannot run levelfield: {lost[0].error}. Install the same versions on every node; "
            "`levelfield cluster check` shows them."
        )
    answered = [(answer, answer.state) for answer in answers if answer.state is not None]
    for what, remedy in (
        ("no_data", "Make the data available there under the same path, or use --ship-features."),
        ("no_device", "Choose another --device."),
    ):
        bad = [(answer, text) for answer, one in answered if (text := getattr(one, what))]
        if bad and (needs_data or what != "no_data"):
            raise BadInput(f"{_names([answer for answer, _ in bad])}: {bad[0][1]} {remedy}")
    theirs, own = {one.described["versions"]["levelfield"] for _, one in answered}, versions()["levelfield"]
    if theirs - {own}:
        raise BadInput(
            f"The nodes have levelfield {', '.join(sorted(theirs))}, this machine has {own}: install the same version "
            "everywhere."
        )


def _names(answers: list[Answer]) -> str:
    count = len(answers)
    return f"{count} node{'s' if count > 1 else ''} ({first_few([answer.node.name for answer in answers], ', ')})"
