# SPDX-License-Identifier: Apache-2.0
"""Who binds CPUs and under which policy, and what is said of nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.protocol.scheduling import ResourceSpec
from koord.base.errors import KoordError
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import NodeTopology
from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import (
    CPUBindRules,
    NUMARequest,
    bind_rules_on,
    completed_spec,
    request_of,
)
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import NUMA_SPEC, SPEC, bound_pod


def request(cpu: int = 4000, default: str = "FullPCPUs", **spec: Any) -> NUMARequest | Rejection:
    return request_of(bound_pod("p", **spec), {"cpu": cpu, "memory": 1 << 30}, default)


def bound(**spec: Any) -> NUMARequest:
    found = request(**spec)
    assert isinstance(found, NUMARequest)
    return found


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, (True, "", "FullPCPUs")),
        ({"qos": "LSE"}, (True, "", "FullPCPUs")),
        ({"preferred": "Default"}, (True, "", "FullPCPUs")),
        ({"preferred": "SpreadByPCPUs"}, (True, "", "SpreadByPCPUs")),
        ({"required": "SpreadByPCPUs"}, (True, "SpreadByPCPUs", "SpreadByPCPUs")),
        (
            {"required": "FullPCPUs", "preferred": "SpreadByPCPUs"},
            (True, "FullPCPUs", "FullPCPUs"),
        ),
        ({"required": "Default"}, (True, "FullPCPUs", "FullPCPUs")),
        ({"default": "SpreadByPCPUs"}, (True, "", "SpreadByPCPUs")),
        ({"default": ""}, (False, "", "")),
        ({"default": "", "required": "Default"}, (False, "", "")),
        ({"qos": "LS"}, (False, "", "")),
        ({"qos": ""}, (False, "", "")),
        ({"qos": "lsr"}, (False, "", "")),
        ({"priority": 5500}, (False, "", "")),
        ({"priority": 0}, (True, "", "FullPCPUs")),
        ({"cpu": 0}, (False, "", "")),
    ],
)
def test_who_binds(spec: dict[str, Any], expected: tuple[bool, str, str]) -> None:
    found = bound(**spec)
    assert (found.bound, found.required, found.preferred) == expected


def test_bound_cpus_are_whole() -> None:
    found = request(cpu=2500)
    assert isinstance(found, Rejection)
    assert found.reasons == ("the requested CPUs must be integer",)
    assert found.unresolvable
    assert bound(cpu=2500, qos="LS").cpus == 2


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (
            {"required": "FullPCPU"},
            f"Pod default/p: annotations[{SPEC}].requiredCPUBindPolicy: got 'FullPCPU', "
            "expected Default, FullPCPUs or SpreadByPCPUs",
        ),
        ({"preferred": "ConstrainedBurst"}, "preferredCPUBindPolicy: got 'ConstrainedBurst'"),
        ({"exclusive": "NUMA"}, "preferredCPUExclusivePolicy: got 'NUMA'"),
        ({"numa": "Single"}, f"annotations[{NUMA_SPEC}].numaTopologyPolicy: got 'Single'"),
        ({"numa": "Restricted", "alone": "Yes"}, "singleNUMANodeExclusive: got 'Yes'"),
        ({"annotations": {SPEC: "{"}}, f"annotations[{SPEC}]"),
        ({"annotations": {NUMA_SPEC: "[]"}}, f"annotations[{NUMA_SPEC}]"),
    ],
)
def test_nonsense_is_one_line_that_names_the_field(spec: dict[str, Any], line: str) -> None:
    with pytest.raises(KoordError) as caught:
        request(**spec)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_pod_may_not_use_is_not_looked_at() -> None:
    assert not bound(qos="LS", required="Whatever").bound


@pytest.mark.parametrize(
    ("spec", "label", "expected"),
    [
        ({}, "None", CPUBindRules(True, "FullPCPUs", False)),
        ({}, "SpreadByPCPUs", CPUBindRules(True, "SpreadByPCPUs", True)),
        ({"required": "FullPCPUs"}, "SpreadByPCPUs", CPUBindRules(True, "FullPCPUs", True)),
        ({"qos": "LS"}, "None", CPUBindRules()),
        ({"qos": "LS"}, "FullPCPUsOnly", CPUBindRules(True, "FullPCPUs", True)),
        ({"qos": "LS", "cpu": 0}, "FullPCPUsOnly", CPUBindRules()),
    ],
)
def test_what_a_node_makes_of_it(spec: dict[str, Any], label: str, expected: CPUBindRules) -> None:
    assert bind_rules_on(bound(**spec), NodeTopology(bind_policy=label)) == expected


def test_nodes_that_bind_want_whole_cpus_of_everybody() -> None:
    found = bind_rules_on(bound(qos="LS", cpu=1500), NodeTopology(bind_policy="SpreadByPCPUs"))
    assert isinstance(found, Rejection)


@pytest.mark.parametrize(
    ("before", "binding", "after"),
    [
        (("", ""), CPUBindRules(True, "FullPCPUs", False), ("", "FullPCPUs")),
        (("", ""), CPUBindRules(True, "FullPCPUs", True), ("FullPCPUs", "")),
        (("Default", ""), CPUBindRules(True, "SpreadByPCPUs", True), ("SpreadByPCPUs", "")),
        (("", "Default"), CPUBindRules(True, "FullPCPUs", False), ("", "FullPCPUs")),
        (("", "Default"), CPUBindRules(True, "FullPCPUs", True), ("FullPCPUs", "FullPCPUs")),
        (("FullPCPUs", ""), CPUBindRules(True, "FullPCPUs", True), None),
        (("", "SpreadByPCPUs"), CPUBindRules(True, "SpreadByPCPUs", False), None),
    ],
)
def test_the_policy_that_was_used_is_filled_in(
    before: tuple[str, str], binding: CPUBindRules, after: tuple[str, str] | None
) -> None:
    spec = ResourceSpec(
        required_cpu_bind_policy=before[0],
        preferred_cpu_bind_policy=before[1],
        preferred_cpu_exclusive_policy="PCPULevel",
    )
    found = completed_spec(spec, binding)
    if after is None:
        assert found is None
        return
    assert found is not None
    assert (found.required_cpu_bind_policy, found.preferred_cpu_bind_policy) == after
    assert found.preferred_cpu_exclusive_policy == "PCPULevel"
