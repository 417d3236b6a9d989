"""`levelfield check`: test any loss with the laws that all built-in losses pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield import objectives
from levelfield.cli.console import console, print_json
from levelfield.cli.options import JsonOption, keys_and_values, option, trust_named
from levelfield.errors import BadInput, LevelfieldError
from levelfield.wording import plural

if TYPE_CHECKING:
    from levelfield.testing import Verdict

_MARKS = {True: "holds", False: "BROKEN", None: "does not apply"}


def check(
    name: Annotated[str, typer.Argument(help="my_losses.py:MyLoss, an objective's name, or pml:CircleLoss.")],
    settings: Annotated[list[str] | None, typer.Argument(help="Settings, such as margin=0.1.")] = None,
    # the defaults are CLASSES and DIM of levelfield.testing, which a test checks
    num_classes: Annotated[
        int, option("--num-classes", "Number of classes the loss is built for; batches have 4.", min=4)
    ] = 4,
    dim: Annotated[int, option("--dim", "Dimensions of the embeddings.", min=2)] = 8,
    as_json: JsonOption = False,
) -> None:
    """Test a loss, yours or a built-in one, against every law.

    The laws cover gradients, order and names, degenerate batches, precision, state and randomness.
    The exit code is 1 if a law is broken.
    """
    values = keys_and_values(settings or [], kind="setting", example="margin=0.1")
    trust_named(name, values)

    from levelfield.randomness import isolated
    from levelfield.testing import raised_at, verdicts

    def make(**extra: Any) -> objectives.Objective:
        # a loss may draw its parameters from the global generator; they must be the same each time
        with isolated(0, "check"):
            return objectives.create(name, num_classes=num_classes, dim=dim, **{**values, **extra})

    try:
        make()
    except LevelfieldError:
        raise
    except Exception as error:  # user code may raise anything
        where = f" ({line})" if (line := raised_at(error)) else ""
        raise BadInput(f"Cannot create {name}: {type(error).__name__}: {error}{where}") from error
    checked = verdicts(make, classes=num_classes, dim=dim)
    broken = [verdict for verdict in checked if verdict.holds is False]
    if as_json:
        print_json({"objective": name, "laws": [verdict._asdict() for verdict in checked]})
    else:
        _show(name, checked)
    if broken:
        raise typer.Exit(1)


def _show(name: str, checked: list[Verdict]) -> None:
    """Print a table of the laws; an error that breaks several laws is printed once."""
    from levelfield.table import Table
    from levelfield.testing import findings, first_line

    rows = []
    broken = findings(checked)
    for laws, seen, where in broken:
        more = f"\nand {plural(len(laws) - 1, 'other law', 'other laws')}" if len(laws) > 1 else ""
        rows.append([laws[0].replace("_", " ") + more, _MARKS[False], "\n".join(filter(None, (seen, where)))])
    for verdict in checked:
        if verdict.holds is not False:
            rows.append([verdict.law.replace("_", " "), _MARKS[verdict.holds], first_line(verdict.seen)])
    Table(["law", "verdict", "observed"], rows, name).show(console)
    touched, apart = sum(len(finding.laws) for finding in broken), sum(verdict.holds is None for verdict in checked)
    if not broken:
        console.print(f"{len(checked) - apart} laws hold, {apart} {'does' if apart == 1 else 'do'} not apply.")
        return
    causes = f" by {plural(len(broken), 'error', 'errors')}" if len(broken) < touched else ""
    console.print(f"{touched} of {len(checked)} laws {'is' if touched == 1 else 'are'} broken{causes}.")
