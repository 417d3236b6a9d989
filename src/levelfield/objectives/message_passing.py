"""Message passing (seidenschwarz2021): the samples of a batch exchange messages, then are classified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from levelfield.errors import BadInput, BadSpecification
from levelfield.geometry import unit
from levelfield.labels import on_host, to_device
from levelfield.objectives._contract import LossInputs, ObjectiveFacts, register
from levelfield.objectives._parts.messages import Choices, Drop, Network, Step, dropout, nothing_dropped, standardised
from levelfield.objectives._parts.proxies import ClassObjective, mean_entropy, start_proxies
from levelfield.objectives._parts.start import StartRows, linear_classifier
from levelfield.objectives.softmax import softmax_logits
from levelfield.randomness import stream
from levelfield.settings import Count, Natural, NotNegative, Positive, Share


def present(labels: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Labels, and rows of weight and bias, restricted to the classes of the batch (seidenschwarz2021 J).

    >>> labels, weight, _ = present(torch.tensor([7, 2, 7]), torch.arange(9.0)[:, None], None)
    >>> labels, weight.T
    (tensor([1, 0, 1]), tensor([[2., 7.]]))
    """
    classes, among = (to_device(part, labels.device) for part in on_host(labels).unique(return_inverse=True))
    return among, weight.index_select(0, classes), None if bias is None else bias.index_select(0, classes)


