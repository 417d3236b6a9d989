"""`levelfield cluster check`: whether every node of a Ray cluster can do the runs of a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli.console import console, say
from levelfield.cli.options import DeviceOption, OutOption, RootOption, option, root_override
from levelfield.errors import LevelfieldError
from levelfield.wording import plural

if TYPE_CHECKING:
    from levelfield.studies.execution.cluster.nodes import Answer

group = typer.Typer(no_args_is_help=True, help="Check a Ray cluster.")


@group.callback()
def _cluster() -> None:
    """Check a Ray cluster."""


@group.command(epilog="Example: levelfield cluster check HOST:6379 --study demo")
def check(
    address: Annotated[str, typer.Argument(help="HOST:PORT of the head, or auto: the cluster of this machine.")],
    study: Annotated[str | None, option("--study", "Study whose data every node must have.")] = None,
    root: RootOption = None,
    out: OutOption = Path("runs"),
    device: DeviceOption = "cpu",
) -> None:
    """Show what each node has: versions, CPU, device, data, folder.

    One line per node. Exit code 1 if a node cannot do the runs.
    """
    from levelfield.distributed.ray_connection import connected
    from levelfield.studies.execution.cluster.nodes import marked, survey
    from levelfield.studies.runs.machine import bits, unlike
    from levelfield.studies.specification.yaml_file import named_by, read_study
    from levelfield.trust import trust, trusted

    data = None
    if study is not None:
        trust(*named_by(study, []))
        data = read_study(study, root_override(root)).data
    with connected(address) as ray, marked(out.absolute()) as mark:
        answers = survey(ray, data, mark, device, trusted())
    for answer in answers:
        say(_line(answer, with_data=data is not None))
    states = [answer.state for answer in answers if answer.state is not None]
    for difference in unlike([bits(state.described) for state in states]):
        say(f"Can differ in the last bits: {difference}.")
    if not all(state.sees_folder for state in states):
        console.print(f"Not every node sees {out.absolute()}: finished runs will be sent to this machine.")
    bad = [each for each in answers if each.state is None or each.state.no_data or each.state.no_device]
    if bad:
        raise LevelfieldError(f"{plural(len(bad), 'node', 'nodes')} of {len(answers)} cannot do the runs.")


def _line(answer: Answer, *, with_data: bool) -> str:
    """What a node has, on one line."""
    node, state = answer.node, answer.state
    facts = [f"{node.name}: {node.cpus:g} cores", f"{node.memory / 1e9:.1f} GB"]
    if node.gpus:
        facts.append(f"{node.gpus:g} GPU")
    if state is None:
        return ", ".join([*facts, f"UNUSABLE: {answer.error}"])
    versions, machine = state.described["versions"], state.described["machine"]
    facts += [f"{name} {versions[name]}" for name in ("levelfield", "python", "torch")]
    facts.append(f"{machine['cpu']} {machine['capability']}")
    facts += [f"{name}={value}" for name, value in machine.get("settings", {}).items()]
    facts.append(f"NO DEVICE: {state.no_device}" if state.no_device else "device ok")
    if with_data:
        facts.append(f"NO DATA: {state.no_data}" if state.no_data else f"{state.images:,} images")
    facts.append("sees the output folder" if state.sees_folder else "does not see the output folder")
    return ", ".join(facts)
