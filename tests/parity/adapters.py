"""Table that maps a golden case to our call. It chooses no setting that the case does not state.

A loss needs no entry here if its settings are named like the case's `params`, its class vectors are parameters named
like the inputs, explicit tuples are passed as `tuples`, index lists as `roles={name: rows}`, and further results (such
as medoids) are attributes of the same name; `value_NAME` is the term NAME. All other losses are in ODD.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from golden_set import Case, Outputs
from torch import Tensor

from levelfield import batching, evaluation, miners, objectives
from levelfield.batching.coresets import Density, farthest_first, nearest_row, pick_probabilities, squared_distances
from levelfield.batching.matching import DistanceScorer, FrechetScorer
from levelfield.data.division import class_folds
from levelfield.embedder.head import Head, start_at
from levelfield.embedder.trunk.pooling import pool
from levelfield.errors import LevelfieldError
from levelfield.evaluation.metrics import clustering
from levelfield.evaluation.statistics.intervals import t_interval
from levelfield.geometry import Geometry, unit
from levelfield.miners.switch import switch_triplets

TUPLES = ("triplets", "pairs", "quadruplets")  # inputs that are explicit tuples
ROLES = ("support", "query", "anchors")  # inputs that say which rows play which part
# Keys that have one value only, so that there is nothing to set.
FIXED: dict[tuple[str, str], Any] = {
    ("normalized_softmax", "include_true"): True,
    ("proxy_nca_pp", "include_true"): True,
    ("softmax", "reduction"): "mean",
    ("proxy_triplet", "squared"): True,
    ("structured_clustering", "nmi"): "geometric",
    ("confidence_interval", "form"): "student_t",
    ("normalized_softmax_head", "weight_norm"): "none",
    ("normalized_softmax_head", "dropout"): 0.0,
    ("corruption", "border"): "symmetric",
    ("corruption", "order"): 1,
    ("frd", "offset"): 0.0,
    ("frd", "ddof"): 1,
    ("ddm", "weight"): 75.0,
    ("ddm", "doubled"): True,
    **{
        (what, key): value
        for what in ("mpn", "mpn_inference")
        for key, value in (
            ("attention_scale", "sqrt_head_dim"),
            ("head_batch_norm", True),
            ("normalise_input", True),
            ("ff_activation", "relu"),
        )
    },
    ("hist", "normalise"): True,
    ("hist", "negative_slope"): 0.1,
    ("hist", "bn_eps"): 1e-5,
}


class Unexpressed(Exception):
    """Nothing here has the behaviour that the case asks for."""


class UnknownKey(Exception):
    """The case has a key or an input that the adapter does not know: ignoring it would check something else."""


def settings(case: Case, takes: Iterable[str], *, elsewhere: Iterable[str] = ()) -> dict[str, Any]:
    """The case's params as settings of something that `takes` these; those `elsewhere` the adapter sees to itself."""
    takes, elsewhere, found = set(takes), set(elsewhere), {}
    for key, value in case.params.items():
        if key in elsewhere:
            continue
        if key in takes:
            found[key] = value
        elif (case.what, key) not in FIXED:
            raise UnknownKey(f"'{case.what}' has no setting '{key}'; it takes {', '.join(sorted(takes)) or 'none'}")
        elif value != FIXED[case.what, key]:
            raise Unexpressed(f"'{case.what}' has only {key} = {FIXED[case.what, key]!r}, the case asks for {value!r}")
    return found


def tensors(case: Case) -> dict[str, Tensor]:
    """The inputs, floating ones in the case's dtype."""
    dtype = getattr(torch, case.params.get("dtype", "float64"))
    found = {name: torch.from_numpy(case.arrays[name].copy()) for name in case.inputs}
    return {name: value.to(dtype) if value.is_floating_point() else value for name, value in found.items()}


def loss(case: Case) -> Iterator[tuple[str, Outputs]]:
    """Value, gradients and the rest, by the call and by the terms (the definition): both must be right."""
    odd = ODD.get(case.what, {})
    for way in ("call", "terms"):
        inputs = tensors(case)
        embeddings, labels = inputs.pop("embeddings").requires_grad_(), inputs.pop("labels")
        tuples = next((inputs.pop(name) for name in TUPLES if name in inputs), None)
        roles = {name: inputs.pop(name) for name in ROLES if name in inputs} or None
        takes = objectives.describe(case.what).defaults
        chosen = settings(case, takes, elsewhere=["dtype"])
        if "miner" in takes and "all" in objectives.describe(case.what).miners:
            chosen["miner"] = "all"  # a case without tuples is about everything
        if "beta" in inputs and "beta_per_class" in takes:
            chosen["beta_per_class"] = len(inputs["beta"]) > 1
        rows = max((len(value) for value in inputs.values()), default=1)  # what is left has its rows class by class
        num_classes = rows // case.params.get("centers_per_class", 1)
        objective = objectives.create(case.what, dim=embeddings.shape[1], num_classes=num_classes, **chosen)
        objective = objective.to(embeddings.dtype)
        with torch.no_grad():
            for name, value in inputs.items():
                parameter = dict(objective.named_parameters()).get(name)
                if parameter is None or parameter.shape != value.shape:
                    raise UnknownKey(f"'{case.what}' has no parameter '{name}' of shape {tuple(value.shape)}")
                parameter.copy_(value)
        terms = objective.terms(embeddings, labels, tuples=tuples, roles=roles)
        value = objective(embeddings, labels, tuples=tuples, roles=roles) if way == "call" else sum(terms.values())
        value.backward()
        answer = {"value": value, "grad_embeddings": embeddings.grad}
        answer |= {f"grad_{name}": objective.get_parameter(name).grad for name in inputs}
        answer |= {f"value_{name}": term for name, term in terms.items()}
        answer |= {name: getattr(objective, name) for name in case.right if hasattr(objective, name)}
        answer |= {name: read(objective, terms) for name, read in odd.items()}
        yield way, plain(answer)


