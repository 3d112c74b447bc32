# SPDX-License-Identifier: Apache-2.0
"""What a value may be, by its metavar: names that koord knows, and names that a cluster knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.cli.completion.command_line import Completion
from koord.cli.completion.protocol import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.base.feature_gates import FeatureGates
    from koord.cli.completion.command_line import WordContext

_FILES = frozenset(("FILE", "DIR", "CSV", "MANIFEST"))


def values(place: WordContext) -> list[Completion] | None:
    """What a value may be; nothing where that is not known, None for names of files."""
    if place.metavar in _FILES:
        return None
    find = _VALUES_BY_METAVAR.get(place.metavar)
    if find is not None:
        return find(place)
    from koord.cli.completion import cluster_names

    if place.metavar not in cluster_names.NAMED:
        return []
    return [Completion(name) for name in cluster_names.names(place.metavar, place.given)]


def _components(place: WordContext) -> list[Completion]:
    del place
    from koord.cli.commands.up.components import COMPONENTS

    return [Completion(name, entry.doc) for name, entry in COMPONENTS.items()]


def _gates(place: WordContext) -> list[Completion]:
    gates = _gates_of(place.program)
    return [
        Completion(f"{gate.name}={'false' if gate.default else 'true'}", gate.doc)
        for gate in (gates.known() if gates else ())
        if gate.effect
    ]


def _gates_of(program: str) -> FeatureGates | None:
    if program == "koordlet":
        from koord.agent.feature_gates import feature_gates
    elif program in ("koord-manager", "koord-webhook"):
        from koord.controllers.manager.feature_gates import feature_gates
    elif program == "koord-descheduler":
        from koord.controllers.descheduler.feature_gates import feature_gates
    elif program == "koord-scheduler":
        from koord.controllers.scheduler.feature_gates import feature_gates
    else:
        return None
    return feature_gates()


def _controllers(place: WordContext) -> list[Completion]:
    from koord.controllers.manager.options import CONTROLLERS, NODERESOURCE_PLUGINS

    names = CONTROLLERS if place.metavar == "CONTROLLER" else NODERESOURCE_PLUGINS
    return [Completion("*", "all"), *(Completion(f"{sign}{name}") for sign in ("", "-")
                                     for name in names)]  # fmt: skip


def _policies(place: WordContext) -> list[Completion]:
    del place
    from koord.kernels.placement import policy_names

    return [Completion(name) for name in policy_names()]


def _kinds(place: WordContext) -> list[Completion]:
    del place
    from koord.api.definitions import crd_names

    return [Completion(name) for name in crd_names()]


def _programs(place: WordContext) -> list[Completion]:
    del place
    return [Completion(name) for name in PROGRAMS]


_VALUES_BY_METAVAR: dict[str, Callable[[WordContext], list[Completion]]] = {
    "COMPONENT": _components,
    "CONTROLLER": _controllers,
    "GATE=BOOL": _gates,
    "KIND": _kinds,
    "PLUGIN": _controllers,
    "POLICY": _policies,
    "PROGRAM": _programs,
}
