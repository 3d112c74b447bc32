# SPDX-License-Identifier: Apache-2.0
"""Which hooks there are: koord's own, and those that packages bring as entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from koord.agent.hooks.builtin.batch_resource import BatchResource
from koord.agent.hooks.builtin.core_sched import CoreSched
from koord.agent.hooks.builtin.cpu_normalization import CPUNormalization
from koord.agent.hooks.builtin.cpuset_allocator import CPUSetAllocator
from koord.agent.hooks.builtin.gpu_env import GPUEnvInject
from koord.agent.hooks.builtin.group_identity import GroupIdentity
from koord.agent.hooks.builtin.oom_score import OOMScoreAdj
from koord.agent.hooks.builtin.rdma_device import RDMADeviceInject
from koord.agent.hooks.builtin.resctrl import Resctrl
from koord.agent.hooks.builtin.tc_network_qos import TCNetworkQoS
from koord.agent.hooks.builtin.terway_qos import TerwayQoS
from koord.agent.hooks.hook import Hook
from koord.base.distributions import other_entry_points
from koord.base.errors import KoordError, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from koord.agent.hooks.options import HookOptions

GROUP = "koord.agent.hooks"
Factory = Callable[["HookOptions"], Hook]

BUILTIN: dict[str, Factory] = {
    "batch-resource": BatchResource,
    "core-sched": CoreSched,
    "cpu-normalization": CPUNormalization,
    "cpuset-allocator": CPUSetAllocator,
    "gpu-env": GPUEnvInject,
    "group-identity": GroupIdentity,
    "oom-score-adj": OOMScoreAdj,
    "rdma-device": RDMADeviceInject,
    "resctrl": Resctrl,
    "tc-network-qos": TCNetworkQoS,
    "terway-qos": TerwayQoS,
}
"""By the name of the entry point; these need no installed metadata."""


def load(options: HookOptions, entries: Iterable[EntryPoint] | None = None) -> list[Hook]:
    """The hooks whose gate is on, in byte order of their names.

    Args:
        options: what hooks are made with.
        entries: entry points; those installed if None.

    Raises:
        KoordError: one cannot be loaded, is no hook, or two have one name.
    """
    points = other_entry_points(GROUP) if entries is None else entries
    factories = dict(BUILTIN)
    for point in sorted(points, key=lambda p: p.name):
        if point.name not in BUILTIN:
            factories[point.name] = _loaded(point)
    hooks: dict[str, Hook] = {}
    for name, factory in factories.items():
        hook = _made(name, factory, options)
        if hook.name in hooks:
            raise KoordError(f"hook {name}", "name", hook.name, "a name that no other hook has")
        hooks[hook.name] = hook
    enabled = (hook for hook in hooks.values() if not hook.gate or _on(hook, options))
    return sorted(enabled, key=lambda hook: hook.name.encode())


def _on(hook: Hook, options: HookOptions) -> bool:
    try:
        return options.gate(hook.gate)
    except KeyError:
        expected = "a known feature gate, or none"
        raise KoordError(f"hook {hook.name}", "gate", hook.gate, expected) from None


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
