# SPDX-License-Identifier: Apache-2.0
"""The QoS class of a pod: what its label says, and what its resources imply without one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.pod import Pod, PodSpec, ResourceRequirements

Amounts = Mapping[str, Quantity]
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
    """The class in the pod's status, or the one that Kubernetes derives from what it asks for."""
    if pod.status.qos_class:
        return pod.status.qos_class
    spec = pod.spec
    owners = [spec.resources] if spec.resources is not None else _of_containers(spec)
    return qos_from_resources((each.requests, each.limits) for each in owners)


def qos_from_resources(owners: Iterable[tuple[Amounts, Amounts]]) -> KubernetesQoS:
    """The class that Kubernetes 1.34 and later derive from CPU and memory.

    Amounts up to 0 count as none, and a request that is not there as its limit: so the API server
    completes containers before anyone sees the pod.

    Args:
        owners: requests and limits of the pod as a whole, where it says any, be they empty; else of
            each of its containers, init containers included.
    """
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    all_limited = True
    for asked, limited in owners:
        limit, request = _positive(limited), _positive({**limited, **asked})
        all_limited = all_limited and len(limit) == len(_COUNTED)
        if not all_limited and (request or requests):
            return KubernetesQoS.BURSTABLE
        _add(requests, request)
        _add(limits, limit)
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


def _of_containers(spec: PodSpec) -> list[ResourceRequirements]:
    return [each.resources for each in (*spec.init_containers, *spec.containers)]


def _positive(amounts: Amounts) -> dict[str, Quantity]:
    return {name: amounts[name] for name in _COUNTED if name in amounts and amounts[name] > _ZERO}


def _add(total: dict[str, Quantity], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, _ZERO) + amount