@register(
    "message_passing",
    ObjectiveFacts(
        paper="Seidenschwarz et al. 2021 (seidenschwarz2021)",
        equation="seidenschwarz2021 eq. 2-4, J; the released code where the paper is silent",
        formula="CE(W norm(h_i) / T, y_i) + CE((V x_i + b) / T, y_i), h = messages among all x / |x| of the batch",
        use="When batches have many images of a few classes: the images exchange messages during training, and "
        "test time needs only the embedding.",
        batch="4 or more per class",
        least=(1, 1),
        sources={
            "heads": "seidenschwarz2021 section 4.4: 2 on CUB (8 Cars; code: 8 SOP, 4 In-Shop)",
            "steps": "seidenschwarz2021 section 4.4: 1 on CUB (2 Cars; code: 1 SOP, In-Shop)",
            "concat_steps": "authors' code: on Cars only",
            "temperature": "authors' code: 0.2 on CUB (1/9 Cars, 0.6047 SOP, 0.1859 In-Shop)",
            "label_smoothing": "authors' code",
            "dropout": "authors' code",
            "ff_factor": "authors' code",
            "skip": "seidenschwarz2021",
            "output_projection": "authors' code; not in eq. 4",
            "input_projection": "seidenschwarz2021: none (the code has one)",
            "null_logit": "seidenschwarz2021: none (the code has one)",
            "message_weight": "seidenschwarz2021 (0: its table 3, cross-entropy; SOP in the code)",
            "auxiliary_weight": "seidenschwarz2021 (0: its table 3, MPN loss alone)",
            "masked": "seidenschwarz2021 J: where there are very many classes",
            "network_lr_multiplier": "seidenschwarz2021: the network's rate",
            "head_lr_multiplier": "seidenschwarz2021: the network's rate",
        },
        search={
            "temperature": (0.05, 1.0, "log"),
            "heads": [1, 2, 4, 8],
            "steps": [1, 2, 3, 4],
            "network_lr_multiplier": (0.1, 100, "log"),
            "head_lr_multiplier": (0.1, 1000, "log"),
        },
        tags={
            "order_of_the_batch_is_irrelevant": "dropout depends on the position in the batch; without dropout it holds"
        },
    ),
)
class MessagePassing(ClassObjective):
    """Two classification losses: of the raw rows, and of the rows after `steps` of attention over the whole batch.

    Neither the network nor the classifiers are used at test time, except by `refine`. The classifier of refined rows is
    a batch norm without shift and a linear layer without bias, the other a linear layer. Defaults follow the paper's
    equations, and the released code where the paper gives no details (ReLU, dropout, temperature). That code also has
    `null_logit` and `input_projection`, see the presets "seidenschwarz2021/...".

    `masked`: classify only among the classes of the batch, much faster with very many classes; this changes the loss.
    Labels are 0..num_classes-1. Memory: O(batch * (heads * batch + ff_factor * dim + num_classes)).

    >>> sorted(MessagePassing(num_classes=2, dim=4).terms(torch.eye(4), torch.tensor([0, 0, 1, 1])))
    ['auxiliary', 'messages']
    """

    normalize = False  # the classifier uses raw rows; messages start from unit rows

    heads: Count = 2
    steps: Count = 1
    concat_steps: bool = False
    temperature: Positive = 0.2
    label_smoothing: Share = 0.1
    dropout: Annotated[float, Ge(0), Le(0.99)] = 0.1
    ff_factor: Natural = 4
    skip: bool = True
    output_projection: bool = True
    input_projection: bool = False
    null_logit: bool = False
    message_weight: NotNegative = 1.0
    auxiliary_weight: NotNegative = 1.0
    masked: bool = False
    network_lr_multiplier: NotNegative = 1.0
    head_lr_multiplier: NotNegative = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        generator = self.generator or stream(0, "message_passing")
        choices = Choices(self.heads, self.null_logit, self.skip, self.output_projection, self.ff_factor)
        if self.dim % self.heads:
            raise BadSpecification(
                f"'heads' is {self.heads}, which does not divide the {self.dim} dimensions of an embedding."
            )
        if not (self.message_weight or self.auxiliary_weight):
            raise BadSpecification("'message_weight' and 'auxiliary_weight' are both 0: the loss has no term left.")
        # create no weights for an unused loss: they would count as parameters but never train
        self.network = self.head_scale = self.head_weight = self.aux_weight = self.aux_bias = None
        if self.message_weight:
            self.network = Network(
                self.dim, choices, steps=self.steps, input_projection=self.input_projection, generator=generator
            )
            width = self.dim * self.steps if self.concat_steps else self.dim
            self.head_scale = nn.Parameter(torch.ones(width))
            self.head_weight = nn.Parameter(torch.randn(self.num_classes, width, generator=generator) * 0.001)
        if self.auxiliary_weight:
            self.aux_weight = start_proxies(self.num_classes, self.dim, init="uniform", generator=generator)
            self.aux_bias = nn.Parameter((2 * torch.rand(self.num_classes, generator=generator) - 1) / self.dim**0.5)

    def lr_multipliers(self) -> dict[str, float]:
        network, head = self.network_lr_multiplier, self.head_lr_multiplier
        return {name: network if name.startswith("network.") else head for name, _ in self.named_parameters()}

    @torch.no_grad()
    def start_from(self, start: StartRows) -> None:
        """The classifier of the nearest class mean, for raw rows. Rows after messages have no means before training."""
        if self.aux_weight is not None and self.aux_bias is not None:
            weight, bias = linear_classifier(start, temperature=self.temperature)
            self.aux_weight.copy_(weight)
            self.aux_bias.copy_(bias)

    @property
    def separable(self) -> bool:
        return self.network is None and not self.masked  # a classifier and nothing else

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        parts = {}
        if self.head_scale is not None:
            drop = dropout(self.dropout if self.training else 0.0, inputs.generator)
            refined = self._refined(inputs.embeddings, drop)
            normed = standardised(refined, self.head_scale.to(refined.dtype))
            parts["messages"] = self.message_weight * self._entropy(inputs, normed, self.head_weight, None)
        if self.aux_weight is not None:
            entropy = self._entropy(inputs, inputs.embeddings, self.aux_weight, self.aux_bias)
            parts["auxiliary"] = self.auxiliary_weight * entropy
        return parts

    @torch.no_grad()
    def refine(self, embeddings: Tensor, positions: Sequence[int] | None = None) -> Tensor:
        """Unit rows after the messages of their group, without dropout; embeddings: (n, d), or groups (g, n, d).

        `positions`: compute only the rows at these positions of every group. With `concat_steps` refined rows are as
        wide as all steps together.

        >>> loss = MessagePassing(num_classes=2, dim=4)
        >>> torch.allclose(loss.refine(torch.eye(4)).norm(dim=1), torch.ones(4))
        True
        """
        if embeddings.dim() not in (2, 3) or embeddings.shape[-1] != self.dim:
            got = tuple(embeddings.shape)
            raise BadInput(
                f"Refinement needs rows of shape (n, {self.dim}), or groups of shape (g, n, {self.dim}), not {got}."
            )
        receivers = None if positions is None else torch.as_tensor(positions, device=embeddings.device)
        refined = self._refined(embeddings, nothing_dropped, receivers)
        return unit(refined.flatten(0, -2)).view(refined.shape)

    @torch.no_grad()
    def lesson(self, embeddings: Tensor) -> tuple[Tensor, Tensor]:
        """For a student: the rows (n, d) of one group after message passing (the input of the classifier's batch norm)
        and their class logits. Without dropout.

        >>> [part.shape for part in MessagePassing(num_classes=3, dim=4).lesson(torch.eye(4))]
        [torch.Size([4, 4]), torch.Size([4, 3])]
        """
        refined = self._refined(embeddings, nothing_dropped)
        assert self.head_scale is not None  # created together with the network
        assert self.head_weight is not None
        normed = standardised(refined, self.head_scale.to(refined.dtype))
        return refined, self._logits(normed, self.head_weight, None)

    @torch.no_grad()
    def attention(self, embeddings: Tensor) -> Tensor:
        """Eq. 3 for one group (n, d): weights (steps, heads, n, n) of each sender for each receiver, without dropout.

        >>> MessagePassing(num_classes=2, dim=4, heads=2).attention(torch.eye(4)).shape
        torch.Size([1, 2, 4, 4])
        """
        states = self._states(embeddings, nothing_dropped, None)
        steps = [step for step in self.network.steps if isinstance(step, Step)]  # type: ignore[union-attr]
        return torch.stack([step.attention(state) for step, state in zip(steps, states, strict=False)])

    def logits(self, embeddings: Tensor) -> Tensor | None:
        """Logits of the auxiliary classifier, which does not need the rest of the batch."""
        if self.aux_weight is None:
            return None
        return self._logits(self.working(embeddings), self.aux_weight, self.aux_bias)

    def _states(self, rows: Tensor, drop: Drop, receivers: Tensor | None) -> list[Tensor]:
        """The nodes before and after each step."""
        if self.network is None:
            raise BadSpecification("Messages need a 'message_weight' above 0: with 0 no messages are passed.")
        rows = self.working(rows)
        weights: dict[str, Tensor] = {name: weight.to(rows.dtype) for name, weight in self.network.named_parameters()}
        states: list[Tensor] = torch.func.functional_call(self.network, weights, (rows, drop, receivers))
        return states

    def _refined(self, rows: Tensor, drop: Drop, receivers: Tensor | None = None) -> Tensor:
        """The nodes after the last step, or after all steps concatenated; before the batch norm."""
        states = self._states(rows, drop, receivers)
        if not self.concat_steps:
            return states[-1]
        earlier = states[1:-1] if receivers is None else [state.index_select(-2, receivers) for state in states[1:-1]]
        return torch.cat([*earlier, states[-1]], -1)

    def _entropy(self, inputs: LossInputs, rows: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Mean cross-entropy of the linear classifier (weight, bias), over all classes or those of the batch."""
        assert weight is not None
        labels = inputs.labels
        if self.masked and len(labels):
            labels, weight, bias = present(labels, weight, bias)
        return mean_entropy(self._logits(rows, weight, bias), labels, inputs.weights, self.label_smoothing)

    def _logits(self, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        product = rows @ weight.to(rows.dtype).T
        return softmax_logits(product, None if bias is None else bias.to(rows.dtype), temperature=self.temperature)