def group_loss(case: Case) -> Outputs:
    """Its logits are an input, and ours has a classifier of its own: the arrays enter by the function underneath."""
    from levelfield.objectives.group_loss import group_loss_terms

    inputs = tensors(case)
    inputs["embeddings"].requires_grad_()
    inputs["logits"].requires_grad_()
    weights = settings(case, ["group_weight", "cross_entropy_weight"], elsewhere=["dtype", *GROUP_TERMS])
    chosen = {name: case.params[name] for name in GROUP_TERMS if name in case.params}
    found = group_loss_terms(*(inputs[name] for name in ("embeddings", "logits", "labels", "anchors")), **chosen)
    group, cross_entropy = found.group.mean(), found.cross_entropy.mean()
    value = weights["group_weight"] * group + weights["cross_entropy_weight"] * cross_entropy
    value.backward()
    answer = {"value": value, "value_group": group, "value_cross_entropy": cross_entropy}
    answer |= {"similarity": found.similarity, "probabilities": found.probabilities}
    return plain(answer | {f"grad_{name}": inputs[name].grad for name in ("embeddings", "logits")})


def hist(case: Case) -> Iterator[tuple[str, Outputs]]:
    """By the call and by the terms; what comes out on the way by the steps. Stored embeddings are z."""
    takes = objectives.describe("hist").defaults
    chosen = settings(case, takes, elsewhere=["classes", "part"])
    alone = case.params.get("part") == "distribution_loss"
    chosen |= {"layer_norm": False} | ({"lambda_s": 0.0} if alone else {})
    for way in ("call", "terms"):
        inputs = tensors(case)
        embeddings, labels = inputs.pop("embeddings").requires_grad_(), inputs.pop("labels")
        classes, dim = inputs["means"].shape
        objective: Any = objectives.create("hist", num_classes=classes, dim=dim, **chosen).double()
        if set(inputs) != {name for name, _ in objective.named_parameters()}:
            raise UnknownKey(f"'hist' has the parameters {[name for name, _ in objective.named_parameters()]}")
        objective.load_state_dict(objective.state_dict() | inputs)
        terms = objective.terms(embeddings, labels)
        value = objective(embeddings, labels) if way == "call" else sum(terms.values())
        value.backward()
        answer = {"value": value, "distribution_loss": terms["distribution"], "grad_embeddings": embeddings.grad}
        if not alone:
            answer["cross_entropy"] = terms["classification"] / objective.lambda_s
        answer |= objective.steps(embeddings, labels)._asdict()
        yield way, plain(answer | {f"grad_{name}": part.grad for name, part in objective.named_parameters()})


GROUP_TERMS = ("temperature", "iterations", "zero_diagonal", "eps")

# Outputs of a loss that are neither a term nor an attribute: how they are read from the objective and its terms.
ODD: dict[str, Mapping[str, Callable[[Any, dict[str, Tensor]], Tensor]]] = {
    "soft_triple": {"value_regularizer": lambda objective, terms: spread_of_centres(objective)}  # without tau
}


def spread_of_centres(objective: Any) -> Tensor:
    from levelfield.objectives.soft_triple import centre_spread

    shape = (objective.num_classes, objective.centers_per_class, -1)
    return centre_spread(unit(objective.centers).view(shape), reg_eps=objective.reg_eps)


def miner(case: Case) -> Outputs:
    """Tuples of a miner without chance, frequencies of the tuples of one with."""
    inputs = tensors(case)
    geometry = Geometry(inputs["embeddings"], normalize=case.params.get("normalize", True))
    takes = {*miners.describe(case.what).defaults, "switch"}
    ours = miners.create(case.what, **settings(case, takes, elsewhere=["normalize", "dtype"]))
    if any(name.startswith("prob_") for name in case.right):
        return drawn(case, ours, geometry, inputs["labels"])
    tuples = ours(geometry, inputs["labels"], generator=torch.Generator())
    if isinstance(tuples, tuple):
        return plain({"positive_pairs": tuples[0], "negative_pairs": tuples[1]})
    negative = torch.full((len(geometry.rows), len(geometry.rows)), -1)
    negative[tuples[:, 0], tuples[:, 1]] = tuples[:, 2]
    return plain({"triplets": tuples, "negative": negative})


CALLS = 1500


def drawn(case: Case, ours: miners.BaseMiner, geometry: Geometry, labels: Tensor) -> Outputs:
    """Frequencies of many draws; the stored probability where a frequency is within 5 standard errors of it."""
    n, generator = len(labels), torch.Generator().manual_seed(0)
    counts = torch.zeros(n, n, n, dtype=torch.float64)  # (anchor, positive, negative); pairs count as negative 0
    for _ in range(CALLS):
        tuples = ours(geometry, labels, generator=generator)
        counts[tuples[:, 0], tuples[:, 1], tuples[:, 2] if tuples.shape[1] == 3 else 0] += 1
    seen, pairs, switched = counts.sum((1, 2)), counts.sum(2), counts.diagonal().T
    answer = {"valid": (seen > 0).long(), "negatives": ((labels[:, None] != labels) & (seen > 0)[:, None]).long()}
    frequencies = {
        "prob_positive": (pairs, CALLS),
        "prob_negative": (counts.sum(1), CALLS),
        "prob_negative_given_positive": (counts, pairs[:, :, None]),
        "prob_switch": (switched.sum(1), CALLS),
        "prob_positive_switched": (pairs.diagonal().diag(), switched.sum(1, keepdim=True)),
        "prob_negative_switched": (switched, switched.sum(1, keepdim=True)),
    }
    if "fallback" in case.right:  # a negative outside the band is only drawn where there is none inside
        to_positive, to_negative = geometry.distance[:, :, None], geometry.distance[:, None, :]
        margin = case.params["margin"]
        beyond = to_negative >= to_positive + (torch.inf if margin is None else margin)
        answer["fallback"] = (((to_negative <= to_positive) | beyond) & (counts > 0)).any(2).long()
    if "triplets" in case.right:
        answer["triplets"] = counts.nonzero()
        frequencies["prob_triplet"] = counts[tuple(answer["triplets"].T)], counts.sum()
    for name in frequencies.keys() & case.right.keys():
        (often, calls), right = frequencies[name], torch.from_numpy(case.right[name]).double()
        calls = torch.as_tensor(calls).clamp_min(1)
        near = (often / calls - right).abs() <= 5 * (right * (1 - right) / calls).clamp_min(1e-12).sqrt()
        answer[name] = torch.where(near, right, often / calls)
    return plain(answer)


