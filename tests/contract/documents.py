# SPDX-License-Identifier: Apache-2.0
"""The objects that contract tests send: the least that Kubernetes accepts, and what a test adds."""

from __future__ import annotations

from typing import Any

from tests.contract.api import Document


def document(api_version: str, kind: str, name: str, **fields: Any) -> Document:
    """Any object; ``labels`` and ``annotations`` go into its metadata."""
    metadata = {"name": name}
    for key in ("labels", "annotations", "finalizers", "ownerReferences"):
        if key in fields:
            metadata[key] = fields.pop(key)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def config_map(name: str, **fields: Any) -> Document:
    return document("v1", "ConfigMap", name, **fields)


def container(name: str = "main", **fields: Any) -> Document:
    return {"name": name, "image": "registry.test/app:1", **fields}


def pod_spec(**fields: Any) -> Document:
    return {"containers": [container()], **fields}


def pod(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Document:
    found = document("v1", "Pod", name, spec=pod_spec(**spec))
    if labels:
        found["metadata"]["labels"] = labels
    return found


def node(name: str, **fields: Any) -> Document:
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    status = {"capacity": capacity, "allocatable": capacity}
    return document("v1", "Node", name, **{"status": status, **fields})


def template(app: str = "web", **spec: Any) -> Document:
    return {"metadata": {"labels": {"app": app}}, "spec": pod_spec(**spec)}


def workload(kind: str, name: str, **spec: Any) -> Document:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet over pods labelled ``app: NAME``."""
    selector = {"matchLabels": {"app": name}}
    fields = {"selector": selector, "template": template(name), **spec}
    return document("apps/v1", kind, name, spec=fields)


def deployment(name: str, **spec: Any) -> Document:
    return workload("Deployment", name, **spec)


def job(name: str, **spec: Any) -> Document:
    body = {"spec": pod_spec(restartPolicy="Never")}
    return document("batch/v1", "Job", name, spec={"template": body, **spec})


def budget(name: str, **spec: Any) -> Document:
    selector = {"matchLabels": {"app": name}}
    return document("policy/v1", "PodDisruptionBudget", name, spec={"selector": selector, **spec})


def service(name: str, **spec: Any) -> Document:
    fields = {"ports": [{"port": 80}], "selector": {"app": name}, **spec}
    return document("v1", "Service", name, spec=fields)


def lease(name: str, **spec: Any) -> Document:
    return document("coordination.k8s.io/v1", "Lease", name, spec=spec)


def priority_class(name: str, value: int, **fields: Any) -> Document:
    return document("scheduling.k8s.io/v1", "PriorityClass", name, value=value, **fields)


def custom_definition(
    group: str,
    plural: str,
    kind: str,
    schema: Document,
    *,
    version: Document | None = None,
    **spec: Any,
) -> Document:
    """A CRD with one version, v1; ``schema`` is that of the whole object's properties."""
    wrapped = {"openAPIV3Schema": {"type": "object", "properties": schema}}
    one = {"name": "v1", "served": True, "storage": True, "schema": wrapped, **(version or {})}
    names = {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"}
    fields = {"group": group, "scope": "Namespaced", "names": names, "versions": [one], **spec}
    name = f"{plural}.{group}"
    return document("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, spec=fields)
