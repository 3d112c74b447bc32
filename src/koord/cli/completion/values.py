# SPDX-License-Identifier: Apache-2.0
"""What a value may be, by its metavar: names that koord knows, and names that a cluster knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.cli.completion import PROGRAMS
from koord.cli.completion.words import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.base.gates import FeatureGates
    from koord.cli.completion.words import Place

_FILES = frozenset(("FILE", "DIR", "CSV", "MANIFEST"))


def values(place: Place) -> list[Candidate] | None:
    """What a value may be; nothing where that is not known, None for names of files."""
    if place.metavar in _FILES:
        return None
    find = _KNOWN.get(place.metavar)
    if find is not None:
        return find(place)
    from koord.cli.completion import cluster

    if place.metavar not in cluster.NAMED:
        return []
    return [Candidate(name) for name in cluster.names(place.metavar, place.given)]


def _components(place: Place) -> list[Candidate]:
    del place
    from koord.cli.components import COMPONENTS

    return [Candidate(name, entry.doc) for name, entry in COMPONENTS.items()]


def _gates(place: Place) -> list[Candidate]:
    gates = _gates_of(place.program)
    return [
        Candidate(f"{gate.name}={'false' if gate.default else 'true'}", gate.doc)
        for gate in (gates.known() if gates else ())
        if gate.effect
    ]


def _gates_of(program: str) -> FeatureGates | None:
    if program == "koordlet":
        from koord.agent.gates import feature_gates
    elif program == "koord-manager":
        from koord.controllers.manager.gates import feature_gates
    elif program == "koord-scheduler":
        from koord.controllers.scheduler.gates import feature_gates
    else:
        return None
    return feature_gates()


def _controllers(place: Place) -> list[Candidate]:
    from koord.controllers.manager.options import CONTROLLERS, NODERESOURCE_PLUGINS

    names = CONTROLLERS if place.metavar == "CONTROLLER" else NODERESOURCE_PLUGINS
    return [Candidate("*", "all"), *(Candidate(f"{sign}{name}") for sign in ("", "-")
                                     for name in names)]  # fmt: skip


def _policies(place: Place) -> list[Candidate]:
    del place
    from koord.kernels.placement import policy_names

    return [Candidate(name) for name in policy_names()]


def _kinds(place: Place) -> list[Candidate]:
    del place
    from koord.api.definitions import crd_names

    return [Candidate(name) for name in crd_names()]


def _programs(place: Place) -> list[Candidate]:
    del place
    return [Candidate(name) for name in PROGRAMS]


_KNOWN: dict[str, Callable[[Place], list[Candidate]]] = {
    "COMPONENT": _components,
    "CONTROLLER": _controllers,
    "GATE=BOOL": _gates,
    "KIND": _kinds,
    "PLUGIN": _controllers,
    "POLICY": _policies,
    "PROGRAM": _programs,
}
