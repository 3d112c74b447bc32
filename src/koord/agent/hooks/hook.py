# SPDX-License-Identifier: Apache-2.0
"""What a hook is: pod or container in, values out; it knows nothing of how it is delivered."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from koord.api.kinds.meta import ResourceList
from koord.kernels.cgroup_path import KubeQos

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.agent.executor.claim import Claim
    from koord.agent.states.snapshot import Snapshot, SnapshotPart
    from koord.api.kinds.slo_strategies import HostApplication
    from koord.api.protocol.qos import QoSClass


class HookStage(StrEnum):
    """When a hook is asked, as the hook protocol names it."""

    PRE_RUN_POD_SANDBOX = "PreRunPodSandbox"
    PRE_CREATE_CONTAINER = "PreCreateContainer"
    PRE_START_CONTAINER = "PreStartContainer"
    POST_START_CONTAINER = "PostStartContainer"
    PRE_UPDATE_CONTAINER_RESOURCES = "PreUpdateContainerResources"
    POST_STOP_CONTAINER = "PostStopContainer"
    POST_STOP_POD_SANDBOX = "PostStopPodSandbox"
    PRE_REMOVE_RUN_POD_SANDBOX = "PreRemoveRunPodSandbox"


@dataclass(frozen=True, slots=True)
class CgroupRequest:
    """CPU and memory of a pod or container as the delivery knows them; None is "not told".

    Units: shares, quota in microseconds (-1 none), bytes (-1 none).
    """

    cpu_shares: int | None = None
    cfs_quota_us: int | None = None
    memory_limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ExtendedResources:
    """Batch and mid resources of one container."""

    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodContext:
    """A pod as a hook sees it, whichever way it came.

    Attributes:
        directory: its cgroup, relative.
        kube_qos: from its status, or the words of its cgroup path.
        extended: by container name; None where nobody told.
        reconciling: whether the reconciler asks, which knows the whole pod.
        known: what was read of the annotations already, see
            :func:`koord.agent.hooks.pod_contexts.read_once`.
    """

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    qos: QoSClass
    kube_qos: KubeQos
    directory: str
    requested: CgroupRequest = CgroupRequest()
    extended: Mapping[str, ExtendedResources] | None = None
    reconciling: bool = True
    known: dict[object, tuple[object, object]] = field(
        default_factory=dict, compare=False, repr=False
    )


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """A container of a pod, or its sandbox (``name`` empty).

    ``environment`` is that of one which is being made; it is empty where the reconciler asks.
    """

    pod: PodContext
    name: str
    id: str
    directory: str
    requested: CgroupRequest = CgroupRequest()
    environment: Mapping[str, str] = field(default_factory=dict)


class DeviceFile(NamedTuple):
    """A device file that a container gets.

    Attributes:
        path: in the container.
        major, minor: the kernel's numbers of it.
        kind: ``c`` or ``b``.
        mode: permissions.
    """

    path: str
    major: int
    minor: int
    kind: str = "c"
    mode: int = 0o666


@dataclass(slots=True)
class HookResponse:
    """What one hook wants; None and empty mean "nothing to say".

    Cgroup values are keyed by resource (``cpu.bvt_warp_ns``, ``cpuset.cpus``, ...) in v1 units;
    ``ratio`` divides the quota. The rest only some deliveries can carry out. ``missing`` names what
    the host lacks, for want of which something was left out.
    """

    values: dict[str, str | int] = field(default_factory=dict)
    quota_ratio: float | None = None
    oom_score_adj: int | None = None
    resctrl_group: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    mounts: list[tuple[str, str]] = field(default_factory=list)
    devices: list[DeviceFile] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    reason: str = ""


class Hook(Protocol):
    """One concern; registered by entry point group ``koord.agent.hooks``.

    An entry point is a callable ``(options) -> Hook``. Within a stage hooks run in byte order of
    their names, and a later one may overwrite a value.
    """

    name: str
    gate: str
    stages: frozenset[HookStage]
    follows: SnapshotPart  #: the parts of a snapshot its rule is made from

    def learn(self, snapshot: Snapshot) -> bool:
        """Makes the rule anew; whether it changed, so that everything is asked again.

        Raises:
            KoordError: a part is malformed; of that the last good rule stays. Others may have
                changed, and everything is asked again.
        """
        ...

    def pod(self, context: PodContext) -> HookResponse | None:
        """Values of a pod's directory."""
        ...

    def container(self, context: ContainerContext) -> HookResponse | None:
        """Values of a container's, or its sandbox's."""
        ...

    def kube_qos(self, qos: KubeQos) -> HookResponse | None:
        """Values of the directory of a Kubernetes QoS class."""
        ...

    def host_application(self, application: HostApplication) -> HookResponse | None:
        """Values of the directory of an application outside Kubernetes."""
        ...


@runtime_checkable
class NodeWide(Protocol):
    """What a hook may be besides: one that claims things of the node as a whole."""

    def node(self, snapshot: Snapshot) -> list[Claim]:
        """Everything it wants of the node; asked after any part that it follows changed."""
        ...
