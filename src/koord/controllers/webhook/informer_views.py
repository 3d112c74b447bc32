# SPDX-License-Identifier: Apache-2.0
"""The caches of admission where it is a program of its own: what of each object is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.controllers.cluster.views import InformerViews
from koord.controllers.webhook.admitted_pods import AdmittedNode, AdmittedPod
from koord.controllers.webhook.pods.validation import binding
from koord.kube.informers.reflector import InformerMetrics

if TYPE_CHECKING:
    from koord.base.feature_gates import FeatureGates
    from koord.base.metrics import MetricRegistry
    from koord.base.supervision import Supervisor
    from koord.kube.client import Client


def kept_of_pods(gates: FeatureGates) -> type[Pod]:
    """What of pods is kept: what handlers ask of them.

    Binding alone looks at annotations; where it is judged pods are kept as in koord-manager.

    Args:
        gates: say who asks.
    """
    return TrimmedPod if gates.enabled(binding.GATE) else AdmittedPod


def admission_views(
    client: Client, metrics: MetricRegistry, supervisor: Supervisor, gates: FeatureGates
) -> InformerViews:
    """Views of admission alone; in koord-manager it shares that one's.

    Args:
        client: the way to the API server.
        metrics: of informers.
        supervisor: keeps them going.
        gates: say what is kept of pods.
    """
    options: dict[type, dict[str, Any]] = {
        Pod: {"project": kept_of_pods(gates)},
        Node: {"project": AdmittedNode},
    }
    return InformerViews(client, InformerMetrics(metrics), options, supervisor)
