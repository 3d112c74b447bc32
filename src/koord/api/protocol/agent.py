# SPDX-License-Identifier: Apache-2.0
"""What a pod asks of the node agent: CPU, memory, I/O, network and cache quality, OOM score."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.kinds.meta import ResourceList
from koord.api.kinds.qos_strategy import CPUQOS, BlkIOQOS, MemoryQOS
from koord.api.kinds.slo_strategies import CPUBurstStrategy
from koord.api.protocol import annotation, keys
from koord.api.protocol.numbers import parse_int
from koord.api.wirestruct import WireStruct, emitted
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod

_BITS_PER_BYTE = 8
_GROUP_IDENTITIES = range(-1, 3)
_OOM_SCORES = range(-1000, 1001)


class PodMemoryQOS(MemoryQOS):
    """Memory quality of one pod; ``policy`` is ``default``, ``none`` or ``auto``."""

    policy: str = ""


class NetworkLimits(WireStruct):
    """``koordinator.sh/networkQOS``: bandwidth in bits per second."""

    ingress_limit: Quantity = Quantity()
    egress_limit: Quantity = Quantity()


class Schemata(WireStruct):
    """A share of a cache or of bandwidth, in percent, or a range of a cache."""

    percent: int = 0
    range: list[int] = []


class CacheSchemata(Schemata):
    """A share on one cache domain."""

    cache_id: int = emitted(int)


class ResctrlResource(WireStruct):
    """Shares on all cache domains, and on single ones."""

    schemata: Schemata | None = None
    schemata_per_cache: list[CacheSchemata] = []


class ResctrlConfig(WireStruct):
    """``node.koordinator.sh/resctrl``: last-level cache and memory bandwidth of a pod."""

    llc: ResctrlResource | None = None
    mb: ResctrlResource | None = None


class ExtendedContainer(WireStruct):
    """Extended resources of one container."""

    limits: ResourceList = {}
    requests: ResourceList = {}


class ExtendedResourceSpec(WireStruct):
    """``node.koordinator.sh/extended-resource-spec``: extended resources by container."""

    containers: dict[str, ExtendedContainer] = {}


def network_limits_bytes(pod: Pod) -> tuple[int, int] | None:
    """Ingress and egress limit in bytes per second, 0 for none; None without the annotation.

    Raises:
        KoordError: malformed, or a limit beyond 64 bits.
    """
    limits = annotation.read(pod, keys.NETWORK_QOS, NetworkLimits)
    if limits is None:
        return None
    return (
        _limit_bytes(limits.ingress_limit, pod.title, "ingressLimit"),
        _limit_bytes(limits.egress_limit, pod.title, "egressLimit"),
    )


def _limit_bytes(bits: Quantity, object_name: str, name: str) -> int:
    try:
        return bits.value(Rounding.UP) // _BITS_PER_BYTE
    except ValueError:
        field = f"{annotation.field_of(keys.NETWORK_QOS)}.{name}"
        raise KoordError(object_name, field, str(bits), "bits a second within 64 bits") from None


def cpu_burst(pod: Pod) -> CPUBurstStrategy | None:
    """The pod's own burst settings; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(pod, keys.CPU_BURST, CPUBurstStrategy)


def cpu_qos(pod: Pod) -> CPUQOS | None:
    """The pod's own CPU quality; None without the annotation.

    Raises:
        KoordError: malformed, or a group identity outside -1 to 2.
    """
    qos = annotation.read(pod, keys.CPU_QOS, CPUQOS)
    identity = qos.group_identity if qos else None
    if identity is not None and identity not in _GROUP_IDENTITIES:
        field = f"{annotation.field_of(keys.CPU_QOS)}.groupIdentity"
        raise KoordError(pod.title, field, identity, "an integer from -1 to 2")
    return qos


def memory_qos(pod: Pod) -> PodMemoryQOS | None:
    """The pod's own memory quality; None without the annotation, an empty policy is default.

    Raises:
        KoordError: malformed, or an unknown policy.
    """
    qos = annotation.read(pod, keys.MEMORY_QOS, PodMemoryQOS)
    if qos is None:
        return None
    qos.policy = qos.policy or "default"
    if qos.policy not in ("default", "none", "auto"):
        field = f"{annotation.field_of(keys.MEMORY_QOS)}.policy"
        raise KoordError(pod.title, field, qos.policy, "default, none or auto")
    return qos


def blkio_qos(pod: Pod) -> BlkIOQOS | None:
    """The pod's own block I/O quality; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(pod, keys.BLKIO_QOS, BlkIOQOS)


def core_sched_group(pod: Pod) -> str:
    """The core scheduling group: the label's, empty too, or the pod's UID if it is exclusive."""
    if pod.metadata.labels.get(keys.CORE_SCHED_POLICY) == "exclusive":
        return pod.metadata.uid
    return pod.metadata.labels.get(keys.CORE_SCHED_GROUP_ID, "")


def core_sched_policy(pod: Pod) -> str:
    """``""`` (default), ``none`` or ``exclusive``; an unknown policy is the default one."""
    policy = pod.metadata.labels.get(keys.CORE_SCHED_POLICY, "")
    return policy if policy in ("none", "exclusive") else ""


def resctrl(pod: Pod) -> ResctrlConfig:
    """The pod's cache and bandwidth shares; empty without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(pod, keys.RESCTRL, ResctrlConfig) or ResctrlConfig()


def extended_resource_spec(pod: Pod) -> ExtendedResourceSpec:
    """Extended resources by container; empty without the annotation.

    Raises:
        KoordError: malformed.
    """
    found = annotation.read(pod, keys.EXTENDED_RESOURCE_SPEC, ExtendedResourceSpec)
    return found or ExtendedResourceSpec()


class OOMScores(NamedTuple):
    """What a pod's annotations say of OOM scores.

    Attributes:
        own: by container.
        text: of the containers that have none of their own; None without it.
        title: of the pod.
    """

    own: dict[str, int]
    text: str | None
    title: str

    def of(self, container: str) -> int | None:
        """The score of a container, its own before the pod's; None without annotations.

        Raises:
            KoordError: malformed, or outside -1000 to 1000.
        """
        if container in self.own:
            field = f"{annotation.field_of(keys.OOM_SCORE_ADJ_SPEC)}.{container}"
            return _oom_score(self.own[container], self.title, field)
        if self.text is None:
            return None
        field = annotation.field_of(keys.OOM_SCORE_ADJ)
        return _oom_score(parse_int(self.text, self.title, field), self.title, field)


def oom_scores(pod: Pod) -> OOMScores:
    """The scores of all containers, read once: a pod may have thousands.

    Raises:
        KoordError: the scores by container are malformed.
    """
    own = annotation.read(pod, keys.OOM_SCORE_ADJ_SPEC, dict[str, int]) or {}
    return OOMScores(own, pod.metadata.annotations.get(keys.OOM_SCORE_ADJ), pod.title)


def oom_score_adj(pod: Pod, container: str) -> int | None:
    """The OOM score of one container, see :meth:`OOMScores.of`.

    Raises:
        KoordError: malformed, or outside -1000 to 1000.
    """
    return oom_scores(pod).of(container)


def _oom_score(score: int, object_name: str, field: str) -> int:
    if score not in _OOM_SCORES:
        raise KoordError(object_name, field, score, "an integer from -1000 to 1000")
    return score
