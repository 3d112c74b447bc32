# SPDX-License-Identifier: Apache-2.0
"""Whatever users write into quotas, nodes and pods ends as a line that says what is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.api.codec import convert
from koord.api.kinds.quota import ElasticQuota, GroupQuota
from koord.base.errors import KoordError
from koord.controllers.cluster import transforms
from koord.controllers.scheduler.plugins.elasticquota.state.cluster_total import ClusterTotal
from koord.controllers.scheduler.plugins.elasticquota.state.group_usage import group_usage
from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import QuotaTreeOptions
from koord.controllers.scheduler.plugins.elasticquota.writers.status import canonical_patch
from tests.controllers.scheduler.plugins.elasticquota.harness import Cluster
from tests.controllers.scheduler.plugins.elasticquota.objects import PREFIX, cluster, pod
from tests.controllers.scheduler.pods import node
from tests.outcomes import refusal

NAMES = ["a", "b", "n", "koord-guide", "koordinator-root-quota", "koordinator-default-quota"]
quantities = st.sampled_from(
    [
        "0",
        "1",
        "-1",
        "1.5",
        "1e9",
        "9223372036854775807",
        "9223372036854775808",
        "1Ei",
        "-9Ei",
        "1n",
    ]
)
resources = st.sampled_from(["cpu", "memory", "x.com/gpu", "", "a b", "\n", "kubernetes.io/gpu"])
amounts = st.dictionaries(resources, quantities, max_size=3)
garbage = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["{", "null", "[]", "{}", "[1]", '{"cpu": -1}', '{"cpu": "x"}', '["n", 3]']),
    amounts.map(lambda each: str(each).replace("'", '"')),
)
keys = st.sampled_from(
    ["shared-weight", "namespaces", "total-resource", "unschedulable-resource", "runtime",
     "request"]
)  # fmt: skip
labels = st.dictionaries(
    st.sampled_from(["parent", "tree-id", "is-root", "is-parent", "allow-lent-resource"]),
    st.one_of(st.sampled_from([*NAMES, "true", "false", ""]), st.text(max_size=4)),
    max_size=3,
)


@st.composite
def objects(draw: st.DrawFn) -> Any:
    meta = {
        "name": draw(st.one_of(st.sampled_from(NAMES), st.text(max_size=3))),
        "namespace": draw(st.sampled_from(["n", "m", ""])),
        "labels": {PREFIX + key: text for key, text in draw(labels).items()},
        "annotations": {PREFIX + key: text
                        for key, text in draw(st.dictionaries(keys, garbage, max_size=2)).items()},
    }  # fmt: skip
    spec = {"min": draw(amounts), "max": draw(amounts)}
    if draw(st.booleans()):
        return convert({"metadata": meta, "spec": spec}, ElasticQuota, "q")
    spec |= {"hard": draw(amounts), "priority": draw(st.integers(-(2**31), 2**31 - 1))}
    return convert({"metadata": meta, "spec": spec}, GroupQuota, "q")


def is_a_line(error: KoordError | None) -> bool:
    return error is None or (bool(str(error)) and str(error).isprintable())


@given(items=st.lists(st.tuples(objects(), st.booleans()), max_size=8), several=st.booleans())
def test_any_quota_is_taken_or_refused_in_a_line(items: Any, several: bool) -> None:
    groups, kept, admission = cluster({"cpu": 9000}, QuotaTreeOptions(several_trees=several))
    pods = [pod(f"p{i}", name, cpu="1", namespace="n") for i, name in enumerate([*NAMES, ""])]
    for each in pods:
        kept.list_pod(each)
        kept.place_pod(each)
    for item, stays in items:
        assert is_a_line(groups.put(item))
        if not stays:
            groups.remove(item)
        for each in pods:
            answer = admission.check(pod("new", each.shape.labels.get(PREFIX + "name", ""),
                                          cpu="1", namespace="n"))  # fmt: skip
            assert answer is None or answer.reason.isprintable()
    assert all(is_a_line(error) for error in groups.problems().values())
    for item, _ in items:
        groups.remove(item)
    for each in pods:
        kept.withdraw(each)
        kept.unlist(each.uid)
    # All is gone, and nothing is left: neither groups nor charges.
    assert list(groups.trees()) == [""]
    assert len(kept) == 0
    tree = groups.tree("")
    assert set(tree) == {f"koordinator-{name}-quota" for name in ("root", "system", "default")}
    assert not any(tree.used(name).get("cpu") for name in tree)


@given(text=garbage, allocatable=amounts)
def test_any_node_has_a_total(text: str, allocatable: dict[str, str]) -> None:
    notes = {"node.koordinator.sh/reservation": text}
    totals = ClusterTotal()
    totals.put(transforms.node(node("n", annotations=notes, allocatable=allocatable)))
    assert all(0 <= amount < 2**63 for amount in totals.total().values())
    totals.remove("n")
    assert totals.total() == {}


@given(text=garbage)
def test_any_status_is_compared_or_refused_in_a_line(text: str) -> None:
    groups, _, _ = cluster({"cpu": 9000})
    item = convert({"metadata": {"name": "a", "namespace": "n"}}, ElasticQuota, "a")
    groups.put(item)
    item.metadata.annotations[PREFIX + "request"] = text
    refusal(canonical_patch, item, group_usage(groups.tree(""), "a"))


@given(asked=st.dictionaries(st.sampled_from(["cpu", "memory", "x.com/gpu"]), quantities))
def test_any_pod_is_admitted_or_told_why(asked: dict[str, str]) -> None:
    async def run() -> None:
        made = Cluster()
        made.put(node("n"))
        try:
            wanted = pod("p", requests=asked)
        except ValueError:
            return  # no shape, and so no pod, comes of amounts beyond 64 bits
        made.put(wanted)
        placed = made.run()
        assert placed or made.said("p").isprintable()
        made.remove(wanted)
        assert len(made.quota.ledger) == 0 or placed

    asyncio.run(run())
