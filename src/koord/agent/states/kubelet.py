# SPDX-License-Identifier: Apache-2.0
"""What the kubelet of this node says: its pods and its configuration."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from msgspec import Raw, field

from koord.agent.states.trimmed_pods import AgentPod
from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.api.kinds.registry import kind_of_type
from koord.api.wirestruct import WireStruct
from koord.base import faults, log
from koord.base.errors import Code, KoordError
from koord.kube.codec.decoder import Decoder
from koord.kube.transport.config import ClusterConfig
from koord.kube.transport.messages import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.api.kinds.node import Node
    from koord.kube.transport.messages import Transport

READ_ONLY_PORT = 10255
_SERVED_PORT = 10250
_OK = 200
_PODS, _CONFIGZ = "/pods/", "/configz"
# Which right a kubelet asks the API server for (KubeletFineGrainedAuthz), and what does without.
_RIGHTS = {
    _PODS: "get on nodes/pods (nodes/proxy before Kubernetes 1.33), or --pods-from=apiserver",
    _CONFIGZ: "get on nodes/configz (nodes/proxy before Kubernetes 1.33), "
    "or --disable-query-kubelet-config",
}
_LOG = log.get("agent.kubelet")


class KubeletConfiguration(WireStruct):
    """The kubelet's settings that matter here, as ``/configz`` tells them."""

    cpu_manager_policy: str = ""
    cpu_manager_policy_options: dict[str, str] = field(default_factory=dict)
    topology_manager_policy: str = ""
    topology_manager_scope: str = ""
    reserved_system_cpus: str = field(default="", name="reservedSystemCPUs")
    kube_reserved: dict[str, str] = field(default_factory=dict)
    system_reserved: dict[str, str] = field(default_factory=dict)
    cgroup_driver: str = ""


class _Pods(WireStruct):
    items: list[Raw] = field(default_factory=list)


class _Configz(WireStruct):
    kubeletconfig: KubeletConfiguration = field(default_factory=KubeletConfiguration)


class Kubelet:
    """Asks the kubelet.

    Args:
        transport: to the kubelet, with the credentials and the authority to check it by.
        timeout_seconds: for one whole answer.
    """

    def __init__(self, transport: Transport, timeout_seconds: float = 3.0) -> None:
        self._transport = transport
        self._timeout_seconds = timeout_seconds
        self._read: dict[bytes, Pod] = {}
        self._unreadable: set[str] = set()
        self._decoder = Decoder(kind_of_type(Pod), AgentPod)

    async def pods(self) -> list[Pod]:
        """The pods of the node, cut to what the agent reads of them.

        One that cannot be read is left out with one line in the log. A pod that is told in the same
        words as the last time is the same object.

        Raises:
            KoordError: an answer that is none, or no list.
            TransportError: no answer.
        """
        faults.point("agent.kubelet.pods")
        body = await self._get(_PODS)
        before, self._read = self._read, {}
        told, self._unreadable = self._unreadable, set()
        for item in codec.decode_json(body, _Pods, "kubelet /pods/").items:
            words = blake2b(item, digest_size=16).digest()
            try:
                pod = before.get(words) or self._decoder.one(bytes(item))
            except KoordError as error:
                reason = str(error)
                if reason not in told | self._unreadable:
                    _LOG.warning("pod left out", extra=log.fields(reason=reason))
                self._unreadable.add(reason)
            else:
                self._read[words] = pod
        return list(self._read.values())

    async def configuration(self) -> KubeletConfiguration:
        """The kubelet's configuration.

        Raises:
            KoordError: an answer that is none.
            TransportError: no answer.
        """
        body = await self._get(_CONFIGZ)
        return codec.decode_json(body, _Configz, "kubelet /configz").kubeletconfig

    async def close(self) -> None:
        """Ends its connections."""
        await self._transport.close()

    async def _get(self, path: str) -> bytes:
        request = Request("GET", path, timeout_seconds=self._timeout_seconds)
        answer = await self._transport.send(request)
        if answer.status != _OK:
            expected = f"200: the agent's account needs {_RIGHTS[path]}"
            raise KoordError(f"kubelet {path}", "status", answer.status, expected, Code.INVALID)
        return answer.body


def kubelet_server(
    node: Node,
    preferred_types: Sequence[str] = ("InternalIP",),
    read_only_port: int | None = None,
) -> str:
    """Where the kubelet of a node listens, as a URL.

    Args:
        node: its addresses, and the port its kubelet tells.
        preferred_types: types of address, the best first; the first address if none is there.
        read_only_port: plain HTTP on this port instead.

    Raises:
        KoordError: the node has no address.
    """
    addresses: Mapping[str, str] = {
        address.type: address.address for address in reversed(node.status.addresses)
    }
    host = next((addresses[kind] for kind in preferred_types if kind in addresses), None)
    if host is None and node.status.addresses:
        host = node.status.addresses[0].address
    if not host:
        raise KoordError(node.title, "status.addresses", [], f"an address of {preferred_types[0]}")
    host = f"[{host}]" if ":" in host else host
    if read_only_port is not None:
        return f"http://{host}:{read_only_port}"
    port = node.status.daemon_endpoints.kubelet_endpoint.port or _SERVED_PORT
    return f"https://{host}:{port}"


def kubelet_config(cluster: ClusterConfig, server: str, ca: str, verify: bool) -> ClusterConfig:
    """The way to a kubelet with the credentials that the API server takes.

    The credentials are read again whenever the cluster's are.

    Args:
        cluster: the API server's.
        server: from :func:`kubelet_server`.
        ca: the authority that signed the kubelet's certificate, a path or PEM text; empty takes
            the cluster's own.
        verify: whether the kubelet must prove who it is.
    """
    plain = server.startswith("http://")
    return ClusterConfig(
        server=server,
        ca=ca or cluster.ca,
        token="" if plain else cluster.token,
        authorization="" if plain else cluster.authorization,
        client_certificate="" if plain else cluster.client_certificate,
        client_key="" if plain else cluster.client_key,
        verify=verify,
        source=f"kubelet {server}",
        expires_at_seconds=cluster.expires_at_seconds,
        reload=_renewal(cluster, server, ca, verify) if cluster.reload else None,
        clock=cluster.clock,
    )


def _renewal(
    cluster: ClusterConfig, server: str, ca: str, verify: bool
) -> Callable[[], ClusterConfig]:
    def renewed() -> ClusterConfig:
        return kubelet_config(cluster.renewed(), server, ca, verify)

    return renewed
