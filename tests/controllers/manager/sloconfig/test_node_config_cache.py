# SPDX-License-Identifier: Apache-2.0
"""What is worked out once for many nodes equals what is worked out for each."""

from __future__ import annotations

import json
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.api import Node
from koord.api.kinds.meta import ObjectMeta
from koord.api.protocol import keys
from koord.api.sloconfig.config import SLOConfig, load
from koord.controllers.manager.node_objects.nodeslo import SECTIONS
from koord.controllers.manager.sloconfig.node_config_cache import NodeConfigCache

_KEYS = st.sampled_from(("pool", "zone", "kind"))
_TEXTS = st.sampled_from(("a", "b", ""))
_EXPRESSION = st.one_of(
    st.fixed_dictionaries({"key": _KEYS, "operator": st.sampled_from(("Exists", "DoesNotExist"))}),
    st.fixed_dictionaries(
        {"key": _KEYS, "operator": st.sampled_from(("In", "NotIn", "Nonsense")),
         "values": st.lists(_TEXTS, min_size=1, max_size=2)}),
)  # fmt: skip
_SELECTOR = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(_KEYS, _TEXTS, max_size=2),
        "matchExpressions": st.lists(_EXPRESSION, max_size=2),
    },
)
_STRATEGY = st.fixed_dictionaries(
    {"cpuBurstPercent": st.integers(0, 5)}, optional={"nodeSelector": _SELECTOR}
)
_NODE = st.tuples(
    st.dictionaries(_KEYS, _TEXTS), st.sampled_from((None, "1G", "2G", "no quantity"))
)


def node(number: int, labels: dict[str, str], bandwidth: str | None = None) -> Node:
    notes = {keys.NETWORK_BANDWIDTH: bandwidth} if bandwidth else {}
    mine = {**labels, "kubernetes.io/hostname": str(number)}
    return Node(metadata=ObjectMeta(name=f"n{number}", labels=mine, annotations=notes))


def configured(burst: list[dict[str, Any]], threshold: list[dict[str, Any]]) -> SLOConfig:
    sections = {"cpu-burst-config": burst, "resource-threshold-config": threshold}
    return load({key: json.dumps({"nodeStrategies": value}) for key, value in sections.items()})


def specs() -> NodeConfigCache[Any]:
    return NodeConfigCache(
        SECTIONS,
        lambda config, node: config.node_slo_spec(node),
        annotations=(keys.NETWORK_BANDWIDTH,),
    )


@given(
    configs=st.lists(
        st.tuples(st.lists(_STRATEGY, max_size=3), st.lists(_STRATEGY, max_size=2)),
        min_size=1, max_size=2,
    ),
    nodes=st.lists(_NODE, max_size=6),
)  # fmt: skip
def test_every_node_gets_what_it_would_get_alone(
    configs: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]],
    nodes: list[tuple[dict[str, str], str | None]],
) -> None:
    shared = specs()
    for burst, threshold in configs:
        config = configured(burst, threshold)
        for number, (labels, bandwidth) in enumerate(nodes):
            each = node(number, labels, bandwidth)
            assert shared.of(config, each) == config.node_slo_spec(each)
        kinds = {(tuple(sorted(labels.items())), bandwidth) for labels, bandwidth in nodes}
        assert len(shared) <= len(kinds), "names of machines do not count"


def test_ten_thousand_nodes_cost_a_fraction_of_working_each_out() -> None:
    many = [
        {"nodeSelector": {"matchLabels": {"pool": f"p{i}"}}, "cpuBurstPercent": i}
        for i in range(20)
    ]
    config = configured(many, many)
    nodes = [node(i, {"pool": f"p{i % 25}"}) for i in range(10_000)]
    shared = specs()
    began = time.process_time()
    for each in nodes:
        shared.of(config, each)
    together = time.process_time() - began
    assert len(shared) == 25
    began = time.process_time()
    for each in nodes[:500]:
        config.node_slo_spec(each)
    alone = (time.process_time() - began) * 20
    assert together < alone / 10
