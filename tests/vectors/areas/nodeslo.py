# SPDX-License-Identifier: Apache-2.0
"""The NodeSLO that a configuration makes of a node.

Values are valid, as admission lets them in: of what to do with others the two differ. Sections that
are no JSON, and selectors that cannot be evaluated, are among the cases.
Empty objects and lists mean their absence and are left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import msgspec

from koord.api import codec
from koord.api.kinds.node import Node
from koord.api.kinds.qos_strategy import ResourceQOSStrategy
from koord.api.kinds.slo_strategies import (
    CPUBurstStrategy,
    ResourceThresholdStrategy,
    SystemStrategy,
)
from koord.api.protocol import keys
from koord.api.sloconfig import rules, sections
from koord.api.sloconfig.config import load
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random

SEED = 20264
_UNCHECKED = "the rest notes errors that these parts never return"
COVERAGE = {
    "nodeslo_controller.go:getNodeSLOSpec": _UNCHECKED,
}

_STRATEGIES = {
    sections.THRESHOLD: ResourceThresholdStrategy,
    sections.QOS: ResourceQOSStrategy,
    sections.BURST: CPUBurstStrategy,
    sections.SYSTEM: SystemStrategy,
}
_LABELS: list[dict[str, str]] = [{}, {"pool": "a"}, {"pool": "b"}, {"pool": "a", "zone": "x"}]
_SELECTORS: list[Json] = [
    {}, {"matchLabels": {"pool": "a"}}, {"matchLabels": {"pool": "b"}}, None,
    {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a"]}]},
    {"matchExpressions": [{"key": "pool", "operator": "Unknown"}]},
]  # fmt: skip
_LARGE = 10_000


def inputs(draw: random.Random) -> list[Json]:
    """Configurations of few sections with few fields, and a node."""
    return [_case(draw) for _ in range(400)]


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    node = codec.convert(case["node"], Node, "node")
    spec = codec.to_document(load(case["data"]).node_slo_spec(node))
    return pruned(spec)


def pruned(document: Json) -> Json:
    """A document without what is empty, and a bandwidth of 0, which is none."""
    if isinstance(document, list):
        return [pruned(each) for each in document]
    if not isinstance(document, dict):
        return document
    found = {key: pruned(value) for key, value in document.items()}
    if found.get("totalNetworkBandwidth") == "0":
        del found["totalNetworkBandwidth"]
    return {key: value for key, value in found.items() if value not in (None, "", {}, [])}


def _value(draw: random.Random, kind: type, name: str, hint: Any) -> Json:
    inner = [each for each in (hint, *get_args(hint)) if isinstance(each, type)]
    for each in inner:
        if issubclass(each, msgspec.Struct):
            return _struct(draw, each, 0.4)
    choices = rules.CHOICES.get(kind, {}).get(name)
    if choices:
        return draw.choice(choices)
    if "Request" in name or ("Limit" in name and kind.__name__ == "NetworkQOS"):
        return draw.choice([0, 5, 20]) if "Request" in name else draw.choice([50, 100, "50M"])
    if any(each is bool for each in inner):
        return draw.random() < 0.5
    bounds = rules.BOUNDS.get(kind, {}).get(name)
    low = int(bounds.low) + bounds.above if bounds else 0
    high = int(bounds.high) if bounds and bounds.high is not None else low + _LARGE
    if "Lower" in name or "Start" in name:
        high = low + 30
    elif "Threshold" in name or "Upper" in name or "End" in name:
        low += 70
    return draw.choice([low, high, draw.randint(low, high)])


def _struct(draw: random.Random, kind: type[Any], share: float) -> Json:
    hints = get_type_hints(kind)
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        name = field.encode_name
        if draw.random() >= share or name in ("totalNetworkBandwidth", "schedFeatures"):
            continue
        if name == "blocks":
            types = ["device", "volumegroup", "podvolume"]
            found[name] = [{"name": draw.choice("ab"), "type": draw.choice(types)}]
        else:
            found[name] = _value(draw, kind, name, hints[field.name])
    if kind is SystemStrategy and draw.random() < share:
        found["totalNetworkBandwidth"] = draw.choice(["1000M", "10G", "1Gi"])
        found["schedFeatures"] = {draw.choice(["ID_EXPELLER", "OTHER"]): draw.random() < 0.5}
    return found


def _section(draw: random.Random, kind: type[Any]) -> str:
    section: dict[str, Any] = {}
    if draw.random() < 0.04:
        return draw.choice(["", "{", "[]", '"x"', '{"clusterStrategy":[]}'])
    share = draw.choice([0.1, 0.3, 0.8])
    if draw.random() < 0.85:
        section["clusterStrategy"] = _struct(draw, kind, share)
    if draw.random() < 0.7:
        section["nodeStrategies"] = [
            {
                "name": f"s{at}",
                "nodeSelector": draw.choice(_SELECTORS),
                **_struct(draw, kind, share),
            }
            for at in range(draw.randint(0, 3))
        ]
    return json.dumps(section)


def _applications(draw: random.Random) -> list[Json]:
    found = []
    for at in range(draw.randint(0, 2)):
        path = {"base": "CgroupRoot", "parentDir": "p", "relativePath": f"r{at}"}
        priority, qos = draw.choice([("koord-prod", "LS"), ("koord-batch", "BE"), ("", "")])
        entry: dict[str, Any] = {"name": f"a{at}", "priority": priority, "qos": qos}
        if draw.random() < 0.7:
            entry["cgroupPath"] = path
        found.append(entry)
    return found


def _case(draw: random.Random) -> Json:
    data = {key: _section(draw, kind) for key, kind in _STRATEGIES.items() if draw.random() < 0.6}
    if draw.random() < 0.4:
        configs = [
            {
                "name": "h",
                "nodeSelector": draw.choice(_SELECTORS),
                "applications": _applications(draw),
            }
        ]
        section = {"applications": _applications(draw), "nodeConfigs": configs}
        broken = draw.random() < 0.1
        data[sections.HOST_APPLICATION] = "{" if broken else json.dumps(section)
    meta: dict[str, Any] = {"name": "n", "labels": draw.choice(_LABELS)}
    if draw.random() < 0.3:
        meta["annotations"] = {keys.NETWORK_BANDWIDTH: draw.choice(["5G", "100M", "0", "x"])}
    return {"node": {"metadata": meta}, "data": data}


def _bandwidth_shows_through(case: Json, theirs: Json, ours: Json) -> Json:
    system, own = theirs.get("systemStrategy"), ours.get("systemStrategy", {})
    if not system or "totalNetworkBandwidth" in system or "totalNetworkBandwidth" not in own:
        return theirs
    shown = {**system, "totalNetworkBandwidth": own["totalNetworkBandwidth"]}
    return {**theirs, "systemStrategy": shown}


DIFFERENCES = {
    "api-config-optional-bandwidth": Difference(
        "a node strategy without a bandwidth lets the cluster's show through",
        adjusted=_bandwidth_shows_through,
    ),
}