def switch(case: Case) -> Outputs:
    inputs = tensors(case)
    chosen = settings(case, ["switch", "positive"])
    return plain({"switched": switch_triplets(inputs["triplets"], inputs["own_class"], inputs["uniform"], **chosen)})


def head(case: Case) -> Outputs:
    """Pooling, head and unit length, as a method with this head has them. A `gain` belongs to a `weight_norm`."""
    chosen = settings(case, ["layer_norm", "affine", "eps", "use_bias", "l2", "pool"], elsewhere=["dtype", "gain"])
    inputs = tensors(case)
    given = inputs["feature_map" if "feature_map" in inputs else "features"].requires_grad_()
    rows = pool(given, chosen["pool"]) if "pool" in chosen else given
    norm = ("affine" if chosen["affine"] else "plain") if chosen["layer_norm"] else "none"
    ours = Head(rows.shape[1], len(inputs["weight"]), layer_norm=norm, bias=chosen["use_bias"]).to(rows.dtype)
    if isinstance(ours.norm, torch.nn.LayerNorm):
        ours.norm.eps = chosen["eps"]
    start_at(ours, inputs["weight"], inputs.get("bias", torch.zeros(len(inputs["weight"]))))
    embeddings = unit(ours(rows)) if chosen["l2"] else ours(rows)
    (embeddings * inputs["upstream"]).sum().backward()
    answer = {"embeddings": embeddings, "grad_features": given.grad, "grad_feature_map": given.grad}
    bias = ours.linear.bias
    return plain(answer | {"grad_weight": ours.linear.weight.grad, "grad_bias": None if bias is None else bias.grad})


RETRIEVAL = {"r_precision": "r_precision", "map_at_r": "map@r", "map": "map", "mrr": "mrr", "map_at_1000": "map@1000"}


def search(case: Case, metrics: list[str], also: Iterable[str]) -> evaluation.Evaluation:
    """Our evaluation of the case's embeddings, or of its queries in its gallery."""
    chosen = settings(case, ["distance", "ties", "lone", "reduction"], elsewhere=also)
    chosen["average"] = chosen.pop("reduction", "query")
    given = {name: case.arrays[name] for name in case.inputs}
    if "query" in given:
        given = {"embeddings": given.pop("query"), "labels": given.pop("query_labels"), **given}
    return evaluation.evaluate(**given, metrics=metrics, **chosen)


def retrieval(case: Case) -> Outputs:
    ks = case.params["ks"]
    at_k = [f"{kind}@{k}" for kind in ("recall", "precision") for k in ks]
    result = search(case, [*RETRIEVAL.values(), *at_k], ["ks"])
    answer: Outputs = {"n_queries": result.n_queries, "n_lone": result.n_lone}
    for prefix, values in (("", result), ("per_query_", result.per_query)):
        answer |= {f"{prefix}{name}": values[ours] for name, ours in RETRIEVAL.items()}
        for kind in ("recall", "precision"):
            answer |= {f"{prefix}{kind}_at_{k}": values[f"{kind}@{k}"] for k in ks}
            answer[f"{prefix}{kind}_at_k"] = np.stack([values[f"{kind}@{k}"] for k in ks])
    return answer


def map_at(case: Case) -> Outputs:
    cut = "c" if case.what == "map_at_c" else case.params["k"]
    form = {"relatives": "positives"}.get(case.params["form"], case.params["form"])  # the golden files' word
    name = f"map@{cut}[{form}]"
    return {"value": search(case, [name], ["form", "k"])[name]}


