# SPDX-License-Identifier: Apache-2.0
"""Random lives of reservations and pods, compared with the plain model after every step."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from koord.api.kinds.meta import LabelSelector
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation, ReservationOwner
from tests.controllers.scheduler.plugins.reservation.bench import Bench, available
from tests.controllers.scheduler.pods import node, pod
from tests.models.reservation import Cluster, Held, Running

GIB = 2**30
APPS = ("a", "b")
NODES = ("n0", "n1", "n2")
AFFINITY = {"scheduling.koordinator.sh/reservation-affinity": "{}"}


class Lives(RuleBasedStateMachine):
    """Reservations come and go, pods use them, sit beside them, leave."""

    @initialize(places=st.integers(2, 6))
    def begin(self, places: int) -> None:
        self.bench = Bench(*(node(n, cpu="16", memory="16Gi", pods=str(places)) for n in NODES))
        offered = {"cpu": 16_000, "memory": 16 * GIB, "pods": places}
        self.model = Cluster({n: dict(offered) for n in NODES})
        self.made = 0

    @rule(
        where=st.sampled_from(NODES),
        app=st.sampled_from(APPS),
        cpu=st.integers(1, 8),
        memory=st.integers(0, 8),
        once=st.booleans(),
        restricted=st.booleans(),
        order=st.sampled_from((0, 0, 1, 2)),
    )
    def reserve(
        self, where: str, app: str, cpu: int, memory: int, once: bool, restricted: bool, order: int
    ) -> None:
        amounts = {"cpu": cpu * 1000, **({"memory": memory * GIB} if memory else {})}
        if not self.model.fits_node(where, amounts, None):
            return
        self.made += 1
        name = f"r{self.made}"
        self.bench.put(
            available(
                name,
                where,
                cpu=str(cpu),
                memory=f"{memory}Gi" if memory else "",
                owners=[{"labelSelector": {"matchLabels": {"app": app}}}],
                allocateOnce=once,
                allocatePolicy="Restricted" if restricted else "Aligned",
                created=f"2023-11-14T22:{self.made % 60:02}:00Z",
                labels={"scheduling.koordinator.sh/reservation-order": str(order)},
            )
        )
        self.model.held[name] = Held(
            name, where, amounts, app, once, restricted, self.made % 60, order
        )

    @precondition(lambda self: self.model.held)
    @rule(data=st.data(), app=st.sampled_from(APPS), closed=st.booleans())
    def change(self, data: st.DataObject, app: str, closed: bool) -> None:
        """For others from now on, or for nobody new."""
        name = data.draw(st.sampled_from(sorted(self.model.held)))
        view = self.bench.views.view(Reservation)
        known = view.get(name)
        assert known is not None
        owner = ReservationOwner(label_selector=LabelSelector(match_labels={"app": app}))
        spec = structs.replace(known.spec, owners=[owner], unschedulable=closed)
        view.put(structs.replace(known, spec=spec))
        self.model.held[name].app = "" if closed else app

    @precondition(lambda self: self.model.held)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.held)))
        self.bench.remove(name)
        del self.model.held[name]

    @rule(
        app=st.sampled_from((*APPS, "c")),
        cpu=st.integers(0, 12),
        memory=st.integers(0, 12),
        required=st.booleans(),
        stays=st.booleans(),
    )
    def schedule(self, app: str, cpu: int, memory: int, required: bool, stays: bool) -> None:
        self.made += 1
        asked, amounts = self._pod(app, cpu, memory, required)
        feasible = self.model.feasible(amounts, app, required=required)
        decision = self.bench.decide(asked)
        if decision.row < 0:
            assert not feasible
            return
        where = self.bench.table.name(decision.row)
        assert where in feasible
        board = decision.cycle.board
        allowed = decision.cycle.allowed
        assert board is not None
        for row, name in enumerate(NODES):
            passes = board.refused[row] == 0 and (allowed is None or bool(allowed[row]))
            assert passes == (name in feasible)
        if not stays:
            return
        chosen = self.model.choice(amounts, app, where, required=required)
        assert self.bench.decider.assume(decision) is None
        info = decision.cycle.pod
        allocation = info.allocations.get("Reservation")
        assert (allocation.name if allocation else "") == (chosen.name if chosen else "")
        seat = chosen.name if chosen else ""
        self.model.running[info.uid] = Running(info.uid, where, amounts, seat)

    def _pod(self, app: str, cpu: int, memory: int, required: bool) -> tuple[Pod, dict[str, int]]:
        requests = {"cpu": cpu * 1000, "memory": memory * GIB}
        asked = pod(
            f"p{self.made}",
            cpu=str(cpu) if cpu else "",
            memory=f"{memory}Gi" if memory else "",
            labels={"app": app},
            annotations=AFFINITY if required else {},
        )
        return asked, {name: amount for name, amount in requests.items() if amount}

    @precondition(lambda self: self.model.running)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.model.running)))
        info = self.bench.world.accounts.get(uid)
        assert info is not None
        self.bench.world.accounts.drop(info)
        del self.model.running[uid]

    @rule()
    def imagine(self) -> None:
        """A what-if that takes everything away leaves nothing behind."""
        before = self.bench.table.requested.copy()
        with self.bench.world.accounts.what_if():
            for info in list(self.bench.world.accounts.pods().values()):
                self.bench.world.accounts.drop(info)
            assert not self.bench.table.requested.any()
            assert not self.bench.table.nonzero.any()
        assert (self.bench.table.requested == before).all()

    @invariant()
    def accounts_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        for name in NODES:
            for resource in ("cpu", "memory", "pods"):
                assert self.bench.requested(name, resource) == self.model.requested(name, resource)
        assert not self.model.over_committed()


Lives.TestCase.settings = settings(deadline=None)
TestLives = Lives.TestCase
