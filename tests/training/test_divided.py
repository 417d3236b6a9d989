"""Batches that are embedded in pieces: two passes give the gradients of the undivided batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from training_world import HeadOnly, Told, log_of, make

from levelfield import methods, objectives
from levelfield.embedder.relation import RelationHead
from levelfield.errors import BadSpecification, Unfair
from levelfield.methods import Batch
from levelfield.randomness import isolated, stream
from levelfield.training import Divided


def gradients(network: nn.Module) -> dict[str, torch.Tensor]:
    result = {name: parameter.grad.clone() for name, parameter in network.named_parameters()}
    network.zero_grad()
    return result


def test_the_second_pass_repeats_the_random_numbers_of_the_first() -> None:
    network = nn.Sequential(nn.Linear(5, 16), nn.Dropout(0.5), nn.Linear(16, 4)).double()
    loss = objectives.create("contrastive", miner="all")
    images, labels = torch.randn(8, 5, dtype=torch.float64), torch.arange(8) // 2
    divided = Divided(network, pieces=3)
    with isolated(0, "step"):
        rows = divided(images)
        divided.backward(loss(rows, labels))
    result = gradients(network)
    with isolated(0, "step"):  # the same masks, in one graph
        number = int(torch.randint(2**62, ()))
        whole = []
        for piece, part in enumerate((images[:3], images[3:6], images[6:])):
            with isolated(number, "rank", 0, "piece", piece):
                whole.append(network(part))
    torch.testing.assert_close(torch.cat(whole), rows)
    loss(torch.cat(whole), labels).backward()
    for name, expected in gradients(network).items():
        torch.testing.assert_close(result[name], expected)


def test_what_the_head_keeps_besides_the_rows_is_divided_too() -> None:
    """The losses of DRML use the nodes and decoders of its head."""
    result = []
    images = torch.randn(9, 10, dtype=torch.float64, generator=stream(0))
    for pieces in (1, 3):
        method = methods.create("drml", num_classes=3, dim=8, settings={}, generator=stream(0, "proxies")).double()
        head = RelationHead(10, 8).double().train()
        embedder = HeadOnly(head) if pieces == 1 else Divided(HeadOnly(head), pieces=pieces)
        batch = Batch(images, torch.arange(9) // 3, None, None, 0, 0)
        method.embed = lambda embedder, inputs: embedder(inputs)  # in float64
        loss = sum(method.step(embedder, batch, stream(0, "step")).values())
        loss.backward() if pieces == 1 else embedder.backward(loss)
        result.append({"loss": loss.detach(), **gradients(head)})
    for name, expected in result[0].items():
        torch.testing.assert_close(result[1][name], expected, rtol=1e-9, atol=1e-12)


def test_a_network_whose_rows_depend_on_each_other_is_refused() -> None:
    network = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4))
    with pytest.raises(BadSpecification, match=r"'1' \(BatchNorm1d\).*accumulate: 1"):
        Divided(network, pieces=2)(torch.randn(4, 5))
    network.eval()
    assert Divided(network, pieces=2)(torch.randn(4, 5)).shape == (4, 4)


def test_a_part_of_the_network_that_sees_only_a_piece_is_not_offered() -> None:
    with pytest.raises(BadSpecification, match=r"`embedder\.features`.*accumulate: 1"):
        Divided(make().embedder, pieces=2).features(torch.zeros(2, 3, 32, 32))


def test_a_step_may_embed_twice_and_write_into_its_rows(tmp_path) -> None:
    def twice(rows, batch):
        return rows.mul_(2).square().mean() + run.method.embed(run.again, batch.inputs).square().mean()

    for accumulate in (1, 3):
        run = make(Told(twice), accumulate=accumulate, steps=2, optimiser="sgd")
        step = run.method.step
        run.again = None

        def remembered(embedder, batch, generator, run=run, step=step):
            run.again = embedder
            return step(embedder, batch, generator)

        run.method.step = remembered
        state = run.train(tmp_path / str(accumulate))
        assert state.rows_through_trunk == 2 * state.images
    losses = [[line["loss"] for line in log_of(tmp_path / str(count))] for count in (1, 3)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][0] != pytest.approx(losses[0][1], rel=1e-5)


def test_hidden_parameters_are_found_in_pieces_too(tmp_path) -> None:
    hidden = torch.ones(8, requires_grad=True)
    with pytest.raises(Unfair, match=r"hidden extra parameter"):
        make(Told(lambda rows, batch: (rows * hidden).square().mean()), accumulate=2).train(tmp_path)
