# SPDX-License-Identifier: Apache-2.0
"""Traffic classes of a NodeSLO, and which pod is in which."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.executor.target import TRAFFIC
from koord.agent.hooks.builtin.tc_network_qos import TCNetworkQoS
from koord.agent.hooks.network_classes import MOST_OWN_CLASSES, PodMinors
from koord.agent.host.kernel.features import Feature
from koord.agent.host.traffic.plan import LAYOUT, POD_MINORS, TrafficPlan, plan_of
from koord.agent.states.pod_state import PodState
from koord.base.errors import KoordError
from tests.agent.hooks.build import context, inner, options, pod, snapshot

LIMITS = "koordinator.sh/networkQOS"


def slo(total: str = "80M", policy: str | None = "tc", **classes: Any) -> dict[str, Any]:
    strategy: dict[str, Any] = {f"{n}Class": {"networkQOS": rows} for n, rows in classes.items()}
    if policy is not None:
        strategy["policies"] = {"netQOSPolicy": policy}
    return {"systemStrategy": {"totalNetworkBandwidth": total}, "resourceQOSStrategy": strategy}


def shares(**rows: Any) -> dict[str, Any]:
    return {"enable": True, **rows}


def at(state: PodState, address: str, host: str = "192.0.2.1") -> PodState:
    state.pod.status.pod_ip, state.pod.status.host_ip = address, host
    return state


def plan(*pods: PodState, hook: TCNetworkQoS | None = None, **more: Any) -> TrafficPlan:
    made = hook or TCNetworkQoS(options())
    seen = snapshot(*pods, slo=slo(**more))
    made.learn(seen)
    (claim,) = made.node(seen)
    assert (claim.resource, claim.directory) == (TRAFFIC, "")
    return plan_of(str(claim.value))


def rates(found: TrafficPlan) -> dict[int, tuple[int, int]]:
    return {row.minor: (row.rate_bytes, row.ceil_bytes) for row in found.classes}


def test_classes_of_a_node() -> None:
    """80 Mbit/s are 10 MB/s; 40 % and 10 % of them are promised, BE gets no more than 2 MB/s."""
    ls, be = shares(egressRequest=40), shares(egressRequest=10, egressLimit="16M")
    found = plan(ls=ls, be=be)
    assert [tuple(row) for row in found.classes] == [
        (1, 0, 10_000_000, 10_000_000, 0),
        (0xFFF2, 1, 5_000_000, 10_000_000, 0), (2, 0xFFF2, 5_000_000, 10_000_000, 1),
        (0xFFF3, 1, 4_000_000, 10_000_000, 0), (3, 0xFFF3, 4_000_000, 10_000_000, 2),
        (0xFFF4, 1, 1_000_000, 2_000_000, 0), (4, 0xFFF4, 1_000_000, 2_000_000, 3),
    ]  # fmt: skip
    assert plan(ls=ls, be=be) == found


def test_what_is_not_told_is_neither_promised_nor_limited() -> None:
    off = {"enable": False, "egressRequest": 40, "egressLimit": 50}
    found = rates(plan(ls=off, be=shares(ingressLimit=5)))
    assert found[2] == (10_000_000, 10_000_000)
    assert found[3] == found[4] == (1000, 10_000_000)
    # Less than is promised is what it gets.
    assert rates(plan(be=shares(egressRequest=30, egressLimit=20)))[4] == (2_000_000, 2_000_000)


@pytest.mark.parametrize("policy", ["terway-qos", "TC", ""])
def test_another_policy_wants_nothing(policy: str) -> None:
    hook = TCNetworkQoS(options())
    seen = snapshot(at(pod("BE"), "10.0.0.1"), slo=slo(policy=policy))
    hook.learn(seen)
    assert hook.node(seen) == []
    assert hook.pod(context(pod("BE"))) is None


def test_without_the_nodes_bandwidth_there_is_nothing_to_divide() -> None:
    hook = TCNetworkQoS(options())
    for document in (None, {}, slo("0"), {"resourceQOSStrategy": {}}):
        seen = snapshot(slo=document)
        assert hook.learn(seen) is False
        assert hook.node(seen) == []
    assert plan(policy=None).classes


@pytest.mark.parametrize(
    ("total", "classes", "field"),
    [
        ("-1", {}, "totalNetworkBandwidth"), ("23999", {}, "totalNetworkBandwidth"),
        ("2P", {}, "totalNetworkBandwidth"),
        ("80M", {"ls": shares(egressRequest=60), "be": shares(egressRequest=50)}, "egressRequest"),
        ("80M", {"be": shares(egressLimit=101)}, "egress_limit"),
        ("80M", {"be": shares(egressLimit="81M")}, "egress_limit"),
        ("80M", {"be": shares(egressRequest="much")}, "egress_request"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_and_changes_nothing(
    total: str, classes: dict[str, Any], field: str
) -> None:
    hook = TCNetworkQoS(options())
    before = plan(hook=hook)
    with pytest.raises(KoordError, match=field):
        hook.learn(snapshot(slo=slo(total, **classes)))
    (claim,) = hook.node(snapshot())
    assert plan_of(str(claim.value)) == before


def test_pods_are_told_by_their_address_or_their_cgroup() -> None:
    host = {"spec": {"hostNetwork": True}}
    found = plan(
        at(pod("LSR", uid="a"), "10.0.0.1"), at(pod("SYSTEM", uid="b"), "fd00::0:2"),
        at(pod("BE", uid="c"), "10.0.0.3"), at(pod("", uid="d"), "10.0.0.4"),
        at(pod("BE", uid="e", phase="Succeeded"), "10.0.0.5"), at(pod("BE", uid="f"), ""),
        at(pod("BE", uid="g", **host), "192.0.2.1"), at(pod("LS", uid="h"), "192.0.2.1"),
        *(at(pod("BE", uid=f"x{n}"), bad) for n, bad in enumerate(
            ["no", "127.0.0.1", "0.0.0.0", "224.0.0.1", "fe80::1%eth0", "10.0.0.0/8"])),
        at(pod("LS", uid="i"), "10.0.0.3"),
    )  # fmt: skip
    # An address is the newest's who has it.
    assert found.addresses == {"10.0.0.1": 3, "fd00::2": 2, "10.0.0.3": 3}
    assert found.cgroups == {"kubepods/burstable/podg": 4, "kubepods/burstable/podh": 3}


def test_a_limit_of_its_own_stays_within_its_class_and_promises_nothing() -> None:
    def limited(qos: str, uid: str, limit: str) -> PodState:
        return at(pod(qos, uid=uid, annotations={LIMITS: {"egressLimit": limit}}), f"10.0.0.{uid}")

    be = shares(egressRequest=10, egressLimit="16M")
    pods = [
        limited("BE", "1", "8M"), limited("BE", "2", "1G"), limited("LS", "3", "80"),
        limited("", "4", "8M"), limited("BE", "5", "0"), limited("BE", "6", "-8M"),
        at(pod("BE", uid="7", annotations={LIMITS: "{"}), "10.0.0.7"),
        at(pod("BE", uid="8", annotations={LIMITS: {"ingressLimit": "8M"}}), "10.0.0.8"),
    ]  # fmt: skip
    found = plan(*pods, be=be)
    own = {row.minor: row for row in found.classes if row.minor in POD_MINORS}
    by_pod = {
        name: tuple(own[minor])[1:] for name, minor in found.addresses.items() if minor in own
    }
    assert by_pod == {
        "10.0.0.1": (0xFFF4, 1000, 1_000_000, 3),
        "10.0.0.2": (0xFFF4, 1000, 2_000_000, 3),
        "10.0.0.3": (0xFFF3, 1000, 1000, 2),
    }
    rest = {name: minor for name, minor in found.addresses.items() if minor not in own}
    assert rest == {f"10.0.0.{n}": 4 for n in (5, 6, 7, 8)}


def test_sockets_have_the_class_of_their_pod() -> None:
    hook = TCNetworkQoS(options())
    state = pod("BE", annotations={LIMITS: {"egressLimit": "8M"}})
    found = plan(at(state, "10.0.0.1"), hook=hook)
    answer = hook.pod(context(state))
    assert answer is not None
    assert answer.values == {"net_cls.classid": str(0x10000 | found.addresses["10.0.0.1"])}
    assert hook.container(inner(state)) == answer
    answer = hook.pod(context(pod("LSE")))
    assert answer is not None
    assert answer.values == {"net_cls.classid": str(0x10003)}
    assert hook.pod(context(pod(""))) is None
    with pytest.raises(KoordError, match="networkQOS"):
        hook.pod(context(pod("BE", annotations={LIMITS: "{"})))
    without = TCNetworkQoS(options(has=lambda feature: feature is not Feature.NET_CLS))
    plan(hook=without)
    assert without.pod(context(state)) is None


def test_more_pods_than_there_are_classes_share_those_of_their_qos() -> None:
    minors = PodMinors()
    given_out = [minors.of(f"u{n}") for n in range(MOST_OWN_CLASSES)]
    assert len({*given_out}) == MOST_OWN_CLASSES
    assert minors.of("one more") is None
    minors.keep(["u1"])
    assert minors.of("u1") == given_out[1]
    assert minors.of("one more") in POD_MINORS


AMOUNT = st.one_of(st.integers(0, 100), st.integers(0, 10**9).map(str), st.none())
QUALITY = st.fixed_dictionaries(
    {"enable": st.booleans(), "egressRequest": AMOUNT, "egressLimit": AMOUNT}
)


@given(st.integers(24_000, 10**9), QUALITY, QUALITY)
def test_classes_against_a_plain_model(total: int, ls: dict[str, Any], be: dict[str, Any]) -> None:
    def bits(quality: dict[str, Any], name: str) -> int:
        value = quality[name] if quality["enable"] else 0
        return total * value // 100 if isinstance(value, int) else int(value or 0)

    told = [[bits(each, name) for name in ("egressRequest", "egressLimit")] for each in (ls, be)]
    wrong = max(map(max, told)) > total or told[0][0] + told[1][0] > total
    hook = TCNetworkQoS(options())
    seen = snapshot(slo=slo(str(total), ls=ls, be=be))
    if wrong:
        with pytest.raises(KoordError):
            hook.learn(seen)
        return
    hook.learn(seen)
    found = rates(plan(hook=hook, total=str(total), ls=ls, be=be))
    assert found.keys() == LAYOUT.keys()
    for leaf, (request, limit) in zip((3, 4), told, strict=True):
        most = limit // 8 if limit else total // 8
        most = max(most, 1000)
        assert found[leaf] == (min(max(request // 8, 1000), most), most)
        assert found[0xFFF0 + leaf] == found[leaf]
    assert found[2][0] == max((total - told[0][0] - told[1][0]) // 8, 1000)
    assert found[1] == (total // 8, total // 8)
    assert all(1000 <= rate <= ceil <= total // 8 for rate, ceil in found.values())
