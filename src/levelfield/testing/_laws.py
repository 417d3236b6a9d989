"""Laws that every objective obeys. Each is a short function of a factory that raises AssertionError when broken."""

from __future__ import annotations

import copy
import io
import random
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from levelfield.objectives import Objective
from levelfield.objectives._inputs import LossInputs
from levelfield.randomness import stream
from levelfield.testing import _measuring as measuring
from levelfield.training.divided import Divided

Needs = Callable[[Objective], bool]
CONDITIONS: dict[
    measuring.Law, tuple[Needs, str]
] = {}  # what an objective needs for a law, and why it does not apply without


def law(needs: Needs = lambda objective: True, reason: str = "") -> Callable[[measuring.Law], measuring.Law]:
    """Decorator: add a law, in the order of this file."""

    def enter(entry: measuring.Law) -> measuring.Law:
        CONDITIONS[entry] = needs, reason
        return entry

    return enter


def _has_closed_form(objective: Objective) -> bool:
    """Whether the objective uses its closed form with these settings and this number of classes."""
    return objective.quick(LossInputs(*measuring.ordinary(), None, None, None, stream(0, "law"))) is not None


@law()
def loss_is_one_finite_number(factory: measuring.Factory) -> None:
    objective = measuring.make(factory)
    value, gradient = measuring.measure(objective, *measuring.ordinary())
    assert value.shape == (), f"the loss has shape {tuple(value.shape)}; expected a scalar"
    assert value.isfinite(), f"the loss is {value.item()}"
    assert gradient.isfinite().all(), "a gradient is not finite"
    assert gradient.abs().sum() > 0, "the gradient of an ordinary batch is 0 everywhere"


@law(
    lambda objective: len(objective.terms(*measuring.ordinary(), generator=stream(0, "law"))) > 1,
    "the loss has one term",
)
def terms_add_up_to_the_loss(factory: measuring.Factory) -> None:
    """The terms kept for the log add up too."""
    for name, (rows, labels) in {"ordinary": measuring.ordinary(), **measuring.layouts()}.items():
        objective, rows = measuring.make(factory, torch.float64), rows.double().requires_grad_()
        value = objective(rows, labels, generator=stream(0, "law"))
        shown = objective.logged_terms
        terms = objective.terms(rows, labels, generator=stream(0, "law"))
        measuring.close(
            torch.stack(list(terms.values())).sum(), value, f"batch '{name}': sum of the terms and loss differ"
        )
        assert set(shown) == set(terms), f"batch '{name}': `shown` has {sorted(shown)}, but `parts` has {sorted(terms)}"
        for term, number in shown.items():
            assert not number.requires_grad, f"batch '{name}': the reported term '{term}' requires a gradient"
            measuring.close(number, terms[term], f"batch '{name}': the reported term '{term}' has another value")


@law(_has_closed_form, "it has no closed form beside its definition")
def closed_form_is_the_definition(factory: measuring.Factory) -> None:
    """Compare value, gradient of the rows and gradients of the parameters, for every layout and dtype."""
    for dtype, rtol in ((torch.float64, 1e-8), (torch.float32, 1e-3)):
        for name, (rows, labels) in {"ordinary": measuring.ordinary(), **measuring.layouts()}.items():
            if (
                dtype == torch.float32 and name in measuring.degenerate()
            ):  # the direction between coincident rows is rounding
                continue
            objective, again = measuring.make(factory, dtype), rows.to(dtype, copy=True).requires_grad_()
            value, gradient = measuring.measure(objective, rows.to(dtype), labels)
            of_parameters = [parameter.grad for parameter in objective.parameters()]
            objective.zero_grad()
            plain = torch.stack(list(objective.terms(again, labels, generator=stream(0, "law")).values())).sum()
            plain.backward()
            defined = [parameter.grad for parameter in objective.parameters()]
            pairs = [(value, plain.detach()), (gradient, again.grad), *zip(of_parameters, defined, strict=True)]
            for quick, expected in pairs:
                if expected is not None:
                    assert quick is not None, f"batch '{name}': the closed form has no gradient for a parameter"
                    atol = rtol * max(1.0, float(expected.abs().max())) * 0.1
                    measuring.close(
                        quick, expected, f"batch '{name}' ({dtype}): the closed form differs", rtol=rtol, atol=atol
                    )


@law()
def gradient_is_the_derivative(factory: measuring.Factory) -> None:
    objective = measuring.make(factory, torch.float64)
    rows, labels = measuring.ordinary(dtype=torch.float64)
    names = [name for name, parameter in objective.named_parameters() if parameter.requires_grad]

    def loss(embeddings: Tensor, *values: Tensor) -> Tensor:
        parameters = dict(zip(names, values, strict=True))
        options = {"generator": stream(0, "law")}
        result: Tensor = torch.func.functional_call(objective, parameters, (embeddings, labels), options)
        return result

    parameters = [objective.get_parameter(name).detach().clone().requires_grad_() for name in names]
    many = sum(parameter.numel() for parameter in parameters) > 500  # along random directions, not one by one
    inputs = (rows.requires_grad_(), *parameters)
    assert torch.autograd.gradcheck(loss, inputs, atol=1e-6, fast_mode=many), "gradcheck failed"


