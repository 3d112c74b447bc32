# SPDX-License-Identifier: Apache-2.0
"""Reservations that the pods of one controller may take, and which jobs they are to serve.

A pod that comes anew for one that was evicted may take any reservation of its controller. So jobs
of one workload reserve at the same time, and settle by which reservation was taken: where the new
pod of one job took the reservation of another that has not evicted yet, they change reservations.

Rule: docs/reference/migration.md#several-of-one-workload.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api.kinds import reservation as kinds
from koord.api.protocol.reservations import reservation_order
from koord.base.errors import KoordError
from koord.controllers.descheduler.migration.arbitration.job_index import is_open
from koord.controllers.descheduler.migration.course.job_status import (
    ENDED_WELL,
    eviction_began,
    is_bound,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from koord.api.kinds.migration import PodMigrationJob
    from koord.api.kinds.reservation import Reservation
    from koord.controllers.descheduler.migration.arbitration.job_index import JobIndex


@dataclass(frozen=True)
class PoolState:
    """What the other reservations of a job's controller mean for the job.

    Attributes:
        may_reserve: whether none of them may come to hold the node that the pod is to leave.
        yields: whether the job's own stands on a node that an earlier job is leaving.
        awaited: whether a job whose pod is gone may still change reservations with this one.
        spare: one that was given to this job and that it does not name yet.
        taken: of another job that has not evicted, with the pod that this job waits for.
    """

    may_reserve: bool = True
    yields: bool = False
    awaited: bool = False
    spare: Reservation | None = None
    taken: Reservation | None = None


class ReservationPool:
    """Reservations by the controller whose pods may take them.

    Args:
        jobs: that there are.
    """

    def __init__(self, jobs: JobIndex) -> None:
        self._jobs = jobs
        self._held: dict[str, dict[str, Reservation]] = {}
        self._owned: dict[str, dict[str, Reservation]] = {}
        self._known: dict[str, Reservation] = {}
        self._expected: dict[str, set[str]] = {}
        self._waiting: dict[str, set[str]] = {}

    def put(self, reservation: Reservation) -> list[str]:
        """A reservation is there, or has changed; uids of jobs to look at for that."""
        name, found = reservation.metadata.name, self.remove(reservation)
        self._known[name] = reservation
        self._held.setdefault(controller_of(reservation), {})[name] = reservation
        for owner in _job_owners(reservation):
            self._owned.setdefault(owner, {})[name] = reservation
            self._arrived(owner)
        return found

    def remove(self, reservation: Reservation) -> list[str]:
        """A reservation is gone; uids of jobs to look at for that."""
        name = reservation.metadata.name
        old = self._known.pop(name, None)
        if old is not None:
            _drop(self._held, controller_of(old), name)
            for owner in _job_owners(old):
                _drop(self._owned, owner, name)
        return self._woken({controller_of(old or reservation)})

    def forget(self, job: PodMigrationJob, name: str) -> list[str]:
        """A job needs its place no longer; uids of jobs to look at for that.

        Args:
            name: of its reservation.
        """
        controllers = self._arrived(job.metadata.uid)
        held = self._known.get(name)
        return self._woken(controllers | ({controller_of(held)} if held is not None else set()))

    def made(self, job: PodMigrationJob, name: str) -> list[str]:
        """A job has its reservation, or with an empty name failed to make one."""
        if name and name not in self._known:
            return []  # It still is to be heard of.
        return self._woken(self._arrived(job.metadata.uid))

    def may_reserve(self, controller: str, node: str, job: str, group: Collection[str]) -> bool:
        """Whether a job may reserve now; where not, it is named once that may have changed.

        Args:
            controller: uid; empty where nobody makes the pod anew.
            node: that the pod is on.
            job: uid.
            group: uids of the jobs that move together with it.
        """
        if not controller:
            return True
        own = {job, *group}
        if self._expected.get(controller, set()) - own or any(
            _may_come_to(held, node)
            for held in self._free(controller)
            if _job_owners(held) and not own.intersection(_job_owners(held))
        ):
            self._waiting.setdefault(controller, set()).add(job)
            return False
        return True

    def expect(self, controller: str, job: str) -> None:
        """A job is about to make its reservation."""
        if controller:
            self._expected.setdefault(controller, set()).add(job)

    def state(
        self, job: PodMigrationJob, held: Reservation, node: str, group: Collection[str]
    ) -> PoolState:
        """What the others mean for a job with a reservation.

        Args:
            held: that it names.
            node: that its pod is on; empty where it is gone.
            group: uids of the jobs that move together with it.
        """
        controller, begun = controller_of(held), eviction_began(job.status)
        if not controller:
            return PoolState()
        if begun:
            if node or not is_free(held):
                return PoolState()
            found = PoolState(taken=self._taken(job, controller))
        elif is_free(held):
            found = PoolState(yields=self._yields(job, held, group))
            if not found.yields:
                return found
        else:
            spare = self.spare(job, node)
            found = PoolState(spare=spare, awaited=spare is None and self._awaited(job, controller))
        self._waiting.setdefault(controller, set()).add(job.metadata.uid)
        return found

    def spare(self, job: PodMigrationJob, node: str) -> Reservation | None:
        """A free reservation that is the job's and that no open job names, away from a node."""
        found = self._owned.get(job.metadata.uid)
        if not found:
            return None
        free = [
            held
            for held in found.values()
            if is_free(held)
            and not (node and held.status.node_name == node)
            and not any(is_open(claim) for claim in self._claims(held))
        ]
        return min(free, key=_age, default=None)

    def _arrived(self, job: str) -> set[str]:
        """What was expected of a job is no longer; the controllers where that was."""
        found = {key for key, jobs in self._expected.items() if job in jobs}
        for controller in found:
            self._expected[controller].discard(job)
            if not self._expected[controller]:
                del self._expected[controller]
        return found

    def _woken(self, controllers: set[str]) -> list[str]:
        return sorted({job for key in controllers for job in self._waiting.pop(key, ())})

    def _yields(self, job: PodMigrationJob, held: Reservation, group: Collection[str]) -> bool:
        """The pods of earlier jobs could come back to where they were, in this reservation."""
        node, own = held.status.node_name, {job.metadata.uid, *group}
        return bool(node) and any(
            node in nodes_left(other) and any(_is_unsettled(claim) for claim in self._claims(other))
            for other in self._held.get(controller_of(held), {}).values()
            if _age(other) < _age(held)
            and not any(claim.metadata.uid in own for claim in self._claims(other))
        )

    def _taken(self, job: PodMigrationJob, controller: str) -> Reservation | None:
        """The first that a pod has taken although its job has not evicted."""
        found = [
            held
            for held in self._held.get(controller, {}).values()
            if held.status.current_owners and self._serves_nobody(held, job)
        ]
        return min(found, key=_age, default=None)

    def _serves_nobody(self, held: Reservation, job: PodMigrationJob) -> bool:
        claims = self._claims(held)
        return bool(claims) and not any(
            claim.metadata.uid == job.metadata.uid
            or eviction_began(claim.status)
            or claim.status.phase == ENDED_WELL
            for claim in claims
        )

    def _awaited(self, job: PodMigrationJob, controller: str) -> bool:
        """Whether a free reservation may still become the job's.

        One that nobody names is on its way to another job, or is about to be deleted. One that is
        this job's already and no spare stands where its pod is: it is of no use.
        """
        for held in self._free(controller):
            claims = [claim for claim in self._claims(held) if is_open(claim)]
            if not claims and job.metadata.uid in _job_owners(held):
                continue
            if not claims and _job_owners(held):
                return True
            if any(
                claim.metadata.uid != job.metadata.uid
                and _is_unsettled(claim)
                and eviction_began(claim.status)
                and not claim.spec.paused
                for claim in claims
            ):
                return True
        return False

    def _free(self, controller: str) -> Iterator[Reservation]:
        return (held for held in self._held.get(controller, {}).values() if is_free(held))

    def _claims(self, held: Reservation) -> list[PodMigrationJob]:
        return self._jobs.of_reservation(held.metadata.name)


