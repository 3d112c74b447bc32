# SPDX-License-Identifier: Apache-2.0
"""Why a node cannot take a pod, in the words that users of Koordinator know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason or several; ``unresolvable`` ones stay whatever pods leave the node."""

    reasons: tuple[str, ...]
    unresolvable: bool = False


def _lasting(text: str) -> Refusal:
    return Refusal((text,), unresolvable=True)


CPUS_NOT_INTEGER = _lasting("the requested CPUs must be integer")
INVALID_TOPOLOGY = _lasting("node(s) invalid CPU Topology")
INVALID_RATIO = _lasting("node(s) invalid CPU amplification ratio")
BIND_POLICY_CONFLICT = _lasting(
    "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
)
SMT_ALIGNMENT = _lasting("node(s) requested cpus not multiple cpus per core")
NUMA_POLICY_CONFLICT = _lasting("node(s) NUMA Topology policy not match")
MISSING_ZONES = _lasting("node(s) missing NUMA resources")
NO_ZONE_AMOUNTS = _lasting("insufficient resources on NUMA Node")
INSUFFICIENT_AMPLIFIED_CPU = Refusal(("Insufficient amplified cpu",))
NOT_ENOUGH_CPUS = Refusal(("not enough cpus available to satisfy request",))
NO_HINTS = Refusal(("node(s) Insufficient NUMA Node resources",))
NOMINATED_BUT_UNUSABLE = Refusal(
    ("pod has a nominated reservation but cannot be allocated within its NUMA scope",)
)
NO_NOMINATED_RESERVATION = Refusal(("no nominated reservation",))
NO_NOMINATED_POD = Refusal(("no nominated pre-allocatable pod",))


def of_reservations(refusals: list[Refusal]) -> Refusal:
    """The reasons of several reservations, in their order and each once."""
    texts = [f"Reservation(s) {text}" for refusal in refusals for text in refusal.reasons]
    return Refusal(tuple(dict.fromkeys(texts)))
