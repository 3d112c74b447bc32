# SPDX-License-Identifier: Apache-2.0
"""What the webhooks of nodes make of a write: allocatable, the raw amounts, and labels.

Nodes are as the original's own webhook leaves them, so that nothing says which ratios were applied.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.cluster import ConfigMap
from koord.api.kinds.meta import ResourceList
from koord.api.protocol import keys
from koord.api.sloconfig import sections
from koord.base.errors import KoordError
from koord.controllers.webhook.framework.admission_request import ResourceName
from koord.controllers.webhook.framework.webhook_table import MUTATE_NODE_STATUS, VALIDATE_NODE
from koord.controllers.webhook.nodes import HANDLERS
from tests.controllers.webhook.api_server import Server, asked, request
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random

SEED = 20282
COVERAGE: dict[str, str] = {}

_RATIOS = ["", "", '{"cpu":1.5}', '{"cpu":1.5,"memory":1.2}', '{"memory":2}', '{"cpu":1}',
           '{"cpu":0.5}', '{"cpu":1.33}', "{}", "x", '{"cpu":"2"}', '{"koordinator.sh/gpu":2}',
           '{"cpu":1.07,"memory":1.01}']  # fmt: skip
_RAWS = ['{"cpu":"10","memory":"20Gi"}', '{"cpu":"10"}',
         '{"cpu":"9999m","memory":"20000000k"}', "x",
         "{}"]  # fmt: skip
_SELECTORS: list[Json] = [
    {}, {"matchLabels": {"pool": "a"}}, {"matchLabels": {"pool": "b"}}, None,
    {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a"]}]},
]  # fmt: skip
_LABELS: list[dict[str, str]] = [{}, {"pool": "a"}, {"pool": "b"}, {"pool": "a", "zone": "x"}]
_CHECKED_BY_BOTH = [
    sections.COLOCATION,
    sections.THRESHOLD,
    sections.QOS,
    sections.SYSTEM,
    sections.BURST,
]


def inputs(draw: random.Random) -> list[Json]:
    """A node, what it was, and a configuration or none."""
    return [_case(draw) for _ in range(600)]


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    server = Server()
    if case["config"] is not None:
        meta = {"name": sections.CONFIG_MAP_NAME, "namespace": sections.CONFIG_MAP_NAMESPACE}
        server.put(codec.convert({"metadata": meta, "data": case["config"]}, ConfigMap, "c"))
    replica = server.replica()
    judge = HANDLERS[VALIDATE_NODE](replica.given)
    replica.catch_up()
    found = {"denied": not asyncio.run(asked(judge, _request(case, ""))).allowed}
    mutate = HANDLERS[MUTATE_NODE_STATUS](replica.given)
    try:
        document = asyncio.run(asked(mutate, _request(case, "status"))).document or case["node"]
    except KoordError:
        return {**found, "error": True}
    raw = (document["metadata"].get("annotations") or {}).get(keys.RAW_ALLOCATABLE)
    allocatable = (document.get("status") or {}).get("allocatable") or {}
    found["allocatable"] = _texts(allocatable)
    if raw is not None:
        found["raw"] = _raw(raw)
    return found


def _request(case: Json, subresource: str) -> Any:
    resource = ResourceName("", "nodes", subresource)
    old = case["old"] if case["operation"] == "UPDATE" else None
    return request(case["operation"], case["node"], old, kind="Node", resource=resource)


def _texts(amounts: Json) -> Json:
    listed = codec.convert(amounts, ResourceList, "amounts")
    return {name: str(amount) for name, amount in listed.items()}


def _raw(text: str) -> Json:
    try:
        listed = codec.decode_json(text, ResourceList, "raw")
    except KoordError:
        return text
    return {name: str(amount) for name, amount in listed.items()}


def _amounts(draw: random.Random) -> Json:
    found: dict[str, Any] = {}
    if draw.random() < 0.9:
        found["cpu"] = draw.choice(["10", "15", "9999m", 12, "4"])
    if draw.random() < 0.9:
        found["memory"] = draw.choice(["20Gi", "24Gi", "20000000k", "40Gi", 12345678901])
    if draw.random() < 0.3:
        found["pods"] = "110"
    return found


def _node(draw: random.Random, allocatable: Json) -> Json:
    annotations: dict[str, str] = {}
    ratios = draw.choice(_RATIOS)
    if ratios or draw.random() < 0.1:
        annotations[keys.RESOURCE_AMPLIFICATION_RATIO] = ratios
    if draw.random() < 0.6:
        annotations[keys.RAW_ALLOCATABLE] = draw.choice(_RAWS[: draw.choice([2, 3, 5])])
    status = {} if draw.random() < 0.05 else {"allocatable": allocatable}
    metadata = {"name": "n", "labels": draw.choice(_LABELS), "annotations": annotations}
    return {"metadata": metadata, "status": status}


def _section(draw: random.Random, key: str) -> str:
    if draw.random() < 0.05:
        return "x"
    chosen = draw.choices(_SELECTORS, k=draw.randint(0, 3))
    nodes = [{"name": f"s{at}", "nodeSelector": one} for at, one in enumerate(chosen)]
    field = sections.SECTIONS[key].nodes_field
    return codec.to_json({field: nodes}).decode()


def _case(draw: random.Random) -> Json:
    before = _amounts(draw)
    after = before if draw.random() < 0.5 else _amounts(draw)
    keys_given = draw.sample(list(sections.SECTIONS), draw.randint(0, 2))
    config = {key: _section(draw, key) for key in keys_given}
    return {
        "operation": draw.choice(["UPDATE", "UPDATE", "UPDATE", "UPDATE", "CREATE"]),
        "node": _node(draw, after), "old": _node(draw, before),
        "config": config if draw.random() < 0.8 else None,
    }  # fmt: skip


def _all_sections(case: Json, theirs: Json, ours: Json) -> Json:
    """A section that the original does not look at decides."""
    given = case["config"] or {}
    if ours["denied"] and any(key not in _CHECKED_BY_BOTH for key in given):
        return {**theirs, "denied": True}
    return theirs


DIFFERENCES = {
    "config-all-sections": Difference(
        "sections that the original does not validate are validated, too", adjusted=_all_sections
    ),
}
