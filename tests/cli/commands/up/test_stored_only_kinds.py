# SPDX-License-Identifier: Apache-2.0
"""Which kinds ``koord up`` only stores, and what it says of them."""

from __future__ import annotations

import re
from pathlib import Path

from koord.api import crds
from koord.cli.commands.up.stored_only_kinds import NEED_COMPONENT, STORED_ONLY, notices
from koord.controlplane.kinds import registry

ALL = ("controllers", "scheduler", "manager", "webhooks", "nodes")
GUIDE = Path(__file__).resolve().parents[4] / "docs/guide-up.md"
# Who acts on what is neither told to be only stored nor to need a component.
ACTED_ON = {
    "the API server": {
        "Namespace", "Event", "Secret", "ConfigMap", "Lease", "ServiceAccount", "LimitRange",
        "PriorityClass", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
        "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
        "CustomResourceDefinition",
    },
    "its controllers": {
        "Service", "Endpoints", "EndpointSlice", "ControllerRevision", "StorageClass",
    },
    "the scheduler": {
        "Pod", "Node", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment",
        "Device", "NodeMetric", "NodeResourceTopology",
    },
    "the machines": {"NodeSLO"},
}  # fmt: skip


def test_what_nothing_acts_on_is_said_with_the_reason() -> None:
    told = notices(ALL)
    assert told["ingresses.networking.k8s.io"] == (
        "Ingress is only stored: no ingress controller runs here"
    )
    assert told["networkpolicies.networking.k8s.io"] == (
        "NetworkPolicy is only stored: simulated pods have no network"
    )
    assert told["podmigrationjobs.scheduling.koordinator.sh"] == (
        "PodMigrationJob: only a koord-descheduler of your own acts on it: "
        "koord up runs without the component descheduler, which --descheduler adds"
    )
    assert not set(notices((*ALL, "descheduler"))) & {"podmigrationjobs.scheduling.koordinator.sh"}
    assert not {"deployments.apps", "pods", "configmaps", "secrets", "services"} & set(told)


def test_a_component_that_is_left_out_is_missed_by_its_kinds() -> None:
    assert notices(("nodes",))["deployments.apps"] == (
        "Deployment: only a kube-controller-manager of your own acts on it: "
        "koord up runs without the component controllers"
    )
    assert "podgroups.scheduling.sigs.k8s.io" not in notices(ALL)
    assert notices(("controllers", "manager"))["podgroups.scheduling.sigs.k8s.io"] == (
        "PodGroup: only a koord-scheduler of your own acts on it: "
        "koord up runs without the component scheduler"
    )


def test_a_program_that_runs_beside_it_may_act_on_what_koord_up_does_not() -> None:
    told = notices(("controllers", "nodes"))
    assert told["reservations.scheduling.koordinator.sh"] == (
        "Reservation: only a koord-scheduler of your own acts on it: "
        "koord up runs without the component scheduler"
    )
    assert told["elasticquotaprofiles.quota.koordinator.sh"] == (
        "ElasticQuotaProfile: only a koord-manager of your own acts on it: "
        "koord up runs without the component manager"
    )
    assert told["clustercolocationprofiles.config.koordinator.sh"] == (
        "ClusterColocationProfile: only a koord-webhook of your own acts on it: "
        "koord up runs without the component webhooks"
    )
    assert "only stored" not in told["podgroups.scheduling.sigs.k8s.io"]


def test_every_kind_that_is_served_is_acted_on_or_told() -> None:
    served = {resource.kind for resource in registry.resources()}
    served |= {crd["spec"]["names"]["kind"] for crd in crds()}
    told = {kind for kind, _ in STORED_ONLY.values()}
    told |= {kind for needed in NEED_COMPONENT.values() for kind in needed.values()}
    acted_on = set().union(*ACTED_ON.values())
    assert told & acted_on == set()
    assert told | acted_on == served


def test_the_guide_has_them_all() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    (table,) = re.findall(r"\| kind \| why nothing acts on it \|\n\|.*\n((?:\|.*\n)+)", text)
    kinds = [row.split("|")[1].strip() for row in table.splitlines()]
    listed = {kind for row in kinds for kind in row.split(", ")}
    default = notices(ALL)
    assert listed == {message.split()[0].rstrip(":") for message in default.values()}


def test_every_name_is_of_a_kind_that_is_served() -> None:
    kinds = {resource.storage: resource.kind for resource in registry.resources()}
    for crd in crds():
        kinds[crd["metadata"]["name"]] = crd["spec"]["names"]["kind"]
    for storage, (kind, _) in STORED_ONLY.items():
        assert kinds[storage] == kind
    for needed in NEED_COMPONENT.values():
        assert needed == {storage: kinds[storage] for storage in needed}
