# SPDX-License-Identifier: Apache-2.0
"""Which hooks there are: koord's own, and those that packages bring as entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from koord.agent.hooks.hook import Hook
from koord.base.distributions import other_entry_points
from koord.base.errors import KoordError, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from koord.agent.hooks.options import HookOptions

GROUP = "koord.agent.hooks"
Factory = Callable[["HookOptions"], Hook]

_PACKAGE = "koord.agent.hooks.builtin"


class BuiltInHook(NamedTuple):
    """One of koord's own: its name, what switches it, and where it is."""

    hook: str
    gate: str
    target: str


BUILTIN: dict[str, BuiltInHook] = {
    "batch-resource": BuiltInHook("BatchResource", "BatchResource", "batch_resource:BatchResource"),
    "core-sched": BuiltInHook("CoreSched", "CoreSched", "core_sched:CoreSched"),
    "cpu-normalization": BuiltInHook(
        "CPUNormalization", "CPUNormalization", "cpu_normalization:CPUNormalization"
    ),
    "cpuset-allocator": BuiltInHook(
        "CPUSetAllocator", "CPUSetAllocator", "cpuset_allocator:CPUSetAllocator"
    ),
    "gpu-env": BuiltInHook("gpu env inject", "GPUEnvInject", "gpu_env:GPUEnvInject"),
    "group-identity": BuiltInHook("GroupIdentity", "GroupIdentity", "group_identity:GroupIdentity"),
    "oom-score-adj": BuiltInHook("OOMScoreAdj", "OOMScoreAdj", "oom_score:OOMScoreAdj"),
    "rdma-device": BuiltInHook(
        "rdma device inject", "RDMADeviceInject", "rdma_device:RDMADeviceInject"
    ),
    "resctrl": BuiltInHook("Resctrl", "Resctrl", "resctrl:Resctrl"),
    "tc-network-qos": BuiltInHook("TCNetworkQoS", "TCNetworkQoS", "tc_network_qos:TCNetworkQoS"),
    "terway-qos": BuiltInHook("TerwayQoS", "TerwayQoS", "terway_qos:TerwayQoS"),
}
"""By the name of the entry point; these need no installed metadata."""


def builtin(name: str) -> Factory:
    """What makes one of koord's own; a KeyError for another name."""
    module, _, attribute = BUILTIN[name].target.partition(":")
    factory: Factory = getattr(import_module(f"{_PACKAGE}.{module}"), attribute)
    return factory


def load(options: HookOptions, entries: Iterable[EntryPoint] | None = None) -> list[Hook]:
    """The hooks whose gate is on, in byte order of their names.

    Args:
        options: what hooks are made with.
        entries: entry points; those installed if None.

    Raises:
        KoordError: one cannot be loaded, is no hook, or two have one name.
    """
    points = other_entry_points(GROUP) if entries is None else entries
    # Of koord's own those whose gates are off are not even imported.
    factories = {
        name: builtin(name) for name, each in BUILTIN.items() if _on(each.hook, each.gate, options)
    }
    for point in sorted(points, key=lambda p: p.name):
        if point.name not in BUILTIN:
            factories[point.name] = _loaded(point)
    own = {each.hook: name for name, each in BUILTIN.items()}
    hooks: dict[str, Hook] = {}
    for name, factory in factories.items():
        hook = _made(name, factory, options)
        if hook.name in hooks or own.get(hook.name, name) != name:
            raise KoordError(f"hook {name}", "name", hook.name, "a name that no other hook has")
        hooks[hook.name] = hook
    enabled = (
        hook for hook in hooks.values() if not hook.gate or _on(hook.name, hook.gate, options)
    )
    return sorted(enabled, key=lambda hook: hook.name.encode())


def _on(hook: str, gate: str, options: HookOptions) -> bool:
    try:
        return options.gate(gate)
    except KeyError:
        expected = "a known feature gate, or none"
        raise KoordError(f"hook {hook}", "gate", gate, expected) from None


def _loaded(point: EntryPoint) -> Factory:
    try:
        factory: Factory = point.load()
    except Exception as error:
        why = one_line(f"{type(error).__name__}: {error}")
        raise KoordError(f"hook {point.name}", "", point.value, f"importable ({why})") from None
    if not callable(factory):
        raise KoordError(f"hook {point.name}", "", point.value, "a callable (options) -> Hook")
    return factory


def _made(name: str, factory: Factory, options: HookOptions) -> Hook:
    hook = factory(options)
    for needed in ("name", "gate", "stages", "follows", "learn", "pod", "container"):
        if not hasattr(hook, needed):
            raise KoordError(f"hook {name}", needed, type(hook).__name__, "a hook, which has it")
    return hook