def clusters(case: Case) -> Outputs:
    settings(case, [])
    table = clustering.tabulate(case.arrays["labels"], case.arrays["clusters"])
    answer = {f"nmi_{form}": clustering.nmi(table, form=form) for form in ("arithmetic", "geometric", "min", "max")}
    cells, by_class, by_cluster = (
        int((sizes * (sizes - 1) // 2).sum()) for sizes in (table.cells, table.classes, table.clusters)
    )
    answer |= {"pair_precision": cells / max(by_cluster, 1), "pair_recall": cells / max(by_class, 1)}
    return answer | {"pair_f1": clustering.f1(table), "ari": clustering.ari(table), "ami": clustering.ami(table)}


def spectral_decay(case: Case) -> Iterator[tuple[str, Outputs]]:
    """By the function, and by the metric; rows as given, which is what evaluate hands over under euclidean."""
    chosen, rows = settings(case, ["drop_largest", "direction"]), case.arrays["embeddings"]
    spectrum = evaluation.spectrum(rows)
    yield "call", {"value": evaluation.spectral_decay(rows, **chosen), "spectrum": spectrum}
    form = {"uniform-spectrum": "forward", "spectrum-uniform": "reverse"}[chosen.get("direction", "uniform-spectrum")]
    name = f"rho[drop={chosen.get('drop_largest', 0)},{form}]"
    labels = np.zeros(len(rows), dtype=np.int64)
    found = evaluation.evaluate(rows, labels, metrics=[name], distance="euclidean")[name]
    yield "metric", {"value": found, "spectrum": spectrum}


def class_spectrum(case: Case) -> Outputs:
    return {
        "value": evaluation.class_spectrum(
            case.arrays["embeddings"], case.arrays["labels"], **settings(case, ["length"])
        )
    }


DENSITY = {"intra": "intra_distance", "inter": "inter_distance", "ratio": "density"}


def density(case: Case) -> Iterator[tuple[str, Outputs]]:
    chosen, arrays = settings(case, ["distance"]), (case.arrays["embeddings"], case.arrays["labels"])
    yield "call", evaluation.density(*arrays, **chosen)._asdict()
    found = evaluation.evaluate(*arrays, metrics=DENSITY.values(), **chosen)
    yield "metric", {name: found[ours] for name, ours in DENSITY.items()}


def alignment_uniformity(case: Case) -> Iterator[tuple[str, Outputs]]:
    chosen, arrays = settings(case, ["alpha", "t"]), (case.arrays["embeddings"], case.arrays["labels"])
    alpha, t = ({key: chosen[key]} if key in chosen else {} for key in ("alpha", "t"))
    yield (
        "call",
        {"alignment": evaluation.alignment(*arrays, **alpha), "uniformity": evaluation.uniformity(arrays[0], **t)},
    )
    names = {"alignment": f"alignment[alpha={alpha.get('alpha', 2)}]", "uniformity": f"uniformity[t={t.get('t', 2)}]"}
    found = evaluation.evaluate(*arrays, metrics=names.values())
    yield "metric", {name: found[ours] for name, ours in names.items()}


def interval(case: Case) -> Outputs:
    found = t_interval(case.arrays["values"], **settings(case, ["level"]))
    return {name: getattr(found, name) for name in ("mean", "half_width", "low", "high")}


def batch_stats(case: Case) -> Outputs:
    settings(case, [], elsewhere=["batching", "n", "m", "replace"])  # how the stored batches were made
    facts = batching.report(case.arrays["labels"], case.arrays["batches"])
    return {name: getattr(facts, name) for name in case.right}


def samples_per_class(case: Case) -> Outputs:
    """The number of batches, and means over 30 epochs in place of expectations: within 3 % (pairs: 10 %) they are."""
    chosen = settings(case, ["n", "batch_size", "replace"])
    n = chosen.pop("n")
    batches = batching.create("spc", case.arrays["labels"], samples_per_class=n, **chosen)
    epochs = [batches.plan(epoch) for epoch in range(30)]
    facts = [batching.report(case.arrays["labels"], plan) for plan in epochs]
    groups = np.stack(epochs).reshape(-1, n)
    means = {
        "coverage": (np.mean([fact.coverage for fact in facts]), 0.03),
        "classes_per_batch": (np.mean([fact.classes for fact in facts]), 0.03),
        "same_image_pair": (np.mean(groups[:, 0] == groups[:, 1]), 0.1),
    }
    expected = {name: case.arrays[name] for name in means}
    near = {name: abs(mean - expected[name]) <= slack * expected[name] for name, (mean, slack) in means.items()}
    return {"batches": len(batches)} | {name: expected[name] if near[name] else means[name][0] for name in means}


def switched_triplets(case: Case) -> Iterator[tuple[str, Outputs]]:
    """The triplet loss of triplets that were switched already: `switch` only says how they were drawn."""
    chosen = settings(case, ["margin", "squared"], elsewhere=["switch"])
    for way in ("call", "terms"):
        inputs = tensors(case)
        rows, triplets = inputs["embeddings"].requires_grad_(), inputs["triplets"]
        objective = objectives.create("triplet", normalize=False, **chosen)
        ours = objective if way == "call" else lambda *given, o=objective, **more: o.terms(*given, **more)["triplet"]
        value = ours(rows, inputs["labels"], tuples=triplets)
        value.backward()
        switched = (triplets[:, 0] == triplets[:, 1]).long()
        yield way, plain({"value": value, "grad_embeddings": rows.grad, "switched": switched})


def mixed_triplets(case: Case) -> Outputs:
    """Eq. 31 with the tuples of the case: on mixed rows, or (`hidden`) from the mixing on."""
    from levelfield.methods.mixup import entries, mix

    chosen = settings(case, ["lambda_", "margin", "squared"], elsewhere=["reduction"])
    if case.params.get("reduction", "sum_over_batch_size") != "sum_over_batch_size":
        raise Unexpressed("eq. 31 is a sum over tuples, divided by the batch size")
    share, inputs, answer = chosen.pop("lambda_"), tensors(case), {}
    if "hidden" in inputs:
        hidden, weight = inputs["hidden"].requires_grad_(), inputs["weight"].requires_grad_()
        mixed = mix(hidden, share, inputs["permutation"])
        rows = unit(torch.nn.functional.linear(mixed, weight, inputs["bias"]))
        answer |= {"mixed_hidden": mixed, "embeddings": rows}
    else:
        rows = inputs["embeddings"].requires_grad_()
    others = inputs["labels_partner" if "hidden" in inputs else "labels_mixed"]
    objective, value = objectives.create("triplet", **chosen), rows.new_zeros(())
    for number, entry in enumerate(entries(inputs["labels"], others, share), 1):
        triplets = inputs[f"triplets_{number}"]
        loss = objective(rows, entry.labels, tuples=triplets, weights=entry.weights)  # mean over the triplets
        value = value + loss * len(triplets) / len(rows)
    value.backward()
    answer |= {f"grad_{name}": part.grad for name, part in inputs.items() if part.grad is not None}
    return plain({"value": value, **answer})


def mixed_softmax(case: Case) -> Outputs:
    """By the method: two weighted calls of the objective."""
    from levelfield.methods.mixup import Mixed, mix

    settings(case, ["lambda_", "temperature"], elsewhere=["normalise_proxies"])
    if not case.params.get("normalise_proxies", True):
        raise Unexpressed("proxies of the normalised softmax have unit length")
    inputs, share = tensors(case), case.params["lambda_"]
    hidden, proxies = inputs["hidden"].requires_grad_(), inputs["proxies"]
    objective = objectives.create(
        "normalized_softmax", num_classes=len(proxies), dim=proxies.shape[1], temperature=case.params["temperature"]
    ).double()
    with torch.no_grad():
        objective.proxies.copy_(proxies)
    rows = torch.nn.functional.linear(mix(hidden, share, inputs["permutation"]), inputs["weight"], inputs["bias"])
    method = Mixed(objective)
    value = sum(method.terms(rows, inputs["labels"], inputs["labels_partner"], share, torch.Generator()).values())
    value.backward()
    logits = Geometry(rows, proxies, normalize=True).similarity / case.params["temperature"]
    answer = {"value": value, "logits": logits, "grad_hidden": hidden.grad, "grad_proxies": objective.proxies.grad}
    return plain(answer)


def network_array(name: str) -> str:
    """The parameter of `message_passing` that a case's array is: `q_weight_0` is that of the query in step 0."""
    if name in ("head_weight", "aux_weight", "aux_bias"):
        return name
    if name == "head_bn_weight":
        return "head_scale"
    part, kind, *step = name.split("_")
    part = {"q": "query", "k": "key", "v": "value"}.get(part, part)
    return f"network.input.{kind}" if part == "in" else f"network.steps.{step[0]}.{part}.{kind}"


def message_passing(case: Case, inputs: dict[str, Tensor]) -> Any:
    """The objective with the weights of the case, all of which must find their place."""
    takes = objectives.describe("message_passing").defaults
    chosen = settings(case, takes, elsewhere=["classes", *RECIPROCAL])
    sizes = {"num_classes": len(inputs.get("aux_weight", [0])), "dim": inputs["embeddings"].shape[1]}
    made = objectives.create("message_passing", **sizes, **chosen).double()
    given = {network_array(name): value for name, value in inputs.items() if name not in ("embeddings", "labels")}
    missing, unexpected = made.load_state_dict(given, strict=False)
    if wrong := [name for name in missing if name.startswith("network.")] + unexpected:
        raise UnknownKey(f"'message_passing' has other parameters than the case: {wrong}")
    return made


def mpn(case: Case) -> Outputs:
    from levelfield.objectives._parts.messages import nothing_dropped, standardised

    inputs = tensors(case)
    rows, labels = inputs["embeddings"].requires_grad_(), inputs["labels"]
    ours = message_passing(case, inputs)
    ours(rows, labels).backward()
    terms = ours.terms(rows, labels)
    states = ours.network(rows, nothing_dropped)
    refined = torch.cat(states[1:], 1) if ours.concat_steps else states[-1]
    answer = {f"attention_{k}": step.attention(states[k]) for k, step in enumerate(ours.network.steps)}
    answer |= {"refined": refined, "refined_normalised": ours.refine(rows.detach())}
    answer |= {"logits": standardised(refined, ours.head_scale) @ ours.head_weight.T}
    answer |= {"logits_aux": rows @ ours.aux_weight.T + ours.aux_bias}
    answer |= {"loss_mpn": terms["messages"], "loss_aux": terms["auxiliary"], "value": sum(terms.values())}
    weights = dict(ours.named_parameters()) | {"embeddings": rows}
    names = [name.removeprefix("grad_") for name in case.right if name.startswith("grad_")]
    return plain(answer | {f"grad_{n}": weights[n if n == "embeddings" else network_array(n)].grad for n in names})


RECIPROCAL = {"k": "k", "alpha": "alpha", "batch_size": "size", "strict": "strict"}


def reciprocal(case: Case) -> Outputs:
    from levelfield.methods.refine.groups import reciprocal_groups

    chosen = settings(case, RECIPROCAL)
    found = reciprocal_groups(case.arrays["embeddings"], **{RECIPROCAL[key]: value for key, value in chosen.items()})
    return {"batches": found.members, **found._asdict()}


def mpn_inference(case: Case) -> Outputs:
    """End to end: groups of unit rows, and the messages in each."""
    from levelfield.methods.refine.groups import reciprocal_groups
    from levelfield.methods.refine.passing import refine

    chosen = {ours: case.params[key] for key, ours in RECIPROCAL.items()}
    ours, rows = message_passing(case, tensors(case)), case.arrays["embeddings"]
    batches = reciprocal_groups(unit(torch.from_numpy(rows)).numpy(), **chosen).members
    return {"batches": batches, "refined": refine(ours, rows, by="reciprocal", **chosen)}


def masked_softmax(case: Case) -> Iterator[tuple[str, Outputs]]:
    """By the pieces, and by the objective's loss on raw rows (which has a bias: it is 0, and so is nobody's logit)."""
    from levelfield.objectives._parts.proxies import mean_entropy
    from levelfield.objectives.message_passing import present
    from levelfield.objectives.softmax import softmax_logits

    chosen, inputs = settings(case, ["temperature", "label_smoothing"]), tensors(case)
    rows, weight = inputs["embeddings"].requires_grad_(), inputs["weight"].requires_grad_()
    labels, among, _ = present(inputs["labels"], weight, None)
    logits = softmax_logits(rows @ among.T, None, temperature=chosen["temperature"])
    value = mean_entropy(logits, labels, None, chosen["label_smoothing"])
    value.backward()
    answer = {"value": value, "logits": logits, "classes_in_batch": inputs["labels"].unique()}
    yield "pieces", plain(answer | {"grad_embeddings": rows.grad, "grad_weight": weight.grad})
    rows = rows.detach().requires_grad_()
    ours: Any = objectives.create(
        "message_passing", num_classes=len(weight), dim=rows.shape[1], heads=1, message_weight=0, masked=True, **chosen
    ).double()
    with torch.no_grad():
        ours.aux_weight.copy_(weight)
        ours.aux_bias.zero_()
    answer["value"] = ours(rows, inputs["labels"])
    answer["value"].backward()
    yield "objective", plain(answer | {"grad_embeddings": rows.grad, "grad_weight": ours.aux_weight.grad})


def teacher_student(case: Case) -> Outputs:
    """A divergence is the cross-entropy without what the teacher's own entropy is."""
    from levelfield.methods import student as teaching

    chosen, inputs = settings(case, ["temperature", "delta"], elsewhere=["form"]), tensors(case)
    (name,) = (name for name in inputs if name.startswith("student_"))
    student, teacher = inputs[name].requires_grad_(), inputs[name.replace("student", "teacher")].requires_grad_()
    form = case.params["form"]
    ours = getattr(teaching, "soft_cross_entropy" if form == "kl" else form)
    value = ours(student, teacher, **chosen)
    if form == "kl":
        value = value - ours(teacher.detach(), teacher, **chosen)
    value.backward()
    assert teacher.grad is None, "the teacher is a constant"
    return plain({"value": value, f"grad_{name}": student.grad})


def chosen_batch(case: Case, score: Callable[[np.ndarray], np.ndarray]) -> Outputs:
    """Scores of candidates, of which the lowest wins; or the one score of a batch."""
    if "candidates" not in case.inputs:
        return {"value": score(np.arange(len(case.arrays["batch"]))[None])[0]}
    scores = score(case.arrays["candidates"])
    return {"scores": scores, "chosen": np.argmin(scores)}


def frd(case: Case) -> Outputs:
    settings(case, [])
    data, batch = case.arrays["data"], case.arrays.get("batch")
    ours = FrechetScorer(data) if batch is None else FrechetScorer(batch, data)
    answer = chosen_batch(case, ours)
    if batch is not None:
        mean, covariance = ours.terms(np.arange(len(batch))[None])
        answer |= {"mean_term": mean[0], "covariance_term": covariance[0]}
    return answer


def ddm(case: Case) -> Outputs:
    chosen = settings(case, ["bins", "moments"], elsewhere=["distance"])
    data, batch = case.arrays["data"], case.arrays.get("batch")
    ours = DistanceScorer(data, **chosen) if batch is None else DistanceScorer(batch, data, **chosen)
    answer = chosen_batch(case, ours)
    if "data_histogram" in case.right:
        answer |= {"data_histogram": ours.histogram, "batch_histogram": ours.shares(np.arange(len(batch))[None])[0]}
        answer |= {"low": ours.low, "high": ours.high}
    return answer


def greedy_coreset(case: Case) -> Outputs:
    selected, radius = farthest_first(case.arrays["pool"], settings(case, ["k"])["k"], int(case.arrays["start"]))
    return {"selected": selected, "radius": radius}


def d2_coreset(case: Case) -> Outputs:
    power, pool = settings(case, ["power"])["power"], case.arrays["pool"]
    if "anchor" in case.inputs:
        return {"start": nearest_row(pool, case.arrays["anchor"])}
    density = Density(pool)
    rows, barred = density.centred, np.zeros(len(pool), dtype=bool)
    sums = sum(squared_distances(rows, (rows**2).sum(axis=1), row) for row in case.arrays["chosen"])
    barred[case.arrays["chosen"]] = True
    return {"probabilities": pick_probabilities(density.log, sums, power, barred), "log_density": density.log}


def m_per_class(case: Case) -> Outputs:
    """Images of an epoch for each row of settings; -1 where it is refused."""
    settings(case, [])

    def length(classes: int, m: int, size: int, asked: int) -> int:
        labels = np.repeat(np.arange(classes), 4)
        try:
            made = batching.create("m_per_class", labels, batch_size=size or None, samples_per_class=m, length=asked)
        except LevelfieldError:
            return -1
        return made.plan(0).size

    return {"lengths": np.array([length(*row) for row in case.arrays["settings"].tolist()])}


def corruption(case: Case) -> Outputs:
    """The number that is drawn otherwise is given; `kernel` is the width that must come out."""
    from levelfield.data import corruptions
    from levelfield.data.corruptions.lim2022 import gaussian_kernel

    name = case.params["corruption"]
    chosen = settings(case, ["degrees", "sigma", "compression", "value"], elsewhere=["corruption", "kernel"])
    if "kernel" in case.params and len(gaussian_kernel(case.params["sigma"])) != case.params["kernel"]:
        return {}
    image = case.arrays["image"]
    return {"corrupted": corruptions.create(name, **chosen)(image, corruptions.stream(name, case.name))}


def corruption_statistics(case: Case) -> Outputs:
    """Statistics of many draws of our own generator on a grey image."""
    from levelfield.data import corruptions

    name, draws = case.params["corruption"], settings(case, ["draws"], elsewhere=["corruption", "size"])["draws"]
    base = np.full((case.params["size"], case.params["size"], 3), case.arrays["base_value"], dtype=np.uint8)
    ours = corruptions.create(name)
    made = np.stack([ours(base, corruptions.stream(name, str(draw))) for draw in range(draws)])
    shift = made.astype(np.int16) - base
    changed = (shift != 0).any(axis=3)
    share, mean, std = changed.mean(axis=(1, 2)), shift.mean(axis=(1, 2, 3)), shift.std(axis=(1, 2, 3))
    answer = {"noise_std_mean": std.mean(), "noise_std_max": std.max(), "within_image_std_max": std.max()}
    answer |= {"mean_shift": mean.mean(), "shift_mean": mean.mean(), "shift_abs_mean": np.abs(mean).mean()}
    answer |= {"shift_min": mean.min(), "shift_max": mean.max(), "black_fraction_mean": (made == 0).all(axis=3).mean()}
    answer |= {f"changed_fraction_{how}": getattr(share, how)() for how in ("mean", "std", "max")}
    values = made[changed].astype(float)
    answer |= {"replaced_mean": values.mean(), "fill_value": values.mean()}
    answer["replaced_extreme_fraction"] = ((values < 25.5) | (values > 229.5)).mean()
    answer["channels_equal_fraction"] = (np.ptp(values, axis=1) == 0).mean()
    return answer


def activation_maps(case: Case) -> Outputs:
    from levelfield.reports.figures.activation_maps import top_maps

    return top_maps(case.arrays["activations"], **settings(case, ["channels"]))._asdict()


def early_stopping(case: Case) -> Outputs:
    """By the loop's own judge, an epoch counted as a step."""
    from levelfield.training import Conditions
    from levelfield.training.checkpoint import TrainingState

    chosen = settings(case, ["interval", "patience", "max_epochs"])
    conditions = Conditions(
        steps=chosen["max_epochs"], validate_every=chosen["interval"], patience=f"{chosen['patience']} steps"
    )
    state = TrainingState()
    for epoch, score in zip(case.arrays["epochs"].tolist(), case.arrays["scores"].tolist(), strict=True):
        if state.step < conditions.steps and not state.finished:
            state.step = epoch
            state.record_validation(score, conditions)
    return {"best_epoch": state.best_step, "best_score": state.best, "stop_epoch": state.step}


def dreml(case: Case) -> Outputs:
    """Each member's loss against its own meta classes, and the members side by side."""
    from levelfield.methods.dreml import Dreml

    chosen = settings(case, ["multiplier", "exclude_positive"], elsewhere=["members", "meta_classes", "proxies"])
    inputs = tensors(case)
    outputs, meta = inputs["outputs"].requires_grad_(), inputs["partition"][inputs["labels"]].T
    answer: Outputs = {"meta_labels": meta, "concatenated": evaluation.joined(list(case.arrays["outputs"]))}
    learned = case.params["proxies"] == "learned"
    members = [Dreml(meta_classes=outputs.shape[2], proxies=case.params["proxies"], **chosen) for _ in outputs]
    ours = [member.objective.double() for member in members]
    for one, start in zip(ours, inputs["proxies"], strict=True) if learned else ():
        one.proxies.data.copy_(start)
    losses = [one(rows, labels) for one, rows, labels in zip(ours, outputs, meta, strict=True)]
    torch.stack(losses).sum().backward()
    answer |= {"member_losses": torch.stack(losses), "grad_outputs": outputs.grad}
    if learned:
        answer["grad_proxies"] = torch.stack([one.proxies.grad for one in ours])
    return plain(answer)


def dreml_partition(case: Case) -> Iterator[tuple[str, Outputs]]:
    """Counts of the given partition, and of our own: the same but for the names of meta classes, and no two alike."""
    from levelfield.methods.dreml import partition

    chosen = settings(case, ["classes", "meta_classes", "members"])
    sizes, members = (chosen["classes"], chosen["meta_classes"]), range(chosen["members"])
    drawn = np.stack([partition(*sizes, member, seed=0) for member in members], axis=1)
    for way, found in (("given", case.arrays["partition"]), ("drawn", drawn)):
        counts = np.stack([np.bincount(column, minlength=sizes[1]) for column in found.T], axis=1)
        answer = {"min_count": counts.min(), "max_count": counts.max()}
        if way == "drawn":  # the order of meta classes is nobody's: that of the case is taken
            order = np.argsort(np.argsort(case.arrays["counts"], axis=0, kind="stable"), axis=0)
            counts = np.take_along_axis(np.sort(counts, axis=0), order, axis=0)
            together = {(found[:, one][:, None] == found[:, one]).tobytes() for one in members}
            assert len(together) == len(members), "two members divide the classes alike"
        yield way, answer | {"counts": counts}


def ensemble(case: Case) -> Outputs:
    settings(case, [], elsewhere=["members", "normalise_members"])
    if not case.params["normalise_members"]:
        raise Unexpressed("members are always brought to length 1 before they are joined")
    members, labels = case.arrays["members_embeddings"], case.arrays["labels"]
    wanted = ("precision@1", "r_precision", "map@r")

    def triple(rows: np.ndarray) -> list[float]:
        result = evaluation.evaluate(rows, labels, metrics=wanted)
        return [result[name] for name in wanted]

    each, rows = np.array([triple(member) for member in members]), evaluation.joined(list(members))
    return {
        "separated_each": each,
        "separated": each.mean(0),
        "concatenated_embeddings": rows,
        "concatenated": np.array(triple(rows)),
    }


DRML_ARRAYS = {"node": "node", "aedge": "sender", "bedge": "receiver", "decoder": "decoder"}


def relation_array(head: Any, name: str, *, slope: bool = False) -> Tensor:
    """The parameter of the relation head that a case's array is, or its gradient: a view, in the case's order."""
    part, kind, *branch = name.split("_")
    weight = getattr(head.parts[0], f"{DRML_ARRAYS[part]}_{kind}") if branch else getattr(head, name)
    found = weight.grad if slope else weight.data
    if branch:
        return found[int(branch[0])].T
    # ours (in, [to the own, to the others']), theirs [out, [from the own, from the others']]
    return found.unflatten(1, (2, -1)).permute(2, 1, 0) if name == "integrator_weight" else found


def drml(case: Case) -> Outputs:
    """Weights enter as arrays; given triplets take the place of the miners. All inputs must find their place."""
    from levelfield.embedder.relation import RelationHead
    from levelfield.methods.drml import Drml

    inputs, count = tensors(case), case.params["branches"]
    weights = ("weight_branch", "weight_final", "weight_reconstruction")
    chosen = settings(case, ["branches", *weights], elsewhere=["classes", "base", "margin", "alpha", "reduction"])
    wrapped = {
        "proxy_anchor": {"delta": case.params["margin"], "alpha": case.params.get("alpha")},
        "triplet": {"margin": case.params["margin"], "reduction": "mean_nonzero"},
    }[case.params["base"]]
    features, labels = inputs.pop("features").requires_grad_(), inputs.pop("labels")
    width, dim = features.shape[1], count * len(inputs["node_weight_0"])
    sizes = {"num_classes": case.params["classes"], "dim": dim}
    method = Drml(objective=case.params["base"], settings=wrapped, **sizes, **chosen)
    method, head = method.double(), RelationHead(width, dim, branches=count).double().train()
    losses = {**{str(k): branch for k, branch in enumerate(method.branches)}, "final": method.objective}
    with torch.no_grad():
        for name, value in inputs.items():
            kind, _, whose = name.partition("_")
            if kind == "proxies":
                losses[whose].proxies.copy_(value)
            elif kind != "triplets":
                array = relation_array(head, name)
                array.copy_(value.reshape(array.shape))
    head(features)
    steps = head.taken()
    for whose, objective in losses.items() if "triplets_final" in inputs else ():
        triplets = inputs[f"triplets_{whose}"]
        if whose != "final":  # rows of the batch, as rows of the branch
            triplets = torch.searchsorted((steps.assignment == int(whose)).nonzero()[:, 0], triplets)
        objective.miner = lambda geometry, labels, *, generator, found=triplets: found
    terms = method.terms(steps, labels, torch.Generator())
    value = sum(terms.values())
    value.backward(retain_graph=True)
    branches = torch.stack(method.branch_losses(steps, labels, torch.Generator()))
    answer = {"value": value, "nodes": steps.nodes, "reconstruction_errors": steps.errors, "edges": steps.edges}
    answer |= {"assignment": steps.assignment, "final": steps.final, "reconstruction_loss": steps.errors.mean()}
    answer |= {"branch_losses": branches, "final_loss": terms["final"] / method.weight_final}
    answer |= {"grad_features": features.grad}
    for name in {name.removeprefix("grad_") for name in case.right if name.startswith("grad_")} - {"features"}:
        kind, _, whose = name.partition("_")
        slope = losses[whose].proxies.grad if kind == "proxies" else relation_array(head, name, slope=True)
        # a branch without images gives its proxies no gradient at all
        answer[f"grad_{name}"] = torch.zeros_like(inputs[name]) if slope is None else slope.reshape(inputs[name].shape)
    return plain(answer)


def folds_of_classes(case: Case) -> Outputs:
    found = class_folds(case.arrays["classes_sorted"], **settings(case, ["folds", "form"], elsewhere=["classes"]))
    return {
        f"{part}_{i}": classes
        for i, fold in enumerate(found)
        for part, classes in zip(("train", "val"), fold, strict=True)
    }


NAMED_ALIKE = (
    corruption, corruption_statistics, activation_maps, early_stopping, group_loss, masked_softmax, teacher_student,
    mpn, mpn_inference, switch, dreml, dreml_partition, ensemble, hist, drml, retrieval, spectral_decay, class_spectrum,
    density, alignment_uniformity, batch_stats, m_per_class, frd, ddm, greedy_coreset, d2_coreset,
)  # fmt: skip
TABLE: dict[str, Callable[[Case], Any]] = {
    **{call.__name__: call for call in NAMED_ALIKE},
    "switched_triplet": switched_triplets,
    "mixup_triplet": mixed_triplets,
    "manifold_mixup_triplet": mixed_triplets,
    "manifold_mixup_softmax": mixed_softmax,
    "reciprocal_batches": reciprocal,
    "normalized_softmax_head": head,
    "proxy_nca_pp_head": head,
    "map_at_c": map_at,
    "map_at_k": map_at,
    "clustering": clusters,
    "confidence_interval": interval,
    "spc": samples_per_class,
    "class_folds": folds_of_classes,
}


def adapter(case: Case) -> Callable[[Case], Any] | None:
    """What answers the case; None if the thing it is about is not built."""
    call = TABLE.get(case.what.replace("-", "_"))
    if case.kind == "loss" and call is None:
        return loss if case.what in objectives.names() else None
    return miner if call is None and case.kind == "miner" and case.what in miners.names() else call


def answers(case: Case) -> Iterator[tuple[str, Outputs]]:
    """Our answers to the case, each with the way it was computed."""
    found = adapter(case)(case)
    if isinstance(found, dict):
        yield "call", found
    else:
        yield from found


def plain(found: Mapping[str, Any]) -> Outputs:
    """Tensors as arrays; what has no gradient is left out."""
    return {
        name: value.detach().numpy() if isinstance(value, Tensor) else value
        for name, value in found.items()
        if value is not None
    }
