# SPDX-License-Identifier: Apache-2.0
"""NUMA alignment: the rule's worked examples, properties against the model, and bad input."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels import numa
from koord.kernels.numa import Exclusive, Hint, HintList, TopologyPolicy, Zones, ZoneStatus
from tests.models import numa as model
from tests.outcomes import KERNEL_ERRORS, refusal

GI = 1 << 30
TWO = Zones([0, 1])


def plain(hint: Hint) -> tuple[object, ...]:
    return (hint.affinity, hint.preferred, hint.unsatisfied, hint.score)


# --- worked examples -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "text"),
    [([0], "01"), ([0, 1], "11"), ([2], "100"), ([3], "1000"), ([0, 2], "0101"), ([1], "10")],
)
def test_mask_text(ids: list[int], text: str) -> None:
    zones = Zones(range(4))
    assert zones.text(zones.mask(ids)) == text


def test_mask_text_agrees_with_the_model_up_to_64_zones() -> None:
    zones = Zones(range(64))
    for mask in [1 << 62, (1 << 62) | 1, 1 << 63, (1 << 61) + 4, *range(1, 300)]:
        assert zones.text(mask) == model.text(mask)


def test_sparse_zone_ids_are_reported_by_id() -> None:
    zones = Zones([8, 0])
    assert zones.ids_of(0b10) == (8,)
    assert zones.text(0b10) == "100000000"
    assert zones.text(0b11) == "0100000001"
    assert zones.mask([8]) == 2


def test_masks_go_by_size_and_then_position() -> None:
    assert numa.enumerate_masks(3) == [1, 2, 4, 3, 5, 6, 7]
    for zones in range(1, 8):
        assert numa.enumerate_masks(zones) == model.masks(zones)


@pytest.mark.parametrize(
    ("free", "request_milli", "affinity", "cpus", "shares"),
    [
        ([2000, 2000], 3500, [0, 1], None, [1750, 1750]),
        ([2000, 10000], 8000, [0, 1], numa.CpuBinding(8, {0: 2, 1: 10}), [2000, 6000]),
        # The scarcer zone gives first, whatever its id.
        ([10000, 2000], 8000, [0, 1], numa.CpuBinding(8, {0: 10, 1: 2}), [6000, 2000]),
        ([9000, 1000, 5000], 6000, [1, 2], None, [0, 1000, 5000]),
        # Required whole cores: three cores over two zones are one and two.
        (
            [8000, 8000],
            6000,
            [0, 1],
            numa.CpuBinding(6, {0: 8, 1: 8}, True, True, 2),
            [2000, 4000],
        ),
        # A required policy caps a zone by what it can bind.
        (
            [8000, 8000],
            6000,
            [0, 1],
            numa.CpuBinding(6, {0: 2, 1: 8}, True, False, 2),
            [2000, 4000],
        ),
    ],
)
def test_even_distribution(
    free: list[int],
    request_milli: int,
    affinity: list[int],
    cpus: numa.CpuBinding | None,
    shares: list[int],
) -> None:
    table = {zone: {"cpu": amount} for zone, amount in enumerate(free)}
    result = numa.distribute(table, {"cpu": request_milli}, affinity, cpus=cpus)
    assert result.by_zone == {z: {"cpu": share} for z, share in enumerate(shares) if share}
    assert result.insufficient == ()


def test_what_does_not_fit_is_named_and_unknown_resources_are_ignored() -> None:
    table = {0: {"cpu": 1000, "memory": GI}, 1: {"cpu": 1000, "memory": GI}}
    requests = {"memory": 3 * GI, "cpu": 9000, "example.com/fpga": 1}
    result = numa.distribute(table, requests, [0, 1])
    assert result.reasons == ["Insufficient NUMA cpu", "Insufficient NUMA memory"]


def test_available_counts_amplified_cpus_and_gives_back_what_is_reusable() -> None:
    left = numa.available(
        {0: {"cpu": 12000, "memory": 8 * GI}, 1: {"cpu": 12000}},
        {0: {"cpu": 4000, "memory": 2 * GI, "hugepages-2Mi": 5}},
        reusable={0: {"memory": GI}, 1: {"cpu": 1000}},
        bound_cpus={0: 3, 1: 4},
        cpu_ratio=1.5,
    )
    # 4000 - 3000 + ceil(3000 * 1.5) = 5500; zone 1 has nothing on record.
    assert left == {
        0: {"cpu": 6500, "memory": 7 * GI, "hugepages-2Mi": 0},
        1: {"cpu": 12000},
    }


@pytest.mark.parametrize(
    ("strategy", "requested", "allocatable", "pod", "score"),
    [
        ("MostAllocated", {}, {"cpu": 16000}, {"cpu": 4000}, 25),
        (
            "LeastAllocated",
            {"cpu": 24000, "memory": 16 * GI},
            {"cpu": 32000, "memory": 40 * GI},
            {"cpu": 4000, "memory": 4 * GI},
            31,
        ),
        ("LeastAllocated", {"cpu": 5}, {"cpu": 4}, {}, 0),
        ("MostAllocated", {"cpu": 5}, {"cpu": 4}, {}, 100),
        ("MostAllocated", {}, {}, {"cpu": 1}, 0),
        ("MostAllocated", {"cpu": 1}, {"cpu": -5}, {}, 100),
    ],
)
def test_scores(strategy: str, requested: Any, allocatable: Any, pod: Any, score: int) -> None:
    assert numa.Scorer(numa.Strategy(strategy)).score(requested, allocatable, pod) == score


def test_a_scalar_resource_counts_only_when_asked_for() -> None:
    scorer = numa.Scorer(numa.Strategy.MOST_ALLOCATED, {"cpu": 1, "hugepages-2Mi": 1})
    place = {"cpu": 1000, "hugepages-2Mi": 4}
    assert scorer.score({}, place, {"cpu": 1000}) == 100
    assert scorer.score({}, place, {"cpu": 1000, "hugepages-2Mi": 2}) == 75


def test_hints_of_a_pod_that_fits_one_zone() -> None:
    table = {0: {"cpu": 4000, "memory": 4 * GI}, 1: {"cpu": 8000, "memory": 8 * GI}}
    free = {0: {"cpu": 1000, "memory": 4 * GI}, 1: {"cpu": 8000, "memory": 8 * GI}}
    hints = numa.generate_hints(
        table, free, {"cpu": 2000, "memory": GI}, TopologyPolicy.BEST_EFFORT, scorer=numa.Scorer()
    )
    # {1}: cpu 75, memory 87; {0,1}: cpu (12-3-2)/12 = 58, memory 91.
    expected = [Hint(0b10, True, False, 81), Hint(0b11, False, False, 74)]
    assert hints == {"cpu": expected, "memory": expected}
    decision = numa.admit(TopologyPolicy.SINGLE_NUMA_NODE, TWO, [numa.Provider(hints)])
    assert decision == numa.Decision(Hint(0b10, True, False, 162), True, [])


def test_a_pool_with_bound_cpus_asks_the_caller_last() -> None:
    table = {0: {"cpu": 4000}, 1: {"cpu": 4000}}
    asked: list[dict[int, int] | None] = []

    def accepts(counts: dict[int, int] | None) -> bool:
        asked.append(counts)
        return counts != {0: 2, 1: 0}

    cpus = numa.CpuBinding(2, {0: 4, 1: 4}, True, True, 2, accepts)
    hints = numa.generate_hints(
        table, table, {"cpu": 2000}, TopologyPolicy.RESTRICTED, pools=[numa.Pool(table, cpus)]
    )
    assert [hint.affinity for hint in hints["cpu"]] == [0b10, 0b11]
    assert asked == [{0: 2, 1: 0}, {0: 0, 1: 2}, {0: 0, 1: 2}]


def test_an_error_of_the_callback_comes_through() -> None:
    def accepts(counts: dict[int, int] | None) -> bool:
        raise LookupError("no picker")

    pool = numa.Pool({0: {"cpu": 4000}}, numa.CpuBinding(1, {0: 4}, accepts=accepts))
    with pytest.raises(LookupError, match="no picker"):
        numa.generate_hints(
            pool.available, pool.available, {"cpu": 1000}, TopologyPolicy.NONE, pools=[pool]
        )


H = Hint


@pytest.mark.parametrize(
    ("lists", "best"),
    [
        ([], H(0b11, True)),
        ([[]], H(0b11)),
        ([[H(preferred=True)]], H(0b11, True)),
        ([[H(0b01, True), H(0b11)], [H(0b01, True), H(0b11)]], H(0b01, True)),
        # Different preferred zones: no common one, so the widest stays and is not preferred.
        ([[H(0b01, True)], [H(0b10, True)]], H(0b11)),
        ([[H(0b01, True)], [H(0b10, True), H(0b11)]], H(0b01, False, True)),
        # Scores add where the affinity is the merged one.
        ([[H(0b01, True, score=5), H(0b10, True, score=9)], [H(preferred=True)]],
         H(0b10, True, score=9)),
        # The lower mask comes last and takes over although its score is lower.
        ([[H(0b10, True, score=9), H(0b01, True, score=5)]], H(0b01, True, score=5)),
    ],
)  # fmt: skip
def test_merge_examples(lists: list[list[Hint]], best: Hint) -> None:
    assert numa.merge(TWO, lists) == best


@pytest.mark.parametrize(
    ("affinity", "statuses", "preferred"),
    [
        (0b01, {0: ZoneStatus.SHARED}, False),
        (0b01, {0: ZoneStatus.SINGLE}, True),
        (0b11, {1: ZoneStatus.SINGLE}, False),
        (0b11, {0: ZoneStatus.SHARED, 1: ZoneStatus.SHARED}, True),
    ],
)
def test_required_exclusive(
    affinity: int, statuses: dict[int, ZoneStatus], preferred: bool
) -> None:
    lists = [[Hint(affinity, True)]]
    got = numa.merge(TWO, lists, exclusive=Exclusive.REQUIRED, statuses=statuses)
    assert got.preferred is preferred
    assert numa.merge(TWO, lists, exclusive=Exclusive.PREFERRED, statuses=statuses).preferred


SPLIT = {"cpu": [Hint(1, True), Hint(3)], "memory": [Hint(2, True), Hint(3)]}


@pytest.mark.parametrize(
    ("policy", "hints", "decision"),
    [
        ("", SPLIT, (Hint(), True, [])),
        ("BestEffort", SPLIT, (Hint(3), True, [])),
        ("BestEffort", {"cpu": []}, (Hint(3), True, [])),
        (
            "Restricted",
            SPLIT,
            (
                Hint(1, False, True),
                False,
                [
                    "Unaligned NUMA Hint cause cpu prefer [01] among [01 11]"
                    " & memory prefer [10] among [10 11]"
                ],
            ),
        ),
        ("Restricted", {"b": [], "a": []},
         (Hint(3), False, ["Unsatisfied NUMA a", "Unsatisfied NUMA b"])),
        ("SingleNUMANode", {"a": []}, (Hint(), False, ["Unsatisfied NUMA a"])),
        (
            "SingleNUMANode",
            SPLIT,
            (
                Hint(),
                False,
                [
                    "Unaligned NUMA Hint cause cpu prefer [01] among [01 11],"
                    "memory prefer [10] among [10 11]"
                ],
            ),
        ),
        ("SingleNUMANode", {}, (Hint(None, True), True, [])),
        ("SingleNUMANode", {"cpu": None}, (Hint(None, True), True, [])),
        ("SingleNUMANode", {"cpu": [Hint(2, True)]}, (Hint(2, True), True, [])),
    ],
)  # fmt: skip
def test_policies(policy: str, hints: Any, decision: tuple[Hint, bool, list[str]]) -> None:
    got = numa.admit(TopologyPolicy(policy), TWO, [numa.Provider(hints)])
    assert (got.hint, got.admitted, got.reasons) == decision


def test_one_zone_machines_get_no_zone_affinity() -> None:
    provider = numa.Provider({"cpu": [Hint(1, True)]})
    got = numa.admit(TopologyPolicy.SINGLE_NUMA_NODE, Zones([0]), [provider])
    assert got == numa.Decision(Hint(None, True), True, [])


def test_failing_providers_reject_with_their_messages() -> None:
    providers = [numa.Provider(failure="b"), numa.Provider(SPLIT), numa.Provider(failure="a")]
    got = numa.admit(TopologyPolicy.BEST_EFFORT, TWO, providers)
    assert got == numa.Decision(Hint(), False, ["b", "a"])


@pytest.mark.parametrize(
    ("name", "every", "compatible"),
    [
        ("BestEffort", "BestEffort", "BestEffort"),
        ("BestEffortPodLevel", "BestEffort", ""),
        ("BestEffortContainerLevel", "BestEffort", ""),
        ("Restricted", "Restricted", "Restricted"),
        ("RestrictedPodLevel", "Restricted", ""),
        ("RestrictedContainerLevel", "Restricted", ""),
        ("SingleNUMANodePodLevel", "SingleNUMANode", "SingleNUMANode"),
        ("SingleNUMANodeContainerLevel", "SingleNUMANode", ""),
        ("best-effort", "BestEffort", ""),
        ("restricted", "Restricted", ""),
        ("single-numa-node", "SingleNUMANode", ""),
        ("None", "", ""),
        ("none", "", ""),
    ],
)
def test_reported_policy_names(name: str, every: str, compatible: str) -> None:
    assert numa.reported_policy([name]) == every
    assert numa.reported_policy([name], compatible=True) == compatible
    assert numa.reported_policy(["None", name, "Restricted"]) == (every or "Restricted")


@pytest.mark.parametrize(
    ("node", "pod", "exclusive", "expected"),
    [
        ("", "", "", ("", "", "")),
        ("Restricted", "", "", ("Restricted", "", "")),
        ("", "BestEffort", "", ("BestEffort", "Required", "")),
        ("BestEffort", "BestEffort", "Preferred", ("BestEffort", "Preferred", "")),
        ("BestEffort", "Restricted", "", ("", "", "node(s) NUMA Topology policy not match")),
    ],
)
def test_effective_policy(node: str, pod: str, exclusive: str, expected: tuple[str, ...]) -> None:
    got = numa.effective_policy(TopologyPolicy(node), TopologyPolicy(pod), Exclusive(exclusive))
    assert (got.policy, got.exclusive, got.conflict) == expected


@pytest.mark.parametrize(
    ("single", "shared", "status"), [(0, 0, "idle"), (2, 0, "single"), (1, 1, "shared")]
)
def test_zone_status(single: int, shared: int, status: str) -> None:
    assert numa.zone_status(single, shared) == status


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("node-0", 0),
        ("node-10", 10),
        ("numa-node-3", 3),
        ("node-", None),
        ("node-x", None),
        ("zone-1", None),
        ("node-1node-2", None),
        ("node-1\n", None),
    ],
)
def test_zone_names(name: str, zone: int | None) -> None:
    assert numa.zone_id(name) == zone


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Zones([]), "zones: got '0'"),
        (lambda: Zones(range(65)), "zones: got '65'"),
        (lambda: Zones([1, 1]), "zone id: got '1', expected each zone once"),
        (lambda: Zones([-1]), "zone id: got '-1'"),
        (lambda: Zones([2**70]), "zone id"),
        (lambda: TopologyPolicy.parse("single"), "numa topology policy: got 'single'"),
        (lambda: numa.reported_policy(["x"]), "numa topology policy: got 'x'"),
        (lambda: numa.enumerate_masks(17), "zones: got '17'"),
        (lambda: numa.enumerate_masks(-1), "zones: got '-1'"),
        (lambda: numa.zone_status(-1, 0), "single pods: got '-1'"),
        (lambda: TWO.text(-1), "mask: got '-1'"),
        (lambda: TWO.ids_of(1 << 64), "mask: got"),
        (lambda: numa.distribute({0: {"cpu": -1}}, {}, [0]), "available: got '-1'"),
        (lambda: numa.distribute({0: {"cpu": 1}}, {"cpu": -1}, [0]), "request: got '-1'"),
        (lambda: numa.distribute({0: {"cpu": 1}}, {"cpu": 2**80}, [0]), "cpu: got"),
        (lambda: numa.distribute({0: {"cpu": 1}}, {"cpu": 1}, []), "mask: got '0'"),
        (lambda: numa.available({0: {}}, {0: {"cpu": -1}}), "used: got '-1'"),
        (lambda: numa.available({0: {}}, {}, cpu_ratio=math.inf), "cpu ratio: got 'inf'"),
        (lambda: numa.available({0: {}}, {}, bound_cpus={0: -1}), "bound cpus: got '-1'"),
        (lambda: numa.Scorer(weights={"cpu": -1}).score({}, {}, {}), "weight: got '-1'"),
        (lambda: HintList([Hint(-1)]), "hint affinity: got '-1'"),
        (lambda: numa.merge(TWO, [[Hint(1, score=2**50)]]), "hint score: got"),
        (
            lambda: numa.distribute(
                {0: {}}, {}, [0], cpus=numa.CpuBinding(1, {}, threads_per_core=0)
            ),
            "threads per core: got '0'",
        ),
    ],
)
def test_bad_input_is_one_line(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z") as caught:
        call()
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    "call",
    [
        lambda: TWO.mask([2]),
        lambda: numa.merge(TWO, [], statuses={7: ZoneStatus.IDLE}),
        lambda: numa.available({0: {}}, {1: {}}),
        lambda: numa.distribute({0: {}}, {}, [3]),
    ],
)
def test_unknown_zones_are_named(call: Any) -> None:
    with pytest.raises(KeyError, match="zone id: got"):
        call()


@given(st.text(max_size=20))
def test_policy_names_fuzzed(name: str) -> None:
    for parse in (TopologyPolicy.parse, lambda text: numa.reported_policy([text])):
        refusal(parse, name, errors=KERNEL_ERRORS)


def test_hint_lists_read_like_lists() -> None:
    row = [Hint(1), Hint(2, True)]
    native = HintList(row)
    assert native == row
    assert (native[-1], native[0:1], len(native)) == (row[1], row[:1], 2)
    assert repr(native) == f"HintList({row})"
    with pytest.raises(IndexError):
        native[2]
