# SPDX-License-Identifier: Apache-2.0
"""The QoS class of a pod: what its label says, and what its resources imply without one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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

# Of every new shape both are asked: to look a member up in its class takes longer than all else.
_NONE = QoSClass.NONE
_GUARANTEED, _BURSTABLE = KubernetesQoS.GUARANTEED, KubernetesQoS.BURSTABLE
_BY_TEXT: dict[str, QoSClass] = {each.value: each for each in QoSClass}


def parse_qos(text: str) -> QoSClass:
    """The class of that exact spelling; ``NONE`` for anything else."""
    return _BY_TEXT.get(text, _NONE)


def raw_qos(labels: Mapping[str, str]) -> QoSClass:
    """What the labels say; annotations never count."""
    return parse_qos(labels.get(keys.QOS_CLASS, ""))


def kubernetes_qos(pod: Pod) -> str:
    """The class in the pod's status, or the one that Kubernetes derives from what it asks for."""
    if pod.status.qos_class:
        return pod.status.qos_class
    spec = pod.spec
    owners = [spec.resources] if spec.resources is not None else _of_containers(spec)
    return qos_from_resources([(each.requests, each.limits) for each in owners])


def qos_from_resources(owners: Iterable[tuple[Amounts, Amounts]]) -> KubernetesQoS:
    """The class that Kubernetes 1.34 and later derive from CPU and memory.

    Amounts up to 0 count as none, and a request that is not there as its limit: so the API server
    completes containers before anyone sees the pod.

    Args:
        owners: requests and limits of the pod as a whole, where it says any, be they empty; else of
            each of its containers, init containers included.
    """
    all_limited, any_request, any_limit = True, False, False
    unequal: list[tuple[str, Quantity, Quantity]] = []  # name, request, limit
    for asked, limited in owners:
        if not limited:
            all_limited = False
            for name in _COUNTED:
                any_request = any_request or (name in asked and asked[name] > _ZERO)
            if any_request:
                return _BURSTABLE
            continue
        for name in _COUNTED:
            limit = limited.get(name, _ZERO)
            request = asked.get(name, limit)
            if limit > _ZERO:
                any_limit = True
            else:
                all_limited = False
            if request > _ZERO:
                any_request = True
            if request != limit:
                unequal.append((name, request, limit))
        if any_request and not all_limited:
            return _BURSTABLE
    if not any_request and not any_limit:
        return KubernetesQoS.BEST_EFFORT
    if all_limited and not _differ_in_sum(unequal):
        return KubernetesQoS.GUARANTEED
    return KubernetesQoS.BURSTABLE


def qos_with_default(pod: Pod) -> QoSClass:
    """The label's class, or the one that the Kubernetes class stands for."""
    labelled = raw_qos(pod.metadata.labels)
    if labelled is not _NONE:
        return labelled
    derived = kubernetes_qos(pod)
    if derived == _GUARANTEED:
        return GUARANTEED_DEFAULT
    return _DEFAULTS.get(derived, _NONE)  # type: ignore[call-overload, no-any-return]


def _of_containers(spec: PodSpec) -> list[ResourceRequirements]:
    return [each.resources for each in (*spec.init_containers, *spec.containers)]


def _differ_in_sum(unequal: Sequence[tuple[str, Quantity, Quantity]]) -> bool:
    """Whether requests and limits differ of any resource, all owners together."""
    for name in _COUNTED:
        request, limit = _ZERO, _ZERO
        for resource, asked, limited in unequal:
            if resource == name:
                request, limit = request + max(asked, _ZERO), limit + max(limited, _ZERO)
        if request != limit:
            return True
    return False
