# SPDX-License-Identifier: Apache-2.0
"""The plugin's name, and why a node cannot take a pod, in the texts that Koordinator has for it."""

from __future__ import annotations

from typing import Final

from koord.controllers.scheduler.framework.rejection import Rejection

NAME: Final = "NodeNUMAResource"


def _lasting(text: str) -> Rejection:
    return Rejection(NAME, (text,), unresolvable=True)


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
INSUFFICIENT_AMPLIFIED_CPU = Rejection(NAME, ("Insufficient amplified cpu",))
NOT_ENOUGH_CPUS = Rejection(NAME, ("not enough cpus available to satisfy request",))
NO_HINTS = Rejection(NAME, ("node(s) Insufficient NUMA Node resources",))
NOMINATED_BUT_UNUSABLE = Rejection(
    NAME, ("pod has a nominated reservation but cannot be allocated within its NUMA scope",)
)
NO_NOMINATED_RESERVATION = Rejection(NAME, ("no nominated reservation",))
NO_NOMINATED_POD = Rejection(NAME, ("no nominated pre-allocatable pod",))
