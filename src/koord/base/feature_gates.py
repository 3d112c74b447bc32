# SPDX-License-Identifier: Apache-2.0
"""Feature gates in the form of Kubernetes: ``--feature-gates=A=true,B=false``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from koord.base.errors import KoordError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable


class GateStage(StrEnum):
    """How settled a feature is; the words are Kubernetes' own."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


@dataclass(frozen=True)
class Gate:
    """One feature.

    Args:
        name: as users write it.
        default: whether it is on by default.
        stage: how settled it is.
        doc: what it switches.
        effect: whether it switches anything here; what is only accepted does not.
    """

    name: str
    default: bool
    stage: GateStage = GateStage.ALPHA
    doc: str = ""
    effect: bool = True


def unused(name: str, default: bool, stage: GateStage, why: str) -> Gate:
    """A gate that is accepted and switches nothing here, and why that is so."""
    return Gate(name, default, stage, f"no effect: {why}", effect=False)


class FeatureGates:
    """The gates of one component and their present values."""

    def __init__(self, gates: Iterable[Gate]) -> None:
        self._gates = {gate.name: gate for gate in gates}
        self._values = {name: gate.default for name, gate in self._gates.items()}
        self._given: set[str] = set()

    def enabled(self, name: str) -> bool:
        """Whether a gate is on.

        Raises:
            KeyError: no such gate: a mistake of the program, not of a user.
        """
        return self._values[name]

    def set_from(self, text: str, object_name: str = "--feature-gates") -> None:
        """Applies ``A=true,B=false``; all or nothing. ``AllAlpha``, ``AllBeta`` set whole stages.

        Raises:
            KoordError: an item is malformed or names no gate.
        """
        groups = {"AllAlpha": GateStage.ALPHA, "AllBeta": GateStage.BETA}
        wanted = dict(self._parse(item, object_name) for item in text.split(",") if item.strip())
        values = dict(self._values)
        for name in wanted.keys() & groups.keys():
            for gate in self._gates.values():
                if gate.stage is groups[name]:
                    values[gate.name] = wanted[name]
        for name in wanted.keys() - groups.keys():
            if name not in self._gates:
                raise KoordError(object_name, "", name, self._hint(name))
            values[name] = wanted[name]
        self._values = values
        self._given |= wanted.keys() & self._gates.keys()

    def known(self) -> list[Gate]:
        """Every gate, by name."""
        return [self._gates[name] for name in sorted(self._gates)]

    def without_effect(self) -> list[str]:
        """The gates that were set by name and switch nothing, by name."""
        return sorted(name for name in self._given if not self._gates[name].effect)

    def _parse(self, item: str, object_name: str) -> tuple[str, bool]:
        name, separator, value = item.strip().partition("=")
        truth = {"true": True, "false": False, "1": True, "0": False, "t": True, "f": False}
        if not separator or value.strip().lower() not in truth:
            raise KoordError(object_name, "", item.strip(), "NAME=true or NAME=false")
        return name.strip(), truth[value.strip().lower()]

    def _hint(self, name: str) -> str:
        guess = nearest(name, list(self._gates))
        if guess:
            return f"a known gate, such as {guess}"
        names = sorted(name for name, gate in self._gates.items() if gate.effect)
        others = len(self._gates) - len(names)
        more = f", or one of {others} that have no effect" if others else ""
        return f"one of {', '.join(names)}{more}"
