# SPDX-License-Identifier: Apache-2.0
"""Which strategies there are: koord's own, and those of other packages by entry point."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.base.distributions import other_entry_points
from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from importlib.metadata import EntryPoint

    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Strategy
    from koord.base.feature_gates import FeatureGates

GROUP = "koord.agent.strategies"
"""Entry points of this group are callables ``(StrategyOptions) -> Strategy``."""


class BuiltInStrategy(NamedTuple):
    """One of koord's own: what switches it, and where it is."""

    gate: str
    target: str


BUILTIN: Mapping[str, BuiltInStrategy] = {
    "cpusuppress": BuiltInStrategy("BECPUSuppress", "cpusuppress.strategy:CPUSuppress"),
    "cpuburst": BuiltInStrategy("CPUBurst", "cpuburst.strategy:CPUBurst"),
    "cpuevict": BuiltInStrategy(
        "BECPUEvict|CPUAllocatableEvict|CPUEvict", "cpuevict.strategy:CPUEvict"
    ),
    "memoryevict": BuiltInStrategy(
        "BEMemoryEvict|MemoryAllocatableEvict|MemoryEvict", "memoryevict.strategy:MemoryEvict"
    ),
    "memoryqos": BuiltInStrategy("CgroupReconcile", "memoryqos.strategy:MemoryQoS"),
    "resctrl": BuiltInStrategy("RdtResctrl", "resctrl.strategy:ResctrlStrategy"),
    "blkio": BuiltInStrategy("BlkIOReconcile", "blkio.strategy:BlkIO"),
    "sysreconcile": BuiltInStrategy("SystemConfig", "sysreconcile.strategy:SystemConfig"),
}
"""In the order in which they run within a round."""

_ATTRIBUTES = ("name", "gate", "interval_seconds", "run", "stop")


def strategies(
    options: StrategyOptions, points: Iterable[EntryPoint] | None = None
) -> list[Strategy]:
    """The strategies of a process, koord's own first, then others by name.

    Of koord's own those whose gates are off are not even imported: gates are those that the process
    was started with.

    Args:
        options: what they are made from.
        points: entry points of other packages; those that are installed where None.

    Raises:
        KoordError: one cannot be loaded or is no strategy, or two have the same name.
    """
    found = [builtin(name, options) for name in BUILTIN if _on(BUILTIN[name].gate, options.gates)]
    names = set(BUILTIN)
    chosen = other_entry_points(GROUP) if points is None else points
    for point in sorted(chosen, key=lambda each: each.name):
        strategy = _outside(point, options)
        if strategy.name in names:
            raise KoordError(f"strategy {point.value}", "name", strategy.name, "a name of its own")
        names.add(strategy.name)
        found.append(strategy)
    return found


def builtin(name: str, options: StrategyOptions) -> Strategy:
    """One of koord's own; a KeyError for another name."""
    module, _, attribute = BUILTIN[name].target.partition(":")
    make: Callable[[StrategyOptions], Strategy]
    make = getattr(import_module(f"koord.agent.strategies.{module}"), attribute)
    return make(options)


def enabled(strategy: Strategy, gates: FeatureGates) -> bool:
    """Whether one of its gates (``A|B``) is on and it has an interval; no gate is always on."""
    return _on(strategy.gate, gates) and strategy.interval_seconds > 0


def _on(gate: str, gates: FeatureGates) -> bool:
    names = _gate_names(gate)
    return not names or any(map(gates.enabled, names))


@cache
def _gate_names(gate: str) -> tuple[str, ...]:
    return tuple(name for name in gate.split("|") if name)


def _outside(point: EntryPoint, options: StrategyOptions) -> Strategy:
    title = f"strategy {point.value}"
    try:
        strategy: Any = point.load()(options)
    except KoordError:
        raise
    except Exception as error:  # whatever somebody else's code raises, the agent starts or says why
        raise KoordError(title, "", repr(error), "a strategy", Code.UNSUPPORTED) from error
    missing = [name for name in _ATTRIBUTES if not hasattr(strategy, name)]
    if missing:
        raise KoordError(title, missing[0], None, f"a strategy with {', '.join(_ATTRIBUTES)}")
    known = {gate.name for gate in options.gates.known()}
    unknown = [name for name in str(strategy.gate).split("|") if name and name not in known]
    if unknown:
        raise KoordError(title, "gate", unknown[0], "a feature gate of the agent, or none")
    checked: Strategy = strategy
    return checked
