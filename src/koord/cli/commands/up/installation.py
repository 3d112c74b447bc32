# SPDX-License-Identifier: Apache-2.0
"""What ``koord up`` installs in its cluster before anything runs there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from koord.cli.commands.up.cluster import UpCluster
    from koord.kube.client import Client

# Where koord's own configuration is looked for.
_NAMESPACE = "koordinator-system"
_ESTABLISHED_SECONDS = 30.0


async def install(cluster: UpCluster, components: Collection[str]) -> None:
    """Writes what a new cluster has: definitions, priority classes, a namespace, a storage class.

    Args:
        cluster: whose API server runs.
        components: those that will run; without the controllers there is no storage class.
    """
    from koord.api.definitions import crds, priority_classes
    from koord.api.kinds.cluster import PriorityClass
    from koord.api.kinds.registry import kind_of_type
    from koord.kube import crds as cluster_crds

    client = cluster.client(cluster_crds.FIELD_MANAGER)
    names = [name async for name, _ in cluster_crds.install(client, crds(), force=True)]
    kind = kind_of_type(PriorityClass)
    async for _ in cluster_crds.install(client, priority_classes(), kind, force=True):
        pass
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
    await client.apply(namespace, force=True)
    if "controllers" in components:
        await _add_storage_class(client)
    await cluster_crds.wait_established(client, names, _ESTABLISHED_SECONDS)


async def _add_storage_class(client: Client) -> None:
    """The class of claims that name none; one that is there already, or was changed, stays."""
    from koord.api.kinds.registry import kind_of_type
    from koord.api.kinds.storage import StorageClass
    from koord.kube.errors import ApiError

    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": annotations},
        "provisioner": "simulator.koord/volumes",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    try:
        await client.create(document, kind=kind_of_type(StorageClass))
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
