# SPDX-License-Identifier: Apache-2.0
"""The QoS class of a pod: what its label says, and what its resources imply without one."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.pod import Pod

_ZERO = Quantity()
_COUNTED = ("cpu", "memory")


class QoSClass(StrEnum):
    """Koordinator's classes; ``NONE`` is the absence of one."""

    LSE = "LSE"
    LSR = "LSR"
    LS = "LS"
    BE = "BE"
    SYSTEM = "SYSTEM"
    NONE = ""


class KubernetesQoS(StrEnum):
    """The classes that Kubernetes derives from requests and limits."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


# The class of a Guaranteed pod without a label; deployments that bind CPUs otherwise change it.
GUARANTEED_DEFAULT = QoSClass.LSR

_DEFAULTS = {
    KubernetesQoS.BURSTABLE: QoSClass.LS,
    KubernetesQoS.BEST_EFFORT: QoSClass.BE,
}


def parse_qos(text: str) -> QoSClass:
    """The class of that exact spelling; ``NONE`` for anything else."""
    try:
        return QoSClass(text)
    except ValueError:
        return QoSClass.NONE


def raw_qos(labels: Mapping[str, str]) -> QoSClass:
    """What the labels say; annotations never count."""
    return parse_qos(labels.get(keys.QOS_CLASS, ""))


def kubernetes_qos(pod: Pod) -> str:
    """The class in the pod's status, or the one Kubernetes derives from its containers."""
    if pod.status.qos_class:
        return pod.status.qos_class
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    all_limited = True
    for container in [*pod.spec.init_containers, *pod.spec.containers]:
        # The API server copies a limit into a missing request before anyone sees the pod.
        own_limits = _positive(container.resources.limits)
        for name, amount in {**own_limits, **_positive(container.resources.requests)}.items():
            requests[name] = requests.get(name, _ZERO) + amount
        for name, amount in own_limits.items():
            limits[name] = limits.get(name, _ZERO) + amount
        all_limited = all_limited and len(own_limits) == len(_COUNTED)
    if not requests and not limits:
        return KubernetesQoS.BEST_EFFORT
    if all_limited and requests == limits:
        return KubernetesQoS.GUARANTEED
    return KubernetesQoS.BURSTABLE


def qos_with_default(pod: Pod) -> QoSClass:
    """The label's class, or the one that the Kubernetes class stands for."""
    labelled = raw_qos(pod.metadata.labels)
    if labelled is not QoSClass.NONE:
        return labelled
    derived = kubernetes_qos(pod)
    if derived == KubernetesQoS.GUARANTEED:
        return GUARANTEED_DEFAULT
    return _DEFAULTS.get(derived, QoSClass.NONE)  # type: ignore[call-overload, no-any-return]


def _positive(amounts: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {name: amounts[name] for name in _COUNTED if name in amounts and amounts[name] > _ZERO}
