# SPDX-License-Identifier: Apache-2.0
"""The caches of admission where it is a program of its own: what of each object is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.kinds.pod import Pod
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.controllers.cluster.views import InformerViews
from koord.kube.informers.reflector import InformerMetrics

if TYPE_CHECKING:
    from koord.base.metrics import MetricRegistry
    from koord.base.supervision import Supervisor
    from koord.kube.client import Client


def admission_views(
    client: Client, metrics: MetricRegistry, supervisor: Supervisor
) -> InformerViews:
    """Views in which pods are trimmed, as in the manager, which shares its own with admission."""
    options: dict[type, dict[str, Any]] = {Pod: {"project": TrimmedPod}}
    return InformerViews(client, InformerMetrics(metrics), options, supervisor)
