"""Depthwise convolutions with a fast weight gradient on maps smaller than the kernel, or with very few outputs.

For small maps (5x5 kernels on the 2x2 and 4x4 maps of small images) torch's CPU library falls back to a slow reference:
100 images, 1,152 channels, 5x5 on 2x2: 68 ms for the gradient against 0.3 ms forward, nine tenths of a training step.
The sum itself is tiny. With stride 2 from 7x7 to 2x2 it takes half the library's time. Forward results are
bit-identical to the library's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional


def with_quick_gradients(module: nn.Module) -> None:
    """Change the class of the depthwise convolutions inside `module`; parameters and names are unchanged."""
    for child in module.children():
        with_quick_gradients(child)
        if type(child) is not nn.Conv2d or isinstance(child.padding, str):
            continue
        depthwise = child.groups == child.in_channels == child.out_channels > 1
        square = all(tall == wide for tall, wide in (child.kernel_size, child.stride, child.padding))
        plain = child.kernel_size[0] > 1 and child.dilation == (1, 1) and child.padding_mode == "zeros"
        if depthwise and square and plain:
            child.__class__ = QuickDepthwise


def weight_gradient(images: Tensor, gradient: Tensor, kernel: int, *, stride: int, padding: int) -> Tensor:
    """d loss / d weight, (channels, 1, kernel, kernel), of a depthwise convolution.

    images: (rows, channels, height, width); gradient: that of its output. The weight at offset (i, j) multiplies the
    pixel (stride y + i - padding, stride x + j - padding) for the output at (y, x): sum of their products.
    """
    channels = images.shape[1]
    result = images.new_zeros(kernel, kernel, channels)
    pixels, outputs = images.permute(0, 2, 3, 1), gradient.permute(0, 2, 3, 1)
    rows = [_overlap(i - padding, stride, images.shape[2], gradient.shape[2]) for i in range(kernel)]
    columns = [_overlap(j - padding, stride, images.shape[3], gradient.shape[3]) for j in range(kernel)]
    for i, (image_rows, output_rows) in enumerate(rows):
        for j, (image_columns, output_columns) in enumerate(columns):
            part = pixels[:, image_rows, image_columns] * outputs[:, output_rows, output_columns]
            result[i, j] = part.sum(dim=(0, 1, 2))
    return result.permute(2, 0, 1).unsqueeze(1)


class QuickDepthwise(nn.Conv2d):
    """A plain depthwise convolution whose weight gradient is computed here if the maps are small."""

    def forward(self, input: Tensor) -> Tensor:
        kernel, side = self.kernel_size[0], min(input.shape[2:])
        outputs = (side + 2 * int(self.padding[0]) - kernel) // self.stride[0] + 1
        small = side < kernel or 2 * outputs < kernel
        trains = torch.is_grad_enabled() and self.weight.requires_grad
        if small and trains and input.device.type == "cpu" and not torch.is_autocast_enabled("cpu"):
            how = self.stride[0], int(self.padding[0])
            quick: Tensor = _Quick.apply(input, self.weight, self.bias, *how)  # type: ignore[no-untyped-call]
            return quick
        return super().forward(input)


class _Quick(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> Tensor:
        ctx.save_for_backward(images, weight)
        ctx.stride, ctx.padding = stride, padding
        return functional.conv2d(images, weight, bias, stride, padding, groups=len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        images, weight = ctx.saved_tensors
        stride, padding = ctx.stride, ctx.padding
        of_images = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            sizes = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], len(weight)
            backward = torch.ops.aten.convolution_backward
            of_images = backward(gradient, images, weight, None, *sizes, [True, False, False])[0]
        if ctx.needs_input_grad[1]:
            of_weight = weight_gradient(images, gradient, weight.shape[-1], stride=stride, padding=padding)
        if ctx.needs_input_grad[2]:
            of_bias = gradient.sum(dim=(0, 2, 3))
        return of_images, of_weight, of_bias, None, None


def _overlap(shift: int, stride: int, size: int, outputs: int) -> tuple[slice, slice]:
    """Pixels and outputs along one side that correspond at this shift: 0 <= stride * output + shift < size."""
    first = max(0, -(shift // stride))
    last = min(outputs - 1, (size - 1 - shift) // stride)
    if last < first:
        return slice(0, 0), slice(0, 0)
    begin = stride * first + shift
    return slice(begin, begin + stride * (last - first) + 1, stride), slice(first, last + 1)
