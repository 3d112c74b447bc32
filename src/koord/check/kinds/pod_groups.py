# SPDX-License-Identifier: Apache-2.0
"""PodGroups: what a gang declares, and the gangs it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.quota import PodGroup
from koord.api.protocol import absent
from koord.base.errors import KoordError
from koord.check.object_index import DEFAULT_NAMESPACE
from koord.check.problem import Finding
from koord.check.registry import checker
from koord.controllers.scheduler.plugins.coscheduling.objects.gang_declaration import (
    GangDefaults,
    of_pod_group,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject


@checker("PodGroup", "scheduling.sigs.k8s.io")
def pod_group(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """The declaration as the scheduler reads it."""
    del world
    group = subject.typed
    if not isinstance(group, PodGroup):
        return
    gang = f"{group.metadata.namespace or DEFAULT_NAMESPACE}/{group.metadata.name}"
    try:
        of_pod_group(group, gang, GangDefaults())
    except KoordError as error:
        yield Finding.of(error)
    yield from map(Finding.of, absent.pod_group(group))
    yield from map(Finding.of, absent.gang_ids(group))
