# SPDX-License-Identifier: Apache-2.0
"""PodMigrationJobs: how a pod is moved, and whether it and the reservation are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.migration import EVICT_DIRECTLY, RESERVATION_FIRST, PodMigrationJob
from koord.api.kinds.pod import Pod
from koord.api.kinds.registry import kind_of_type
from koord.api.kinds.reservation import Reservation
from koord.check.problem import Finding
from koord.check.registry import checker
from koord.controllers.webhook.extras.migration_jobs import pod_key, spec_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject

_POD, _RESERVATION = kind_of_type(Pod), kind_of_type(Reservation)


@checker("PodMigrationJob", "scheduling.koordinator.sh")
def migration(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """A job. Its pod runs already, so that only a cluster can say whether it is there."""
    job = subject.typed
    if not isinstance(job, PodMigrationJob):
        return
    spec = job.spec
    yield from map(Finding.of, spec_problems(job))
    pod = spec.pod_ref
    if pod is not None and pod_key(job) is not None and world.cluster is not None:
        yield from world.reference(_POD, "spec.podRef.name", pod.name, pod.namespace)
    options = spec.reservation_options
    if options is None or options.reservation_ref is None:
        return
    path = "spec.reservationOptions.reservationRef"
    if spec.mode == EVICT_DIRECTLY:
        yield Finding.warning(path, EVICT_DIRECTLY, f"mode {RESERVATION_FIRST}, which uses it")
    if options.reservation_ref.name and world.cluster is not None:
        yield from world.reference(_RESERVATION, f"{path}.name", options.reservation_ref.name)
