# SPDX-License-Identifier: Apache-2.0
"""What ``koord up`` only stores: kinds that nothing there acts on, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_NO_INGRESS = "no ingress controller runs here"
_NO_DEVICE_CLAIMS = "devices are not allocated by claims here"

STORED_ONLY = {
    "ingresses.networking.k8s.io": ("Ingress", _NO_INGRESS),
    "ingressclasses.networking.k8s.io": ("IngressClass", _NO_INGRESS),
    "networkpolicies.networking.k8s.io": ("NetworkPolicy", "simulated pods have no network"),
    "replicationcontrollers": ("ReplicationController", "use a Deployment"),
    "podtemplates": ("PodTemplate", "no controller makes pods of it"),
    "deviceclasses.resource.k8s.io": ("DeviceClass", _NO_DEVICE_CLAIMS),
    "resourceslices.resource.k8s.io": ("ResourceSlice", _NO_DEVICE_CLAIMS),
    "resourceclaims.resource.k8s.io": ("ResourceClaim", _NO_DEVICE_CLAIMS),
    "resourceclaimtemplates.resource.k8s.io": ("ResourceClaimTemplate", _NO_DEVICE_CLAIMS),
    "volumeattributesclasses.storage.k8s.io": (
        "VolumeAttributesClass",
        "volumes exist by name alone",
    ),
    "recommendations.analysis.koordinator.sh": ("Recommendation", "nothing here makes one"),
    "scheduleexplanations.scheduling.koordinator.sh": (
        "ScheduleExplanation",
        "ask koord explain pod NAME",
    ),
}
"""By storage: the kind, and why nothing in ``koord up`` acts on it."""

NEED_COMPONENT = {
    "controllers": {
        "deployments.apps": "Deployment",
        "replicasets.apps": "ReplicaSet",
        "statefulsets.apps": "StatefulSet",
        "daemonsets.apps": "DaemonSet",
        "jobs.batch": "Job",
        "cronjobs.batch": "CronJob",
        "poddisruptionbudgets.policy": "PodDisruptionBudget",
        "horizontalpodautoscalers.autoscaling": "HorizontalPodAutoscaler",
        "resourcequotas": "ResourceQuota",
        "persistentvolumeclaims": "PersistentVolumeClaim",
        "persistentvolumes": "PersistentVolume",
    },
    "scheduler": {
        "reservations.scheduling.koordinator.sh": "Reservation",
        "podgroups.scheduling.sigs.k8s.io": "PodGroup",
        "elasticquotas.scheduling.sigs.k8s.io": "ElasticQuota",
        "elasticquotas.quota.koordinator.sh": "ElasticQuota",
        "clusternetworktopologies.scheduling.koordinator.sh": "ClusterNetworkTopology",
    },
    "webhooks": {"clustercolocationprofiles.config.koordinator.sh": "ClusterColocationProfile"},
    "manager": {"elasticquotaprofiles.quota.koordinator.sh": "ElasticQuotaProfile"},
    "descheduler": {"podmigrationjobs.scheduling.koordinator.sh": "PodMigrationJob"},
}
"""By component of ``koord up``: storage and kind of what it alone acts on."""

# Who leaves a component out often runs the program by hand beside it.
_PROGRAMS = {
    "controllers": "kube-controller-manager",
    "scheduler": "koord-scheduler",
    "manager": "koord-manager",
    "webhooks": "koord-webhook",
    "descheduler": "koord-descheduler",
}


def notices(components: Collection[str]) -> dict[str, str]:
    """What whoever creates an object is warned of, by storage.

    Args:
        components: the names of those that run.
    """
    told = {
        storage: f"{kind} is only stored: {why}" for storage, (kind, why) in STORED_ONLY.items()
    }
    for component, kinds in NEED_COMPONENT.items():
        if component not in components:
            why = (
                f"only a {_PROGRAMS[component]} of your own acts on it: "
                f"koord up runs without the component {component}"
            )
            if component == "descheduler":
                why += ", which --descheduler adds"
            told |= {storage: f"{kind}: {why}" for storage, kind in kinds.items()}
    return told
