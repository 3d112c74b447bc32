# SPDX-License-Identifier: Apache-2.0
"""Which kinds there are, how the API names them, and which type decodes each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from koord.api.kinds.meta import Object


class Kind(NamedTuple):
    """One kind at one version.

    Args:
        group: API group, ``""`` for the core.
        version: e.g. ``v1``.
        name: e.g. ``Pod``.
        plural: as in URLs.
        namespaced: whether objects live in namespaces.
        type_path: ``module.Type`` below ``koord.api.kinds``; the module is imported on first use.
        short_names: what kubectl takes as well.
        custom: whether the kind is defined by a CRD of ours.
    """

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool
    type_path: str
    short_names: tuple[str, ...] = ()
    custom: bool = False

    @property
    def api_version(self) -> str:
        """``group/version``, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def type(self) -> type[Object]:
        """The struct that decodes objects of this kind."""
        module, name = self.type_path.split(".")
        found: type[Object] = getattr(import_module(f"koord.api.kinds.{module}"), name)
        return found


_SLO, _SCHEDULING = "slo.koordinator.sh", "scheduling.koordinator.sh"
_QUOTA, _SIGS = "quota.koordinator.sh", "scheduling.sigs.k8s.io"
_STORAGE = "storage.k8s.io"
_CONFIG, _NRT = "config.koordinator.sh", "topology.node.k8s.io"


def _custom(
    group: str,
    name: str,
    path: str,
    *short: str,
    namespaced: bool = False,
    version: str = "v1alpha1",
) -> Kind:
    plural = name.lower()[:-1] + "ies" if name.endswith("y") else name.lower() + "s"
    return Kind(group, version, name, plural, namespaced, path, short, custom=True)


KINDS: tuple[Kind, ...] = (
    Kind("", "v1", "Pod", "pods", True, "pod.Pod", ("po",)),
    Kind("", "v1", "Node", "nodes", False, "node.Node", ("no",)),
    Kind("", "v1", "Namespace", "namespaces", False, "cluster.Namespace", ("ns",)),
    Kind("", "v1", "ConfigMap", "configmaps", True, "cluster.ConfigMap", ("cm",)),
    Kind("", "v1", "Service", "services", True, "service.Service", ("svc",)),
    Kind("", "v1", "ReplicationController", "replicationcontrollers", True,
         "service.ReplicationController", ("rc",)),
    Kind("", "v1", "Event", "events", True, "cluster.Event", ("ev",)),
    Kind("coordination.k8s.io", "v1", "Lease", "leases", True, "cluster.Lease"),
    Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False,
         "cluster.PriorityClass", ("pc",)),
    Kind("apps", "v1", "Deployment", "deployments", True, "workloads.Deployment", ("deploy",)),
    Kind("apps", "v1", "ReplicaSet", "replicasets", True, "workloads.ReplicaSet", ("rs",)),
    Kind("apps", "v1", "StatefulSet", "statefulsets", True, "workloads.StatefulSet", ("sts",)),
    Kind("apps", "v1", "DaemonSet", "daemonsets", True, "workloads.DaemonSet", ("ds",)),
    Kind("batch", "v1", "Job", "jobs", True, "workloads.Job"),
    Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True,
         "workloads.PodDisruptionBudget", ("pdb",)),
    Kind("", "v1", "PersistentVolume", "persistentvolumes", False,
         "storage.PersistentVolume", ("pv",)),
    Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True,
         "storage.PersistentVolumeClaim", ("pvc",)),
    Kind(_STORAGE, "v1", "StorageClass", "storageclasses", False, "storage.StorageClass", ("sc",)),
    Kind(_STORAGE, "v1", "CSINode", "csinodes", False, "storage.CSINode"),
    Kind(_STORAGE, "v1", "CSIDriver", "csidrivers", False, "storage.CSIDriver"),
    Kind(_STORAGE, "v1", "CSIStorageCapacity", "csistoragecapacities", True,
         "storage.CSIStorageCapacity"),
    Kind(_STORAGE, "v1", "VolumeAttachment", "volumeattachments", False,
         "storage.VolumeAttachment"),
    _custom(_SLO, "NodeSLO", "nodeslo.NodeSLO"),
    _custom(_SLO, "NodeMetric", "nodemetric.NodeMetric"),
    _custom(_SCHEDULING, "Reservation", "reservation.Reservation"),
    _custom(_SCHEDULING, "PodMigrationJob", "migration.PodMigrationJob", "pmj"),
    _custom(_SCHEDULING, "Device", "device.Device"),
    _custom(_SCHEDULING, "ClusterNetworkTopology", "network_topology.ClusterNetworkTopology"),
    _custom(_SCHEDULING, "ScheduleExplanation", "explanation.ScheduleExplanation", "sched-exp",
            namespaced=True),
    _custom(_CONFIG, "ClusterColocationProfile", "profile.ClusterColocationProfile"),
    _custom(_QUOTA, "ElasticQuotaProfile", "quota.ElasticQuotaProfile", "eqp", namespaced=True),
    _custom(_QUOTA, "ElasticQuota", "quota.GroupQuota", "keq", namespaced=True),
    _custom("analysis.koordinator.sh", "Recommendation", "recommendation.Recommendation", "recom",
            namespaced=True),
    _custom(_SIGS, "ElasticQuota", "quota.ElasticQuota", "eq", "eqs", namespaced=True),
    _custom(_SIGS, "PodGroup", "quota.PodGroup", "pg", "pgs", namespaced=True),
    _custom(_NRT, "NodeResourceTopology", "topology.NodeResourceTopology", "node-res-topo"),
    _custom(_NRT, "NodeResourceTopology", "topology.NodeResourceTopology", "node-res-topo",
            version="v1alpha2"),
)  # fmt: skip

_BY_NAME = {(kind.api_version, kind.name): kind for kind in KINDS}


_GROUPS_OF: dict[str, set[str]] = {}
for _kind in KINDS:
    _GROUPS_OF.setdefault(_kind.name, set()).add(_kind.group)


def title_of(kind: Kind) -> str:
    """The kind's name, with its group where koord knows several kinds of that name."""
    several = len(_GROUPS_OF.get(kind.name, ())) > 1
    return f"{kind.name}.{kind.group}" if several else kind.name


def kind_of(api_version: str, name: str) -> Kind | None:
    """The kind of that version and name, or None if koord has no type for it."""
    return _BY_NAME.get((api_version, name))


def kind_of_type(object_type: type[Object]) -> Kind:
    """The kind that a type decodes; the first version where a type serves several.

    Raises:
        KeyError: the type is not a registered object.
    """
    path = f"{object_type.__module__.rpartition('.')[2]}.{object_type.__name__}"
    for kind in KINDS:
        if kind.type_path == path:
            return kind
    raise KeyError(path)
