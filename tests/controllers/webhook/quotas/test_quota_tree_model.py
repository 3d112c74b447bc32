# SPDX-License-Identifier: Apache-2.0
"""A tree of quotas that changes, against a model that works everything out from scratch; and what
one change costs among many siblings.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds.quota import ElasticQuota
from koord.controllers.webhook.elasticquotas import HANDLERS
from koord.controllers.webhook.framework.webhook_table import VALIDATE_QUOTA
from tests.controllers.webhook.api_server import Server, asked, quota, request
from tests.models.quota_tree_rules import Tree, admits

_NAMES = ["a", "b", "c", "d", "e"]
_resources = st.sampled_from([("cpu",), ("cpu",), ("cpu", "memory")])


@st.composite
def _wanted(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(_resources)
    least = draw(st.sampled_from([0, 1, 2, 4, 8]))
    return {
        "parent": draw(st.sampled_from([None, None, *_NAMES])),
        "is_parent": draw(st.booleans()),
        "min": {name: least for name in names if draw(st.integers(0, 9))},
        "max": dict.fromkeys(names, draw(st.sampled_from([10, 10, 10, 4]))),
    }


_step = st.tuples(st.sampled_from(_NAMES), st.one_of(_wanted(), _wanted(), _wanted(), st.none()))


def made(name: str, wanted: dict[str, Any]) -> ElasticQuota:
    labels = {"is_parent": str(wanted["is_parent"]).lower()}
    return quota(name, wanted["parent"] or "", min=wanted["min"], max=wanted["max"], **labels)


@given(st.lists(_step, min_size=1, max_size=25))
@settings(max_examples=200, deadline=None)
def test_admission_agrees_with_the_model(steps: list[Any]) -> None:
    server, tree = Server(), Tree()
    replica = server.replica()
    replica.prompt = True
    handler = HANDLERS[VALIDATE_QUOTA](replica.given)

    async def run() -> None:
        for name, wanted in steps:
            old = server.get(ElasticQuota, name, "default")
            if wanted is None and old is None:
                continue
            new = None if wanted is None else made(name, wanted)
            operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
            found = await asked(handler, request(operation, new, old))
            assert found.allowed is admits(tree, name, wanted), found.message
            if not found.allowed:
                continue
            if new is None:
                server.remove(old)
                del tree[name]
            else:
                server.put(new)
                tree[name] = wanted
            replica.catch_up()

    asyncio.run(run())


def one_change_seconds(siblings: int, rounds: int = 30) -> float:
    """The least time of a change of one of many children of a parent."""
    server = Server()
    server.put(quota("p", is_parent="true", min={"cpu": siblings + 9}, max={"cpu": siblings + 9}))
    for number in range(siblings):
        server.put(quota(f"c{number}", "p", min={"cpu": 1}, max={"cpu": siblings + 9}))
    replica = server.replica()
    replica.prompt = True
    handler = HANDLERS[VALIDATE_QUOTA](replica.given)
    replica.catch_up()
    old = server.get(ElasticQuota, "c3", "default")
    new = quota("c3", "p", min={"cpu": 2}, max={"cpu": siblings + 9})
    asks = [request("UPDATE", new, old) for _ in range(rounds)]

    async def run() -> float:
        taken = []
        for each in asks:
            began = perf_counter()
            found = await asked(handler, each)
            taken.append(perf_counter() - began)
            assert found.allowed, found.message
        return min(taken)

    return asyncio.run(run())


def test_a_change_among_a_thousand_siblings_costs_what_it_costs_among_ten() -> None:
    few = min(one_change_seconds(10) for _ in range(3))
    many = min(one_change_seconds(1000) for _ in range(3))
    assert many <= 4 * few, (many, few)
