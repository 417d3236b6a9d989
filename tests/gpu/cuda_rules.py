"""What CUDA refuses, and where the host waits for it."""

from __future__ import annotations

from typing import Any

import torch

COPIES = {"copy_", "_to_copy", "_foreach_copy_"}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "vdot"}
SCALARS_FROM_CPU = {"masked_fill", "masked_fill_", "fill_", "index_fill", "index_fill_"}  # besides pointwise operations
CPU_ONLY = {"histogram", "_histogramdd_bin_edges", "_histogramdd_from_bin_cts", "narrow_copy", "from_file"}
WAITING = {"_local_scalar_dense", "allclose", "bincount", "equal", "histc", "is_nonzero", "masked_select"}
WAITING |= {"multinomial", "nonzero", "repeat_interleave", "_unique2", "unique_consecutive", "unique_dim"}
WAITING |= {f"{name}_ex" for name in ("_linalg_solve", "linalg_cholesky", "linalg_inv", "linalg_lu_factor")}
WAITING |= {"_linalg_eigh", "_linalg_svd"}


def written(func, args, kwargs) -> dict[str, Any]:
    """The arguments that the operation changes, by the names of their aliases."""
    result: dict[str, Any] = {}
    for number, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[number] if number < len(args) else kwargs.get(argument.name)
            result.update(dict.fromkeys(argument.alias_info.before_set, value))
    return result


def refuse(func, name, args, kwargs, here, on_cpu) -> None:
    """Raise what CUDA raises."""
    if name in CPU_ONLY:
        raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'CUDA' backend.")
    if name in PRODUCTS and here and not here[0].is_floating_point():
        raise RuntimeError(f'"{name}_cuda" not implemented for {here[0].dtype}')
    if name == "_pin_memory" and here:
        raise RuntimeError("cannot pin 'torch.cuda.FloatTensor': only dense CPU tensors can be pinned")
    if not here or not on_cpu or name in COPIES:
        return
    if name in INDEXING:  # indices may be on the CPU, everything else not
        values = args[2] if len(args) > 2 else None
        if args[0].is_cuda and (values is None or values.is_cuda or not values.dim()):
            return
    scalars = torch.Tag.pointwise in func.tags or name in SCALARS_FROM_CPU or name.startswith("_foreach")
    writes_to_cpu = any(type(value) is torch.Tensor for value in written(func, args, kwargs).values())
    if not scalars or writes_to_cpu or any(tensor.dim() for tensor in on_cpu):
        raise RuntimeError(f"Expected all tensors to be on the same device, but found cuda:0 and cpu in {func}.")


def wait_of(name, args, kwargs, to_device) -> str | None:
    """Why the host waits for the device in an operation; None if it does not."""
    if name in WAITING:
        if name != "repeat_interleave" or kwargs.get("output_size") is None:
            return "a number read" if name == "_local_scalar_dense" else name
    elif name in ("_to_copy", "copy_"):
        source = args[1 if name == "copy_" else 0].is_cuda
        target = args[0].is_cuda if name == "copy_" else to_device
        blocking = not (kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2]))
        if source != target and (source or blocking):
            return "copied to the device" if target else "copied to the host"
    elif name in INDEXING:
        indices = [index for index in args[1] if index is not None]
        masks = [index for index in indices if index.dtype == torch.bool]
        filled = len(args) > 2 and args[2].numel() == 1 and len(indices) == 1 and not (len(args) > 3 and args[3])
        if masks and not filled:  # one mask and one value are a masked_fill_
            return "boolean index"
        if any(not index.is_cuda for index in indices):
            return "index copied to the device"
    return None
