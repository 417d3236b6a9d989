"""The relation head of DRML against a loop over samples and branches, and at the edges of its equations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import levelfield
from levelfield.embedder import Embedder, Trunk, save_model
from levelfield.embedder.linear import whitened_components
from levelfield.embedder.relation import RelationHead, Steps, start_relation
from levelfield.errors import BadSpecification
from levelfield.randomness import stream


def drawn(*shape: int, name: str = "rows") -> Tensor:
    return torch.randn(shape, generator=stream(0, name, *shape), dtype=torch.float64)


def moved(width: int, dim: int, branches: int) -> RelationHead:
    """A head as after training: no weight is where it started."""
    head = RelationHead(width, dim, branches=branches).double()
    with torch.no_grad():
        for number, parameter in enumerate(head.parameters()):
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=stream(number, "moved"), dtype=torch.float64))
    return head.train()


def by_loops(head: RelationHead, features: Tensor) -> Steps:
    """The equations, one number at a time. A and B are written out in full."""
    branches = [(part, k) for part in head.parts for k in range(part.count)]
    widths = [part.width for part, _ in branches]
    own, others = head.integrator_weight.chunk(2, 1)
    found = []
    for row in features:
        nodes, errors, senders, receivers = [], [], [], []
        for x, (part, k) in zip(row.split(widths), branches, strict=True):
            node = part.node_weight[k].T @ x + part.node_bias[k, 0]
            node = node / node.norm()
            decoded = part.decoder_weight[k].T @ node.detach() + part.decoder_bias[k, 0]
            nodes.append(node)
            errors.append(((x.detach() - decoded) ** 2).mean())
            senders.append(part.sender_weight[k].T @ x.detach() + part.sender_bias[k, 0])
            receivers.append(part.receiver_weight[k].T @ x.detach() + part.receiver_bias[k, 0])
        edges = [[(head.score_weight @ (a - b) + head.score_bias)[0].relu() for b in receivers] for a in senders]
        matrix = torch.stack([torch.stack(line) for line in edges])
        sums = matrix.sum(0)
        columns = zip(matrix.unbind(1), sums, strict=True)
        matrix = torch.stack([column / total if total > 0 else column * 0 for column, total in columns], 1)
        joined = []
        for b, node in enumerate(nodes):
            message = sum((matrix[a, b] * nodes[a] for a in range(len(nodes))), torch.zeros_like(node))
            joined.append(own.T @ node + others.T @ message + head.integrator_bias)
        found.append((torch.stack(nodes), torch.stack(errors), matrix, torch.cat(joined)))
    return Steps(*(torch.stack(parts) for parts in zip(*found, strict=True)))


def slopes(steps: Steps, of: list[Tensor]) -> list[Tensor]:
    """Gradients of a number in which every output has its own weight."""
    total = sum((part * drawn(*part.shape, name="upstream")).sum() for part in steps)
    return list(torch.autograd.grad(total, of))


@pytest.mark.parametrize(("width", "dim", "branches"), [(12, 6, 3), (14, 8, 4), (9, 4, 1), (7, 6, 6)])
def test_values_and_gradients_are_those_of_the_loop(width: int, dim: int, branches: int) -> None:
    head, features = moved(width, dim, branches), drawn(5, width).requires_grad_()
    final = head(features)
    steps, slow = head.taken(), by_loops(head, features)
    assert final is steps.final
    for ours, theirs in zip(steps, slow, strict=True):
        torch.testing.assert_close(ours, theirs)
    of = [features, *head.parameters()]
    for ours, theirs in zip(slopes(steps, of), slopes(slow, of), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_columns_of_edges_sum_to_1_or_to_0_with_finite_gradients() -> None:
    head, features = moved(12, 6, 3), drawn(40, 12)
    with torch.no_grad():
        head.score_bias.fill_(-2.0)  # many columns have nothing to say
    head(features)
    edges = head.taken().edges
    sums = edges.sum(1)
    assert ((sums - 1).abs() < 1e-12).logical_or(sums == 0).all()
    assert (sums == 0).any()
    assert (sums > 0).any()
    edges.square().sum().backward()
    assert head.score_weight.grad.isfinite().all()


def test_all_edges_0_and_zero_features_give_finite_rows_and_gradients() -> None:
    head, features = moved(12, 6, 3), torch.zeros(4, 12, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        head.score_bias.fill_(-1e3)
        for name, parameter in head.named_parameters():
            if name.endswith("node_bias"):
                parameter.zero_()  # nodes of length 0
    final = head(features)
    steps = head.taken()
    assert not steps.edges.any()
    assert not steps.nodes.any()
    (final.sum() + steps.errors.sum() + steps.nodes.sum()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in (features, *head.parameters()))


def test_a_batch_of_one_or_none_works_and_rows_do_not_see_each_other() -> None:
    head, features = moved(12, 6, 3), drawn(7, 12)
    together = head(features)
    torch.testing.assert_close(head(features[2:3]), together[2:3])
    torch.testing.assert_close(head(features.flip(0)), together.flip(0))
    assert head(features[:0]).shape == (0, 6)


def test_a_new_head_passes_its_nodes_on_and_its_weights_are_he_normal() -> None:
    head = RelationHead(1024, 512, branches=4).train()
    rows = head(torch.randn(3, 1024, generator=stream(0, "rows")))
    torch.testing.assert_close(rows, head.taken().nodes.flatten(1))
    (part,) = head.parts
    for weight, fan_out in ((part.node_weight, 128), (part.sender_weight, 128), (part.decoder_weight, 256)):
        assert weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.02)
    assert not any(p.any() for name, p in head.named_parameters() if name.endswith("bias"))
    again, other = RelationHead(1024, 512, branches=4), RelationHead(1024, 512, branches=4)
    start_relation(again, stream(1, "head"))
    start_relation(other, stream(1, "head"))
    assert torch.equal(again.score_weight, other.score_weight)
    assert not torch.equal(again.score_weight, head.score_weight)


def test_steps_are_kept_in_training_mode_only_and_taken_once() -> None:
    head = RelationHead(12, 6, branches=3).eval()
    head(torch.ones(2, 12))
    with pytest.raises(BadSpecification, match="training mode"):
        head.taken()
    head.train()(torch.ones(2, 12))
    head.taken()
    assert head.latest is None


def test_sizes_that_do_not_fit_are_refused_with_the_nearest_that_does() -> None:
    with pytest.raises(BadSpecification, match=r"dim 128 .* 5 branches: 'branches: 4'"):
        RelationHead(64, 128, branches=5)
    with pytest.raises(BadSpecification, match="3 features"):
        RelationHead(3, 8, branches=4)


def test_half_precision_keeps_nodes_and_errors_in_full_precision() -> None:
    head, features = RelationHead(12, 6, branches=3).train(), torch.randn(4, 12, generator=stream(0, "rows"))
    exact = head(features)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rows = head(features)
    steps = head.taken()
    assert {part.dtype for part in steps[:3]} == {torch.float32}
    torch.testing.assert_close(rows.float(), exact, atol=0.02, rtol=0.02)
    (rows.float().sum() + steps.errors.sum()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in head.parameters())


def test_a_saved_model_with_this_head_is_loaded_without_being_given_one(backbone, tmp_path):
    trunk = Trunk(backbone("tf_efficientnet_lite0"), cut="frozen", image=32)
    embedder = Embedder(trunk, RelationHead(trunk.width, 12, branches=3))
    with torch.no_grad():
        for parameter in embedder.head.parameters():
            parameter.add_(0.01)
    save_model(tmp_path, embedder, {"image": 32, "mean": (0.5,) * 3, "std": (0.5,) * 3})
    model = levelfield.load(tmp_path)
    assert isinstance(model.embedder.head, RelationHead)
    assert model.dim == 12
    images = torch.randn(5, 3, 32, 32, generator=stream(0, "images"))
    ours, theirs = (one.embed(images, from_images=True).numpy() for one in (embedder, model.embedder))
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("width", [12, 14], ids=["equal blocks", "blocks that differ by one"])
def test_the_common_start_gives_the_components_of_each_block_at_unit_length(width: int) -> None:
    features = drawn(40, width, name="features").numpy().astype(np.float32)
    head = RelationHead(width, 6, branches=3)
    before = {name: tensor.clone() for name, tensor in head.state_dict().items()}
    found = head.principal_start(features, whiten=0.5)
    head.load_state_dict({**before, **{name: torch.from_numpy(array) for name, array in found.items()}})
    expected = []
    for block in np.array_split(features, 3, axis=1):
        weight, bias = whitened_components(block, 2, whiten=0.5)
        components = block @ weight.T + bias
        expected.append(components / np.linalg.norm(components, axis=1, keepdims=True))
    rows = head.eval()(torch.from_numpy(features)).detach().numpy()
    np.testing.assert_allclose(rows, np.concatenate(expected, axis=1), atol=1e-5)
    assert {name.split(".")[-1] for name in found} == {"node_weight", "node_bias"}