@law()
def order_of_the_batch_is_irrelevant(factory: measuring.Factory) -> None:
    objective, rows, labels, value, gradient = measuring.without_chance(factory)
    order = torch.randperm(len(rows), generator=stream(0, "order"))
    shuffled, shuffled_gradient = measuring.measure(objective, rows[order], labels[order])
    measuring.close(shuffled, value, "the loss of the shuffled batch differs")
    measuring.close(shuffled_gradient, gradient[order], "a gradient of the shuffled batch differs")


@law()
def names_of_classes_are_irrelevant(factory: measuring.Factory) -> None:
    """Permute the labels 0..C-1 together with the objective's state per class."""
    objective, rows, labels, value, gradient = measuring.without_chance(factory)
    renamed = torch.cat((torch.tensor([2, 0, 3, 1]), torch.arange(measuring.CLASSES, measuring.classes_made_for())))
    other = copy.deepcopy(objective)
    with torch.no_grad():
        for by_class in measuring.per_class(other):
            by_class[renamed] = by_class.clone()
    other_value, other_gradient = measuring.measure(other, rows, renamed[labels])
    measuring.close(other_value, value, "the loss differs after renaming classes")
    measuring.close(other_gradient, gradient, "a gradient differs after renaming classes")


@law(lambda objective: not measuring.per_class(objective), "it has state per class, so labels must be 0 to C-1")
def labels_above_2_to_24_stay_apart(factory: measuring.Factory) -> None:
    """Labels that would merge as float32."""
    objective, rows, labels, value, _ = measuring.without_chance(factory)
    measuring.close(measuring.measure(objective, rows, labels + 2**25)[0], value, "large labels change the loss")
    measuring.close(measuring.measure(objective, rows, -(labels + 1))[0], value, "negative labels change the loss")


@law()
def degenerate_batches_are_finite(factory: measuring.Factory) -> None:
    faults: dict[str, list[str]] = {}
    first: BaseException | None = None
    for name, (rows, labels) in measuring.degenerate().items():
        for dtype in (torch.float32, torch.bfloat16):
            try:
                measuring.check_finite(measuring.make(factory), rows.to(dtype), labels)
            except (Exception, SystemExit) as error:  # check the other batches too
                first = first or error
                message = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
                faults.setdefault(message.strip().partition("\n")[0], []).append(f"'{name}' ({dtype})")
    if faults:
        summary = "; ".join(f"batch {', '.join(batches)}: {message}" for message, batches in faults.items())
        raise AssertionError(summary) from first


@law()
def float32_agrees_with_float64(factory: measuring.Factory) -> None:
    rows, labels = measuring.ordinary(dtype=torch.float32)
    value, gradient = measuring.measure(measuring.make(factory), rows, labels)
    exact, exact_gradient = measuring.measure(measuring.make(factory, torch.float64), rows.double(), labels)
    measuring.close(value.double(), exact, "the loss in float32 differs", rtol=1e-4, atol=1e-5)
    scale = float(exact_gradient.abs().max())
    measuring.close(gradient.double(), exact_gradient, "a gradient in float32 differs", rtol=1e-3, atol=1e-4 * scale)


@law()
def half_precision_is_computed_in_float32(factory: measuring.Factory) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        rows, labels = measuring.ordinary(dtype=dtype)
        value, gradient = measuring.measure(measuring.make(factory), rows, labels)
        exact, _ = measuring.measure(measuring.make(factory), rows.float(), labels)
        measuring.close(value.float(), exact, f"the loss of {dtype} rows differs from that of the same rows in float32")
        assert gradient.dtype == dtype, f"the gradient of {dtype} rows is {gradient.dtype}"


@law()
def a_row_that_is_not_a_number_is_not_hidden(factory: measuring.Factory) -> None:
    """With a NaN row, the loss is not finite or raises an error: ignoring the row would hide the fault."""
    for bad in (0, 1, 3):  # rows of different classes with positives
        rows, labels = measuring.ordinary()
        rows[bad, 1] = torch.nan
        try:
            value = measuring.make(factory)(rows.requires_grad_(), labels, generator=stream(0, "law"))
        except (Exception, SystemExit):  # an error does not hide the fault
            continue
        assert not value.isfinite(), "a row is NaN, but the loss is finite"


