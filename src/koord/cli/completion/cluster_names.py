# SPDX-License-Identifier: Apache-2.0
"""Names of objects in the cluster; none where it does not answer soon."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from koord.api.protocol import keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.kube.transport.http import HttpTransport

ANSWER_SECONDS = 0.5
"""How long the cluster may take; who presses a key waits for it."""

_MOST = 500
_GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1"
_DEFAULT = "default"
# What a shell could take for anything but a name is not shown.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)


class _NameQuery(NamedTuple):
    """Where names come from.

    Attributes:
        path: of the list; ``{within}`` stands for the namespace's part.
        namespace: the one that is meant where none is given; empty for all.
        gangs: whether it is the names of pods' gangs that count.
    """

    path: str
    namespace: str = ""
    gangs: bool = False


_PODS = "/api/v1{within}/pods"
NAMED = {
    "POD": (_NameQuery(_PODS, _DEFAULT),),
    "NODE": (_NameQuery("/api/v1/nodes"),),
    "NAMESPACE": (_NameQuery("/api/v1/namespaces"),),
    "QUOTA": (
        _NameQuery(f"{_GROUPS}{{within}}/elasticquotas"),
        _NameQuery("/apis/quota.koordinator.sh/v1alpha1{within}/elasticquotas"),
    ),
    "GANG": (
        _NameQuery(f"{_GROUPS}{{within}}/podgroups", _DEFAULT),
        _NameQuery(_PODS, _DEFAULT, True),
    ),
    "RESERVATION": (_NameQuery("/apis/scheduling.koordinator.sh/v1alpha1/reservations"),),
}
"""What names of a kind of object come from."""


class _NameMetadata(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Item(msgspec.Struct):
    metadata: _NameMetadata = msgspec.field(default_factory=_NameMetadata)


class _NameList(msgspec.Struct):
    items: list[_Item] = []


def names(metavar: str, given: Mapping[str, str]) -> list[str]:
    """Names of objects, sorted; at most :data:`_MOST` of a list.

    Args:
        metavar: which objects, a key of :data:`NAMED`.
        given: flags: ``--namespace``, ``--kubeconfig``, ``--context``. With ``--server``,
            ``--manager`` or ``--descheduler`` nobody knows which cluster is meant.
    """
    kubeconfig = given.get("--kubeconfig") or None
    if {"--server", "--manager", "--descheduler"} & given.keys() or not _configured(kubeconfig):
        return []
    try:
        # These take longer than the cluster does, and are not its time.
        for module in (
            "koord.kube.transport.http",
            "kubernetes.client",
            "kubernetes.config.kube_config",
        ):
            import_module(module)
    except ModuleNotFoundError:
        return []
    found: list[str] = []

    def look() -> None:
        # Nothing that goes wrong is of interest to who presses a key.
        try:
            found.extend(asyncio.run(_listed(metavar, given, kubeconfig)))
        except Exception:
            return

    # A thread: reading a kubeconfig may run a plugin, which no event loop interrupts.
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(ANSWER_SECONDS)
    return sorted({name for name in list(found) if _NAME.fullmatch(name)})


def _configured(kubeconfig: str | None) -> bool:
    """Whether there is anything that names a cluster."""
    if kubeconfig is not None:
        return Path(kubeconfig).expanduser().is_file()
    if os.environ.get("KUBECONFIG") or os.environ.get("KUBERNETES_SERVICE_HOST"):
        return True
    return Path("~/.kube/config").expanduser().is_file()


async def _listed(metavar: str, given: Mapping[str, str], kubeconfig: str | None) -> list[str]:
    from koord.kube.transport.credentials import load_cluster_config
    from koord.kube.transport.http import HttpTransport

    path = Path(kubeconfig).expanduser() if kubeconfig else None
    transport = HttpTransport(load_cluster_config(path, given.get("--context") or None))
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            lists = [_names(transport, each, given) for each in NAMED[metavar]]
            done = await asyncio.gather(*lists, return_exceptions=True)
    finally:
        await transport.close()
    return [name for each in done if not isinstance(each, BaseException) for name in each]


async def _names(
    transport: HttpTransport, where: _NameQuery, given: Mapping[str, str]
) -> Iterable[str]:
    from koord.kube.transport.messages import METADATA_LIST, Request

    namespace = given.get("--namespace") or where.namespace
    within = f"/namespaces/{namespace}" if namespace else ""
    if namespace and not _NAME.fullmatch(namespace):
        return []
    request = Request(
        "GET",
        where.path.format(within=within),
        (("limit", str(_MOST)),),
        accept=METADATA_LIST,
        timeout_seconds=ANSWER_SECONDS,
    )
    answer = await transport.send(request)
    if answer.status != 200:
        return []
    metadata = [each.metadata for each in msgspec.json.decode(answer.body, type=_NameList).items]
    return [_gang(each) if where.gangs else each.name for each in metadata]


def _gang(pod: _NameMetadata) -> str:
    labels, annotations = pod.labels, pod.annotations
    return (
        labels.get(keys.POD_GROUP)
        or labels.get(keys.POD_GROUP_OLD)
        or annotations.get(keys.GANG_NAME, "")
    )
