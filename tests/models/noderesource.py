# SPDX-License-Identifier: Apache-2.0
"""What the node-resource plugins make of plain values.

Rule: docs/reference/node-resources.md#plugins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal

GPU_NAMES = [
    "koordinator.sh/gpu", "koordinator.sh/gpu-core", "huawei.com/npu-core", "huawei.com/npu-cpu",
    "huawei.com/npu-dvpp", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio",
    "koordinator.sh/gpu.shared",
]  # fmt: skip
Card = tuple[str, bool, Mapping[str, int]]  # type, health, resources


def moved(old: int | None, new: int | None, share: float) -> bool:
    """Amounts in milli."""
    if old is None or new is None:
        return (old is None) != (new is None)
    return abs(new - old) > old * share


def normalization(
    enabled: bool,
    model: str | None,
    hyper_thread: bool,
    turbo: bool,
    ratios: Mapping[str, Mapping[str, float | None]],
    default: float | None,
) -> str | None:
    """The annotation; None for an error. ``model`` is None without the agent's report."""
    if not enabled:
        return "1.00"
    if model is None:
        return None
    key = {
        (True, True): "hyperThreadTurboEnabledRatio",
        (True, False): "hyperThreadEnabledRatio",
        (False, True): "turboEnabledRatio",
        (False, False): "baseRatio",
    }[hyper_thread, turbo]
    ratio = ratios.get(model, {}).get(key)
    if ratio is None:
        ratio = default
    if ratio is None or ratio < 1.0 or ratio > 5.0:
        return None
    return f"{ratio:.2f}"


def amplification(
    enabled: bool, ratios: Mapping[str, float], speed: float | None
) -> dict[str, str] | None:
    """Texts of ratios by resource; None where the annotation has to be absent."""
    found = dict(ratios) if enabled else {}
    cpu = (found["cpu"] if found.get("cpu", 0) > 0 else 1) * (speed if speed is not None else 1)
    if cpu > 1:
        found["cpu"] = cpu
    if not found or any(ratio < 1 for ratio in found.values()):
        return None
    return {name: f"{found[name]:.2f}" for name in sorted(found)}


def batch(
    amounts: tuple[int, int] | None, speed: float, held: Sequence[tuple[str, int, int]]
) -> tuple[tuple[int, int] | None, tuple[int, int]]:
    """What the node shows, and what it remembers as the origin.

    ``held``: priority, CPU, memory of each third party.
    """
    if amounts is None:
        return None, (0, 0)
    cpu, memory = amounts
    if speed > 1:
        milli = Decimal(int(cpu * 1000 * speed))
        cpu = int((milli / 1000).to_integral_value(ROUND_CEILING))
    shown = (
        max(0, cpu - sum(c for p, c, _ in held if p == "koord-batch")),
        max(0, memory - sum(m for p, _, m in held if p == "koord-batch")),
    )
    return shown, (cpu, memory)


def gpus(cards: Sequence[Card] | None, vendor: str, shared: bool) -> dict[str, int | None]:
    """Amount by managed resource, None to take it away; what is left out stays as it is."""
    healthy = [resources for kind, health, resources in cards or () if kind == "gpu" and health]
    if not healthy:
        return dict.fromkeys(GPU_NAMES)
    found: dict[str, int | None] = {}
    for name in GPU_NAMES:
        having = [resources[name] for resources in healthy if name in resources]
        if having:
            found[name] = sum(having)
    if vendor in ("", "nvidia"):
        found["koordinator.sh/gpu"] = found.get("koordinator.sh/gpu-core") or 0
    found["koordinator.sh/gpu.shared"] = 100 * len(healthy) if shared else None
    return found


def rdma(cards: Sequence[Card] | None) -> int | None:
    count = sum(1 for kind, health, _ in cards or () if kind == "rdma" and health)
    return 100 * count or None