def is_free(reservation: Reservation) -> bool:
    """Whether no pod has taken it and one still can."""
    ended = reservation.status.phase in (kinds.SUCCEEDED, kinds.FAILED)
    return not ended and not reservation.status.current_owners


def controller_of(reservation: Reservation) -> str:
    """The uid of the controller whose pods may take it; empty for none."""
    return next((o.controller.uid for o in reservation.spec.owners if o.controller), "")


def nodes_left(reservation: Reservation) -> set[str]:
    """The nodes that it must not be on: those that pods are to leave."""
    template = reservation.spec.template
    affinity = template.spec.affinity if template is not None else None
    of_nodes = affinity.node_affinity if affinity is not None else None
    required = of_nodes.required_during_scheduling_ignored_during_execution if of_nodes else None
    return {
        name
        for term in (required.node_selector_terms if required is not None else ())
        for field in term.match_fields
        if (field.key, field.operator) == ("metadata.name", "NotIn")
        for name in field.values
    }


def _may_come_to(held: Reservation, node: str) -> bool:
    if held.status.node_name:
        return held.status.node_name == node
    unschedulable = any(
        (each.type, each.reason) == (kinds.SCHEDULED, kinds.UNSCHEDULABLE)
        for each in held.status.conditions
    )
    return not unschedulable and node not in nodes_left(held)


def _is_unsettled(job: PodMigrationJob) -> bool:
    return is_open(job) and not is_bound(job.status)


def _job_owners(reservation: Reservation) -> list[str]:
    owners = reservation.metadata.owner_references
    return [owner.uid for owner in owners if owner.kind == "PodMigrationJob"]


def _drop(index: dict[str, dict[str, Reservation]], key: str, name: str) -> None:
    found = index[key]
    found.pop(name, None)
    if not found:
        del index[key]


def _age(reservation: Reservation) -> tuple[int, str]:
    try:
        order = reservation_order(reservation)
    except KoordError:
        order = 0
    return order, reservation.metadata.name
