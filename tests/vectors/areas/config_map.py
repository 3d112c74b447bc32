# SPDX-License-Identifier: Apache-2.0
"""Whether slo-controller-config is admitted, beside what it was and the nodes that are there.

Sections are complete: what the original says of one threshold of a pair alone has a part of the
cases to itself.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from koord.api.sloconfig import sections
from koord.controllers.webhook.config_maps import HANDLERS
from koord.controllers.webhook.framework.admission_request import ResourceName
from koord.controllers.webhook.framework.webhook_table import VALIDATE_CONFIG_MAP
from koord.controllers.webhook.options import WebhookOptions
from tests.controllers.webhook.api_server import Server, asked, request
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random

SEED = 20283
COVERAGE = {
    "cm/plugins/sloconfig/slo_config_plugin.go:Validate": "the rest is for DELETE and others",
}

_KEYS = [sections.COLOCATION, sections.THRESHOLD, sections.QOS, sections.SYSTEM, sections.BURST]
_UNCHECKED = [key for key in sections.SECTIONS if key not in _KEYS]
_LABELS = [{}, {"pool": "a"}, {"pool": "b"}, {"pool": "a", "zone": "x"}, {"pool": "b", "zone": "y"}]
_SELECTORS: list[Json] = [
    {"matchLabels": {"pool": "a"}}, {"matchLabels": {"pool": "b"}}, {"matchLabels": {"pool": "c"}},
    {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["d", "e"]}]},
    {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a", "d"]}]},
    {"matchLabels": {"pool": "a", "zone": "x"}}, {"matchLabels": {"zone": "y"}},
    {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a"]}]},
    {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]},
    {"matchExpressions": [
        {"key": "pool", "operator": "In", "values": ["a", "b"]},
        {"key": "zone", "operator": "In", "values": ["x", "y"]},
    ]},
    {}, None, {"matchExpressions": [{"key": "pool", "operator": "Unknown", "values": ["a"]}]},
]  # fmt: skip
_FIELDS: dict[str, dict[str, list[Any]]] = {
    sections.COLOCATION: {
        "enable": [True, False], "metricAggregateDurationSeconds": [300, 1, 0],
        "cpuReclaimThresholdPercent": [60, 0, 150, -1], "degradeTimeMinutes": [15, 0, -5],
        "resourceDiffThreshold": [0.1, 1, 0, 1.5], "midCPUThresholdPercent": [0, 100, 101],
        "memoryCalculatePolicy": ["usage", "request"], "midReclaimMode": ["static", "other"],
    },
    sections.THRESHOLD: {
        "enable": [True], "cpuSuppressThresholdPercent": [65, 0, 100, 101, -1],
        "cpuSuppressPolicy": ["cpuset", "cfsQuota", "x"], "cpuEvictTimeWindowSeconds": [60, 0],
        "cpuEvictPolicy": ["evictByRealLimit", "x"],
        "allocatableEvictPriorityThreshold": [5999, 8000],
    },
    sections.SYSTEM: {
        "minFreeKbytesFactor": [100, 0], "watermarkScaleFactor": [150, 400, 401],
        "memcgReapBackGround": [0, 1, 2], "totalNetworkBandwidth": ["10M", "1G"],
    },
    sections.BURST: {
        "policy": ["none", "auto", "x"], "cpuBurstPercent": [1000, 1, 0, 10001],
        "cfsQuotaBurstPercent": [300, 100, 99], "cfsQuotaBurstPeriodSeconds": [-1, 10, -2],
        "sharePoolThresholdPercent": [50, 101],
    },
}  # fmt: skip
_PAIRS = [
    ("memoryEvictLowerPercent", "memoryEvictThresholdPercent"),
    ("cpuEvictBESatisfactionLowerPercent", "cpuEvictBESatisfactionUpperPercent"),
    ("cpuEvictLowerPercent", "cpuEvictThresholdPercent"),
]


def inputs(draw: random.Random) -> list[Json]:
    """What a ConfigMap was and is to be, and the labels of nodes."""
    return [_case(draw) for _ in range(700)]


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    options = WebhookOptions(node_strategy_name_need_check=case["names"])
    handler = HANDLERS[VALIDATE_CONFIG_MAP](Server().replica(options=options).given)
    old = None if case["old"] is None else _map(case["old"])
    operation = "CREATE" if old is None else "UPDATE"
    given = request(
        operation, _map(case["new"]), old, kind="ConfigMap", resource=ResourceName("", "configmaps")
    )
    return {"denied": not asyncio.run(asked(handler, given)).allowed}


def pair(case: Json, theirs: Json) -> tuple[Json, Json]:
    """The two tell of what is wrong in other words and order: the verdict counts.

    A panic of the original's refuses, too.
    """
    return case, {"denied": theirs.get("reason") != ""}


def _map(data: Json) -> Json:
    meta = {"name": sections.CONFIG_MAP_NAME, "namespace": sections.CONFIG_MAP_NAMESPACE}
    return {"metadata": meta, "data": data}


def _strategy(draw: random.Random, key: str, good: float) -> Json:
    found: dict[str, Any] = {}
    if key == sections.QOS:
        return _qos(draw, good)
    for name, values in _FIELDS.get(key, {}).items():
        if draw.random() < 0.35:
            found[name] = values[0] if draw.random() < good else draw.choice(values)
    if key == sections.THRESHOLD:
        for low, high in _PAIRS:
            if draw.random() < 0.3:
                if draw.random() < 0.9:
                    found[low] = draw.choice([30, 60])
                found[high] = 70 if draw.random() < good else draw.choice([30, 60, 101])
    return found


def _qos(draw: random.Random, good: float) -> Json:
    """Without network requests, which have rules of their own."""
    choices: dict[str, list[Any]] = {
        "wmarkRatio": [95, 0, 101], "throttlingPercent": [80, -1], "priority": [5, 13],
        "wmarkMinAdj": [-25, 50, 51], "oomKillGroup": [1, 2],
    }  # fmt: skip
    memory: dict[str, Any] = {"enable": True}
    for name, values in choices.items():
        if draw.random() < 0.4:
            memory[name] = values[0] if draw.random() < good else draw.choice(values)
    start, end = (0, 30) if draw.random() < good else draw.choice([(30, 30), (40, 30), (0, 101)])
    resctrl = {"catRangeStartPercent": start, "catRangeEndPercent": end}
    return {draw.choice(["lsrClass", "lsClass", "beClass"]): {
        "memoryQOS": memory, "resctrlQOS": resctrl,
        "cpuQOS": {"groupIdentity": 2 if draw.random() < good else draw.choice([-1, 3])},
    }}  # fmt: skip


def _section(draw: random.Random, key: str, good: float) -> str:
    if draw.random() < 0.03:
        return draw.choice(["x", "[]", '{"nodeStrategies":{}, "nodeConfigs":{}}'])
    section = sections.SECTIONS[key]
    cluster = _strategy(draw, key, good)
    found: Json = {section.cluster_field: cluster} if section.cluster_field else dict(cluster)
    count = draw.choice([0, 0, 1, 2, 3])
    usable = _SELECTORS[:4] if draw.random() < good else _SELECTORS
    chosen = draw.sample(usable, min(count, len(usable)))
    found[section.nodes_field] = [
        {"name": draw.choice(["s", "t", f"s{at}", ""]), "nodeSelector": one,
         **_strategy(draw, key, good)}
        for at, one in enumerate(chosen)
    ]  # fmt: skip
    return json.dumps(found)


def _case(draw: random.Random) -> Json:
    good = draw.choice([1.0, 0.9, 0.6])
    chosen = draw.sample(_KEYS, draw.randint(1, 2)) + draw.sample(_UNCHECKED, draw.randint(0, 1))
    if sections.QOS in chosen and sections.SYSTEM not in chosen and draw.random() < 0.9:
        chosen.append(sections.SYSTEM)
    new = {key: _section(draw, key, good) for key in chosen}
    old = None
    if draw.random() < 0.5:
        old = {key: text for key, text in new.items() if draw.random() < 0.5}
        if draw.random() < 0.3:
            key = draw.choice(_KEYS)
            old[key] = _section(draw, key, good)
    nodes = [draw.choice(_LABELS) for _ in range(draw.randint(0, 3))]
    return {"old": old, "new": new, "nodes": nodes, "names": draw.random() < 0.2}


def _denied(case: Json, new: Json) -> bool:
    return bool(answer({**case, "new": new, "old": None})["denied"])


def _changed(case: Json) -> Json:
    old = case["old"] or {}
    return {key: text for key, text in case["new"].items() if old.get(key) != text}


def _of_all_sections(case: Json, theirs: Json, ours: Json) -> bool:
    """What the original does not look at is wrong, and nothing else."""
    changed = _changed(case)
    rest = {key: text for key, text in changed.items() if key in _KEYS}
    return bool(ours["denied"]) and len(rest) < len(changed) and not _denied(case, rest)


def _qos_alone(case: Json, theirs: Json, ours: Json) -> bool:
    """resource-qos-config has changed, and some nodes have no bandwidth in system-config."""
    if ours["denied"] or sections.QOS not in _changed(case):
        return False
    section = json.loads(case["new"].get(sections.SYSTEM, "{}"))
    levels = [section.get("clusterStrategy", {}), *section.get("nodeStrategies", [])]
    return any("totalNetworkBandwidth" not in each for each in levels)


def _unknown_words(case: Json, theirs: Json, ours: Json) -> bool:
    """A policy is a word that nobody knows."""
    known = {key: text for key, text in _changed(case).items() if key in _KEYS}
    for word, good in (
        ('"policy": "x"', '"policy": "auto"'),
        ('"cpuEvictPolicy": "x"', '"cpuEvictPolicy": "evictByRealLimit"'),
        ('"cpuSuppressPolicy": "x"', '"cpuSuppressPolicy": "cpuset"'),
        ('"midReclaimMode": "other"', '"midReclaimMode": "static"'),
    ):
        known = {key: text.replace(word, good) for key, text in known.items()}
    return bool(ours["denied"]) and not _denied(case, known)


def _half_pairs(case: Json, theirs: Json, ours: Json) -> bool:
    """A level names one threshold of a pair, and the other comes from above."""
    text = _changed(case).get(sections.THRESHOLD)
    if ours["denied"] or text is None:
        return False
    section = json.loads(text)
    levels = [section.get("clusterStrategy", {}), *section.get("nodeStrategies", [])]
    return any((low in each) != (high in each) for each in levels for low, high in _PAIRS)


DIFFERENCES = {
    "config-all-sections": Difference(
        "sections that the original does not validate are validated, too", covers=_of_all_sections
    ),
    "config-qos-alone": Difference(
        "network requests need no system-config beside them", covers=_qos_alone
    ),
    "config-merged-strategy": Difference(
        "the strategy in force is judged, not each level as it is written", covers=_half_pairs
    ),
    "config-known-words": Difference(
        "a policy that no agent knows is refused", covers=_unknown_words
    ),
}
