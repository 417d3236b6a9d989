"""Several folds of the training classes, as in the reality check of metric learning."""

from __future__ import annotations

from levelfield.data.catalog import Catalog
from levelfield.data.division import Form, blocks, fold_of, halves, in_part, with_roles
from levelfield.data.protocols._registry import Fold, register
from levelfield.errors import BadInput, BadSpecification


@register(
    "mlrc",
    "Four folds of the training half: three blocks of its classes for training, one for validation; the second "
    "half for test (Musgrave et al. 2020).",
)
def mlrc(
    catalog: Catalog, *, validation: float = 0.0, folds: int = 4, form: Form = "kfold", reversed: bool = False
) -> list[Fold]:
    """reversed: one block for training and the others for validation, as stated in zheng2021."""
    if validation:
        raise BadSpecification("The protocol 'mlrc' validates on a fold of the training classes: remove `validation`.")
    train, test = halves(catalog, "mlrc")
    train = [*train, *in_part(catalog, "validation")]
    result = []
    for number, (rest, block) in enumerate(blocks(catalog, train, folds, form)):
        training, judging = (block, rest) if reversed else (rest, block)
        if min(len(training), len(judging)) < 2:
            count = f"{sum(map(len, train))} training classes; with {folds} folds some fold has fewer than 2"
            raise BadInput(
                f"'{catalog.name}' has {count}, and with one class every neighbour is correct. Use more classes or "
                "fewer folds."
            )
        result.append(with_roles(catalog, fold_of(f"mlrc-{number}", catalog, [training], test, 0.0, [judging])))
    return result
