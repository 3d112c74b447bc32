# SPDX-License-Identifier: Apache-2.0
"""What holds of every node, whatever the formula: bounds, order, zones and their node."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from tests.controllers.manager.overcommit import cases, objects
from tests.controllers.manager.overcommit.objects import ledger, offered
from tests.controllers.manager.overcommit.test_model import zones
from tests.models import overcommit as model

POLICIES = ("usage", "request", "maxUsageRequest")


@given(case=cases.nodes())
def test_never_more_than_the_node_without_its_margin(case: model.Node) -> None:
    found = offered(ledger(case), "batch")
    for r, resource in enumerate(("cpu", "memory")):
        if found is None or case.says(f"{resource}CalculatePolicy") == "requestRatio":
            continue
        margin = model.share(
            case.capacity[r], 100 - case.says(f"{resource}ReclaimThresholdPercent")
        )
        assert 0 <= found[r] <= max(0, case.capacity[r] - margin)


@given(case=cases.nodes())
def test_batch_and_mid_together_are_never_more_than_the_machine_less_its_reservation(
    case: model.Node,
) -> None:
    """Raw, that is before any amplification, whatever the strategy says."""
    found = ledger(case)
    batch, mid = offered(found, "batch") or (0, 0), offered(found, "mid") or (0, 0)
    raw = case.raw if case.raw is not None else case.allocatable
    annotated = case.reserved
    if case.reserved_cpus is not None:
        annotated = (case.reserved_cpus * 1000, annotated[1])
    for r in (0, 1):
        reserved = max(case.capacity[r] - raw[r], annotated[r], 0)
        assert batch[r] + mid[r] <= max(0, case.capacity[r] - reserved)


@given(case=cases.nodes(), more=cases.pods, metric=st.one_of(st.none(), cases.metrics))
def test_one_more_pod_never_raises_the_offer(
    case: model.Node, more: model.Pod, metric: model.Metric | None
) -> None:
    pod = replace(more, name="more", phase="Running")
    measured = {**case.metrics, **({"more": metric} if metric else {})}
    with_it = replace(case, pods=[*case.pods, pod], metrics=measured)
    before, after = ledger(case), ledger(with_it)
    less, most = (offered(each, "mid") or (0, 0) for each in (after, before))
    fewer, more_batch = (offered(each, "batch") or (0, 0) for each in (after, before))
    for r in (0, 1):
        assert less[r] <= most[r]
        assert less[r] + fewer[r] <= most[r] + more_batch[r]
        # Where mid had left batch less than its formula says, batch has what mid gives up.
        if more_batch[r] + most[r] < model.room(case, r):
            assert fewer[r] <= more_batch[r]
    assert all(
        less[0] <= most[0] and less[1] <= most[1]
        for less, most in zip(zones(after).values(), zones(before).values(), strict=True)
    )


@given(case=cases.nodes(), policy=st.sampled_from(POLICIES))
def test_a_pod_that_waits_takes_what_it_asks_for_under_every_policy(
    case: model.Node, policy: str
) -> None:
    """On the node and in its zones alike (docs/reference/overcommit.md#pods-that-count)."""
    given = {**case.strategy, "cpuCalculatePolicy": policy, "memoryCalculatePolicy": policy}
    asked = (1000, 1 << 20)
    new = model.Pod("new", qos_label="LS", request=asked)
    before = replace(case, strategy=given)
    after = replace(before, pods=[*case.pods, new])
    old, now = ledger(before), ledger(after)
    less, most, mid = offered(now, "batch"), offered(old, "batch"), offered(old, "mid")
    if less is None or most is None or mid is None:
        return
    for r in (0, 1):
        if most[r] + mid[r] == model.room(before, r):
            continue
        if less[r] and "batch" + ("CPU", "Memory")[r] + "ThresholdPercent" not in given:
            assert most[r] - less[r] == asked[r]


@given(data=st.data(), case=cases.nodes())
def test_zones_add_up_to_their_node(data: st.DataObject, case: model.Node) -> None:
    """Within rounding, where the zones have what the node has, and none of them is full."""
    count = len(case.zones)
    if not count:
        return
    parts = [data.draw(cases.machines) for _ in range(count)]
    capacity = (sum(cpu for cpu, _ in parts), sum(memory for _, memory in parts))
    numbers = [zone.number for zone in case.zones]
    plain = {"enable": True} | {
        f"{resource}CalculatePolicy": data.draw(st.sampled_from(POLICIES))
        for resource in ("cpu", "memory")
    }
    case = replace(
        case,
        capacity=capacity,
        allocatable=capacity,
        raw=None,
        reserved=(0, 0),
        reserved_cpus=None,
        strategy=plain,
        zones=[
            model.Zone(n, part, zone.system)
            for n, part, zone in zip(numbers, parts, case.zones, strict=True)
        ],
        system=(
            max(case.system[0], sum(z.system[0] for z in case.zones if z.system)),
            max(case.system[1], sum(z.system[1] for z in case.zones if z.system)),
        ),
    )  # fmt: skip
    found = ledger(case)
    whole, shares = offered(found, "batch"), zones(found).values()
    if whole is None:
        return
    units = count * (len(case.pods) + len(case.dangling) + 4)
    for r in (0, 1):
        if all(share[r] for share in shares):
            added = sum((share[r] for share in shares), Fraction(0))
            assert abs(added - whole[r]) <= units


@given(case=cases.nodes())
def test_row_by_row_is_as_all_at_once(case: model.Node) -> None:
    """Other nodes never count."""
    alone = ledger(case)
    among = OvercommitCache()
    for number in range(3):
        other = replace(case, pods=case.pods[:number], capacity=(1000 * number, 1 << 30))
        objects.put(among, replace(other, pods=[]), f"other-{number}")
    objects.put(among, case)
    among.recompute(objects.NOW)
    assert offered(alone, "batch") == offered(among, "batch")
    assert offered(alone, "mid") == offered(among, "mid")
