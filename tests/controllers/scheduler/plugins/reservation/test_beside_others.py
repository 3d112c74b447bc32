# SPDX-License-Identifier: Apache-2.0
"""Reservations beside other plugins: host ports, pod affinity, preemption, several profiles."""

from __future__ import annotations

from typing import Any

from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.config.args_gangs_and_quota import ReservationArgs
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.plugins.coscheduling.allocation.job_victims import JobVictims
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.plugin import InterPodAffinity
from koord.controllers.scheduler.plugins.kubernetes.node_affinity import NodeAffinity
from koord.controllers.scheduler.plugins.kubernetes.node_ports import NodePorts
from koord.controllers.scheduler.plugins.reservation.plugin import Reservation
from koord.controllers.scheduler.plugins.reservation.preemption import ReservationVictimPolicy
from koord.controllers.scheduler.preemption.victims import VictimPolicy
from tests.controllers.scheduler.plugins.reservation.bench import Bench, available
from tests.controllers.scheduler.pods import node, pod

SCHEME = {"app": "R"}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": SCHEME}}
        ]
    }
}


def container(cpu: str, port: int = 0) -> dict[str, Any]:
    ports = [{"containerPort": port, "hostPort": port}] if port else []
    return {"name": "c", "ports": ports, "resources": {"requests": {"cpu": cpu}}}


def with_plugin(bench: Bench, other: Any) -> Decider:
    bench.world.accounts.listen(other)
    first = [other] if hasattr(other, "pre_filter") else []
    return Decider(
        bench.table,
        bench.world.accounts,
        ProfilePlugins(
            pre_filter=[bench.plugin, *first],
            filter=[other, bench.room, bench.plugin],
            reserve=[bench.plugin],
        ),
    )


def test_host_ports_of_a_reservation_are_its_owners() -> None:
    bench = Bench(node("n"))
    decider = with_plugin(bench, NodePorts(None, bench.world))
    template = {"spec": {"containers": [container("2", port=80)]}}
    bench.put(available("R", "n", cpu="2", template=template, allocateOnce=False))

    def asks(name: str, **more: Any) -> Pod:
        return pod(name, containers=[container("1", port=80)], **more)

    assert decider.decide(bench.info(asks("other"))).row == -1
    decision = decider.decide(bench.info(asks("owner", labels=SCHEME)))
    assert decider.assume(decision) is None
    # Now a pod has it, not only the reservation.
    assert decider.decide(bench.info(asks("second", labels=SCHEME))).row == -1


def test_a_reservation_does_not_repel_its_owners() -> None:
    bench = Bench(node("n"), node("m"))
    decider = with_plugin(bench, InterPodAffinity(None, bench.world))
    spec = {"affinity": APART, "containers": [container("2")]}
    template = {"metadata": {"labels": SCHEME}, "spec": spec}
    bench.put(available("R", "n", cpu="2", template=template, allocateOnce=False))
    # Another that is to stand apart goes elsewhere.
    apart = pod("apart", cpu="1", labels={"app": "S"}, affinity=APART)
    assert decider.decide(bench.info(apart)).row == 1
    decision = decider.decide(bench.info(pod("owner", cpu="1", labels=SCHEME, affinity=APART)))
    board = decision.cycle.board
    assert board is not None
    assert board.refused[0] == 0
    bench.bound(pod("first", cpu="1", labels=SCHEME, affinity=APART), "n")
    decision = decider.decide(bench.info(pod("owner", cpu="1", labels=SCHEME, affinity=APART)))
    assert decision.row == 1


def test_owners_make_room_in_their_reservation_alone() -> None:
    """What a victim in a reservation frees is for those who may use the reservation."""
    bench = Bench(node("n", cpu="8"), args=ReservationArgs(enable_preemption=True))
    bench.put(available("R", "n", cpu="8", allocateOnce=False))
    bench.place(pod("low", cpu="6", labels=SCHEME, priority=1))

    def after(asking: Pod) -> bool:
        low = bench.world.accounts.get("uid-low")
        assert low is not None
        with bench.world.accounts.what_if():
            bench.world.accounts.drop(low)
            return bench.decide(asking).row == 0

    assert after(pod("high", cpu="5", labels=SCHEME, priority=9))
    assert not after(pod("stranger", cpu="5", priority=9))
    assert bench.plugin.preemption is not None


def test_who_may_be_preempted() -> None:
    policy = ReservationVictimPolicy()
    bench = Bench(node("n"))
    high = bench.info(pod("high", priority=9))
    label = {"scheduling.koordinator.sh/disable-preemptible": "true"}
    assert policy.may_preempt(high, bench.info(pod("low", priority=1)))
    assert not policy.may_preempt(high, bench.info(pod("low", priority=1, labels=label)))
    assert not policy.may_preempt(high, bench.info(pod("same", priority=9)))
    template = {"spec": {"priority": 1, "containers": [container("2")]}}
    bench.put(available("R", "n", cpu="2", template=template))
    (reserve,) = bench.table.pods[0].values()
    assert not policy.may_preempt(high, reserve)
    # What users write on their pods makes no Reservation of them.
    claims = {"scheduling.koordinator.sh/reserve-pod": "true"}
    pretender = bench.info(pod("low", priority=1, annotations=claims))
    for rule in (policy, VictimPolicy(), JobVictims()):
        assert rule.may_preempt(high, pretender)
        assert not rule.may_preempt(high, reserve)


def test_profiles_share_one_account() -> None:
    bench = Bench(node("n", cpu="8"))
    other = Reservation(ReservationArgs(ignored_resources=["example.com/x"]), bench.world)
    bench.world.accounts.listen(other)
    bench.put(available("R", "n", cpu="4", allocateOnce=False))
    bench.place(pod("owner", cpu="3", labels=SCHEME))
    assert other.book is bench.book
    assert bench.requested("n") == 4000
    bench.remove("R")
    assert bench.requested("n") == 3000


def test_a_pod_that_excludes_the_node_of_its_reservation_is_told_so() -> None:
    bench = Bench(node("a"), node("b"))
    bench.put(available("R", "a", cpu="4"))
    affinity = NodeAffinity(None, bench.world)
    plugins = ProfilePlugins(pre_filter=[bench.plugin, affinity], filter=[affinity, bench.plugin])
    decides = Decider(bench.table, bench.world.accounts, plugins)
    must = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
    elsewhere = {"kubernetes.io/hostname": "b"}
    wants = pod("p", cpu="1", labels={"app": "R"}, annotations=must, nodeSelector=elsewhere)
    diagnosis = decides.decide(bench.info(wants)).diagnosis
    assert diagnosis is not None
    assert diagnosis.message() == (
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) didn't satisfy plugin(s) [Reservation]."
    )
