"""`levelfield cluster check`: whether every node of a Ray cluster can do the runs of a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli.console import console, say
from levelfield.cli.options import DeviceOption, OutOption, RootOption, root_override
from levelfield.errors import LevelfieldError
from levelfield.wording import plural

if TYPE_CHECKING:
    from levelfield.studies.execution.cluster.nodes import Answer, NodeState

group = typer.Typer(no_args_is_help=True, help="Check a Ray cluster.")


@group.callback()
def _cluster() -> None:
    """Check a Ray cluster."""


@group.command(epilog="Example: levelfield cluster check HOST:6379 --study demo")
def check(
    address: Annotated[str, typer.Argument(help="HOST:PORT of the head, or auto: the cluster of this machine.")],
    study: Annotated[str | None, typer.Option("--study", help="Study whose data every node must have.")] = None,
    root: RootOption = None,
    out: OutOption = Path("runs"),
    device: DeviceOption = "cpu",
) -> None:
    """Show what each node has: versions, CPU, device, data, folder.

    One line per node. Exit code 1 if a node cannot do the runs.
    """
    from levelfield.distributed.ray_connection import connected
    from levelfield.studies.execution.cluster.nodes import Question, marked, survey
    from levelfield.studies.runs.machine import bits, unlike
    from levelfield.studies.specification.yaml_file import named_by, read_study
    from levelfield.trust import trust, trusted

    data = None
    if study is not None:
        trust(*named_by(study, []))
        data = read_study(study, root_override(root)).data
    with connected(address) as ray, marked(out.absolute()) as mark:
        answers = survey(ray, Question(data, mark, device, trusted(), Path.cwd()))
    for answer in answers:
        say(line(answer, with_data=data is not None))
    states = [answer.state for answer in answers if answer.state is not None]
    for difference in unlike([bits(one.described) for one in states]):
        say(f"Can differ in the last bits: {difference}.")
    if not all(one.sees_folder for one in states):
        console.print(f"Not every node sees {out.absolute()}: finished runs will be sent to this machine.")
    bad = [one for one in answers if one.state is None or one.state.no_data or one.state.no_device]
    if bad:
        raise LevelfieldError(f"{plural(len(bad), 'node', 'nodes')} of {len(answers)} cannot do the runs.")


def line(answer: Answer, *, with_data: bool) -> str:
    """What a node has, on one line."""
    node, state = answer.node, answer.state
    has = f"{node.name}: {node.cpus:g} cores, {node.memory / 1e9:.1f} GB" + (
        f", {node.gpus:g} GPU" if node.gpus else ""
    )
    if state is None:
        return f"{has}, UNUSABLE: {answer.error}"
    return ", ".join([has, *_facts(state, with_data)])


def _facts(state: NodeState, with_data: bool) -> list[str]:
    versions, machine = state.described["versions"], state.described["machine"]
    facts = [f"{name} {versions[name]}" for name in ("levelfield", "python", "torch")]
    facts.append(f"{machine['cpu']} {machine['capability']}")
    facts += [f"{name}={value}" for name, value in machine.get("settings", {}).items()]
    facts.append(f"NO DEVICE: {state.no_device}" if state.no_device else "device ok")
    if with_data:
        facts.append(f"NO DATA: {state.no_data}" if state.no_data else f"{state.images:,} images")
    facts.append("sees the output folder" if state.sees_folder else "does not see the output folder")
    return facts
