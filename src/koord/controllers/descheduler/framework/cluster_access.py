# SPDX-License-Identifier: Apache-2.0
"""What plugins that are controllers get of a cluster, beside the snapshot of a round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.pod import Pod
    from koord.base.supervision import Supervisor
    from koord.controllers.cluster.views import InformerViews
    from koord.kube.client import Client
    from koord.kube.events import EventRecorder


@dataclass(frozen=True)
class ClusterAccess:
    """The way to a cluster.

    A plugin asks for its views when it is made, before the informers run, and attaches to them in
    its ``run``, which is called once this process leads and all views are complete.

    Args:
        client: reads and writes; fenced by the lead.
        informers: an informer a kind, shared: ``informers.view(Pod)``, with whole pods.
        supervisor: keeps the loops of controllers going.
        events: writes events; run by the program.
        dry_run: whether nothing may be written.
        count_eviction: gets the result (``success`` or ``error``), the strategy and the pod of each
            eviction that a controller asks for.
        arbitrated: gets the seconds that each round of arbitration took.
        without_claims: whether reservations leave volumes of claims out.
    """

    client: Client
    informers: InformerViews
    supervisor: Supervisor
    events: EventRecorder
    dry_run: bool = False
    count_eviction: Callable[[str, str, Pod], None] = field(default=lambda result, by, pod: None)
    arbitrated: Callable[[float], None] = field(default=lambda seconds: None)
    without_claims: bool = False
