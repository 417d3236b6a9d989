"""The machine that computes a run, as far as it can affect the last bits of a number."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

SETTINGS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR")
"""Environment variables that make different CPUs agree: for the kernels of PyTorch, oneDNN and MKL."""
_FEATURES = ("amx_bf16", "amx_tile", "avx512_bf16", "avx512_vnni", "avx512f", "avx_vnni", "avx2", "avx", "sve", "asimd")


@cache
def machine() -> dict[str, Any]:
    """CPU capability of PyTorch's kernels, vendor and instructions of the CPU, and the settings that limit them.

    >>> sorted(machine())[:3]
    ['capability', 'cpu', 'instructions']
    """
    import torch  # a leaderboard compares machines without it

    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        vendor = platform.machine()
    except OSError:  # not Linux
        lines, vendor = [], platform.processor() or platform.machine()
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    vendor = fields.get("vendor_id") or fields.get("CPU implementer") or vendor
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    instructions = next((name for name in _FEATURES if name in flags), "unknown")
    facts = {"capability": torch.backends.cpu.get_cpu_capability(), "cpu": vendor, "instructions": instructions}
    settings = {name: os.environ[name] for name in SETTINGS if os.environ.get(name)}
    return {**facts, "settings": settings} if settings else facts


def bits(described: Mapping[str, Any]) -> tuple[str, ...]:
    """What of the content of a run.yaml can change the last bits: equal for runs whose bits can be compared.

    A setting replaces what it limits: with all three settings, two CPUs are the same.

    >>> limited = {name: "AVX2" for name in SETTINGS}
    >>> first = {"machine": {"capability": "AVX2", "cpu": "GenuineIntel", "instructions": "avx512f"}}
    >>> second = {"machine": {"capability": "AVX2", "cpu": "AuthenticAMD", "instructions": "avx2"}}
    >>> bits(first) == bits(second)
    False
    >>> first["machine"]["settings"] = second["machine"]["settings"] = limited
    >>> bits(first) == bits(second)
    True
    """
    facts = described.get("machine") or {}
    settings = facts.get("settings") or {}
    aten, onednn, mkl = (str(settings.get(name, "")) for name in SETTINGS)
    libraries = [f"{name} {number}" for name, number in sorted((described.get("versions") or {}).items())]
    libraries += [f"{name} {facts[name]}" for name in ("gpu", "cuda", "cudnn", "bits") if name in facts]
    return (
        f"PyTorch's kernels for {facts.get('capability', 'an unknown CPU')}" if not aten else f"kernels for {aten}",
        onednn or str(facts.get("instructions", "unknown")),
        mkl or str(facts.get("cpu", "unknown")),
        *(text for text in libraries if not text.startswith(("levelfield ", "python "))),
    )


def unlike(known: Sequence[Sequence[str]]) -> list[str]:
    """In what these results of `bits` differ, in words; empty ones, of runs that train nothing, are skipped.

    >>> same = ("PyTorch's kernels for AVX2", "avx2", "AuthenticAMD")
    >>> unlike([(*same, "torch 2.6"), (), (*same, "torch 2.7")])
    ['torch 2.6 and torch 2.7']
    """
    known = [each for each in known if len(each) >= 3]
    values: dict[str, set[str]] = {}
    for each in known:
        for key, text in [*zip("012", each[:3], strict=True), *((text.split()[0], text) for text in sorted(each[3:]))]:
            values.setdefault(key, set()).add(text)
    return [" and ".join(sorted(texts)) for _, texts in sorted(values.items()) if len(texts) > 1]
