# SPDX-License-Identifier: Apache-2.0
"""slo-controller-config at admission: what changes is judged, and what it changes for others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from koord.api.sloconfig import sections
from koord.base.errors import KoordError
from koord.controllers.webhook.config_maps import HANDLERS
from koord.controllers.webhook.framework.admission_decision import AdmissionDecision
from koord.controllers.webhook.framework.admission_request import ResourceName
from koord.controllers.webhook.framework.webhook_table import VALIDATE_CONFIG_MAP
from koord.controllers.webhook.options import WebhookOptions
from tests.controllers.webhook.api_server import Server, asked, request

TITLE = f"ConfigMap {sections.CONFIG_MAP_NAMESPACE}/{sections.CONFIG_MAP_NAME}"


def told(
    new: Any, old: Any = None, *, name: str = sections.CONFIG_MAP_NAME, **options: Any
) -> AdmissionDecision:
    handler = HANDLERS[VALIDATE_CONFIG_MAP](
        Server().replica(options=WebhookOptions(**options)).given
    )
    operation = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"

    def made(data: Any) -> Any:
        texts = {
            key: each if isinstance(each, str) else json.dumps(each) for key, each in data.items()
        }
        meta = {"name": name, "namespace": sections.CONFIG_MAP_NAMESPACE}
        return {"metadata": meta, "data": texts}

    given = request(
        operation, None if new is None else made(new), None if old is None else made(old),
        kind="ConfigMap", resource=ResourceName("", "configmaps"),
    )  # fmt: skip
    return asyncio.run(asked(handler, given))


def nodes(*selectors: Any, field: str = "nodeStrategies") -> Any:
    return {field: [{"name": f"s{at}", "nodeSelector": one} for at, one in enumerate(selectors)]}


@pytest.mark.parametrize(
    ("key", "section", "line"),
    [
        (
            sections.COLOCATION, {"degradeTimeMinutes": 0},
            "data.colocation-config.degradeTimeMinutes: got 0, expected",
        ),
        (
            sections.THRESHOLD, {"clusterStrategy": {"memoryEvictThresholdPercent": 70,
                                                     "memoryEvictLowerPercent": 70}},
            "data.resource-threshold-config.clusterStrategy.memoryEvict",
        ),
        (
            sections.QOS, {"clusterStrategy": {"beClass": {"cpuQOS": {"groupIdentity": 3}}}},
            "data.resource-qos-config.clusterStrategy.beClass.cpuQOS.groupIdentity: got 3",
        ),
        (
            sections.BURST, {"clusterStrategy": {"cfsQuotaBurstPercent": 99}},
            "data.cpu-burst-config.clusterStrategy.cfsQuotaBurstPercent: got 99",
        ),
        (
            sections.SYSTEM, {"clusterStrategy": {"watermarkScaleFactor": 401}},
            "data.system-config.clusterStrategy.watermarkScaleFactor: got 401",
        ),
        (
            sections.HOST_APPLICATION,
            {"applications": [{"name": "x", "cgroupPath": {"base": "Other"}}]},
            "data.host-application-config.applications[0].cgroupPath.base: got 'Other'",
        ),
        (
            sections.NORMALIZATION, {"defaultRatio": 0.5},
            "data.cpu-normalization-config.defaultRatio: got 0.5",
        ),
        (
            sections.AMPLIFICATION, {"resourceAmplificationRatio": {"cpu": 0.5}},
            "data.resource-amplification-config.resourceAmplificationRatio[cpu]: got 0.5",
        ),
    ],
)  # fmt: skip
def test_every_section_is_judged(key: str, section: Any, line: str) -> None:
    found = told({key: section})
    assert not found.allowed
    assert line in found.message
    assert told({key: section}, {key: section}).allowed, "what did not change is not judged"


def test_one_threshold_of_a_pair_is_enough() -> None:
    assert told(
        {sections.THRESHOLD: {"clusterStrategy": {"memoryEvictThresholdPercent": 75}}}
    ).allowed


def test_what_is_no_json_is_told() -> None:
    assert "data.colocation-config" in told({sections.COLOCATION: "x"}).message


A, B = {"matchLabels": {"pool": "a"}}, {"matchLabels": {"pool": "b"}}


def expression(key: str, operator: str, *values: str) -> Any:
    requirement = {"key": key, "operator": operator}
    return {
        "matchExpressions": [{**requirement, "values": list(values)} if values else requirement]
    }


@pytest.mark.parametrize(
    ("selectors", "good"),
    [
        ((A, B), True),
        ((A, A), False),
        ((A, expression("pool", "NotIn", "a")), True),
        ((A, expression("pool", "NotIn", "b")), False),
        ((A, expression("zone", "Exists")), False),
        ((A, expression("pool", "DoesNotExist")), True),
        # Values that an index modulo their number never puts together.
        (
            (
                {"matchExpressions": [
                    *expression("pool", "In", "a", "b")["matchExpressions"],
                    *expression("zone", "In", "x", "y")["matchExpressions"],
                ]},
                {"matchLabels": {"pool": "a", "zone": "y"}},
            ),
            False,
        ),
        ((None,), False),
        (({},), False),
        ((expression("pool", "Unknown", "a"),), False),
    ],
)  # fmt: skip
def test_no_node_has_two_strategies(selectors: Any, good: bool) -> None:
    for key in (sections.THRESHOLD, sections.SYSTEM, sections.AMPLIFICATION):
        field = sections.SECTIONS[key].nodes_field
        assert told({key: nodes(*selectors, field=field)}).allowed is good, key


def test_names_are_needed_where_a_flag_says_so() -> None:
    given = {sections.THRESHOLD: {"nodeStrategies": [{"nodeSelector": A}]}}
    assert told(given).allowed
    assert not told(given, node_strategy_name_need_check=True).allowed


def network(amount: Any, selector: Any = None) -> Any:
    block = {"lsClass": {"networkQOS": {"ingressRequest": amount}}}
    if selector is None:
        return {"clusterStrategy": block}
    return {"nodeStrategies": [{"nodeSelector": selector, **block}]}


def bandwidth(amount: str) -> Any:
    return {"clusterStrategy": {"totalNetworkBandwidth": amount}}


def test_network_requests_fit_the_bandwidth_of_their_nodes() -> None:
    assert told({sections.QOS: network("200M")}).allowed
    assert told({sections.QOS: network("200M"), sections.SYSTEM: bandwidth("1G")}).allowed
    found = told({sections.QOS: network("2G"), sections.SYSTEM: bandwidth("1G")})
    assert "expected bandwidths that add up to at most 1G" in found.message
    assert not told({sections.QOS: network(101)}).allowed
    assert told({sections.QOS: network(90), sections.SYSTEM: bandwidth("10")}).allowed


def test_a_bandwidth_that_falls_is_held_against_requests_that_stay() -> None:
    qos, wrong = network("2G"), network("9G")
    before = {sections.QOS: qos, sections.SYSTEM: bandwidth("3G")}
    assert not told({**before, sections.SYSTEM: bandwidth("1G")}, before).allowed
    # What was wrong before does not stop another change.
    before = {sections.QOS: wrong, sections.SYSTEM: bandwidth("3G")}
    assert told({**before, sections.SYSTEM: bandwidth("4G")}, before).allowed


def test_other_config_maps_and_deletion_pass() -> None:
    assert told({sections.COLOCATION: "x"}, name="other").allowed
    found = told(None, {sections.COLOCATION: "x"})
    assert (found.allowed, len(found.warnings)) == (True, 1)


def test_what_one_request_costs_is_bounded() -> None:
    many = [{"matchLabels": {"pool": str(number)}} for number in range(501)]
    found = told({sections.THRESHOLD: nodes(*many)})
    assert "data.resource-threshold-config.nodeStrategies: got '501 strategies'" in found.message
    assert TITLE in found.message


def test_the_config_map_is_the_one_that_flags_name() -> None:
    wrong = {sections.COLOCATION: "x"}
    assert told(wrong, name="other", slo_config_name="other").allowed is False
    assert told(wrong, slo_config_name="other").allowed


def test_a_scope_that_there_is_not_is_told() -> None:
    with pytest.raises(KoordError) as found:
        WebhookOptions(quota_scope="all").check_scopes()
    assert str(found.value) == "--quota-scope: got 'all', expected cluster or namespace"