@law()
def autocast_changes_nothing(factory: measuring.Factory) -> None:
    rows, labels = measuring.ordinary()
    plain, _ = measuring.measure(measuring.make(factory), rows, labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value, _ = measuring.measure(measuring.make(factory), rows, labels)
    measuring.close(value, plain, "the loss differs under autocast")


@law()
def state_survives_save_and_load(factory: measuring.Factory) -> None:
    """After loading, the next two calls without a generator return the same losses."""
    rows, labels = measuring.ordinary()
    objective = measuring.make(factory)
    objective(rows, labels)
    with torch.no_grad():
        for parameter in objective.parameters():
            parameter.mul_(1.125)
    file = io.BytesIO()
    torch.save(objective.state_dict(), file)
    file.seek(0)
    loaded = measuring.make(factory)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(2):
        measuring.close(
            loaded(rows, labels), objective(rows, labels), "the loss differs after save and load", rtol=0, atol=0
        )


@law()
def same_generator_gives_the_same_loss(factory: measuring.Factory) -> None:
    rows, labels = measuring.ordinary()
    objective = measuring.make(factory)
    first, second = (measuring.measure(objective, rows, labels) for _ in range(2))
    measuring.close(first[0], second[0], "two calls with equal generators differ", rtol=0, atol=0)
    measuring.close(first[1], second[1], "gradients of two calls with equal generators differ", rtol=0, atol=0)


@law()
def no_global_random_number_is_drawn(factory: measuring.Factory) -> None:
    def states() -> tuple[bytes, str, str]:
        numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002 (looked at, not drawn from)
        return torch.get_rng_state().numpy().tobytes(), str(numpy_state), str(random.getstate())

    before = states()
    measuring.measure(measuring.make(factory), *measuring.ordinary())
    measuring.make(factory)(*measuring.ordinary())
    for name, old, new in zip(("torch", "numpy", "Python"), before, states(), strict=True):
        assert old == new, f"{name}'s global generator was used"


@law()
def inputs_are_not_written_to(factory: measuring.Factory) -> None:
    rows, labels = measuring.ordinary()
    rows_before, labels_before = rows.clone(), labels.clone()
    measuring.make(factory)(rows.requires_grad_(), labels).backward()
    assert torch.equal(rows, rows_before), "the embeddings were changed"
    assert torch.equal(labels, labels_before), "the labels were changed"


@law()
def backward_twice_gives_the_same_gradient(factory: measuring.Factory) -> None:
    rows, labels = measuring.ordinary()
    value = measuring.make(factory)(rows.requires_grad_(), labels)
    (first,) = torch.autograd.grad(value, rows, retain_graph=True)
    (second,) = torch.autograd.grad(value, rows)
    measuring.close(first, second, "the second backward differs", rtol=0, atol=0)


@law(lambda objective: objective.takes_weights, "it takes no weights")
def loss_is_linear_in_the_weights(factory: measuring.Factory) -> None:
    """Weights multiply an anchor's terms and do not change the divisor."""
    objective, rows, labels, plain, _ = measuring.without_chance(factory)
    ones = torch.ones(len(rows), dtype=torch.float64)
    some = torch.linspace(0, 3, len(rows), dtype=torch.float64)
    measuring.close(measuring.measure(objective, rows, labels, weights=ones)[0], plain, "weights of 1 change the loss")
    both = measuring.measure(objective, rows, labels, weights=ones + some)[0]
    measuring.close(
        both - measuring.measure(objective, rows, labels, weights=some)[0],
        plain,
        "the loss is not linear in the weights",
    )


@law(lambda objective: objective.separable, "it is not declared as a mean over independent samples")
def a_separable_loss_is_the_mean_of_its_parts(factory: measuring.Factory) -> None:
    objective, rows, labels, whole, _ = measuring.without_chance(factory)
    first, _ = measuring.measure(objective, rows[:5], labels[:5])
    second, _ = measuring.measure(objective, rows[5:], labels[5:])
    measuring.close((5 * first + 7 * second) / 12, whole, "the loss is declared separable but is not")


@law(lambda objective: any(True for _ in objective.parameters()), "it has no parameters")
def learning_rates_name_own_parameters(factory: measuring.Factory) -> None:
    objective = measuring.make(factory)
    wrong = set(objective.lr_multipliers()) - {name for name, _ in objective.named_parameters()}
    assert not wrong, f"lr_multipliers names {sorted(wrong)}, which are not parameters"


@law()
def a_divided_batch_has_the_gradients_of_the_whole(factory: measuring.Factory) -> None:
    """Embedded in pieces, in two passes: loss, and gradients of the network and of the objective's own parameters."""
    rows, labels = measuring.ordinary(dtype=torch.float64)
    results = []
    for pieces in (1, 5):  # of 12 rows: the pieces differ in size
        network, objective = nn.Linear(rows.shape[1], rows.shape[1]).double(), measuring.make(factory, torch.float64)
        with torch.no_grad():  # move rows a little, so that they stay in their classes
            noise = torch.randn(network.weight.shape, generator=stream(0, "network"))
            network.weight.copy_(torch.eye(rows.shape[1]) + 0.1 * noise)
            network.bias.zero_()
        divided = Divided(network, pieces=pieces)
        loss = objective(network(rows) if pieces == 1 else divided(rows), labels, generator=stream(0, "law"))
        loss.backward() if pieces == 1 else divided.backward(loss)
        results.append({"loss": loss.detach()})
        for name, parameter in nn.ModuleDict({"network": network, "objective": objective}).named_parameters():
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            results[-1][f"gradient of {name}"] = gradient
    for name, value in results[0].items():
        measuring.close(results[1][name], value, f"the {name} differs if the batch is embedded in pieces")


LAWS: list[measuring.Law] = list(CONDITIONS)
"""Every law, in the order in which `levelfield check` runs them."""
