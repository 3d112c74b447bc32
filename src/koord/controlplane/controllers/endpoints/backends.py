# SPDX-License-Identifier: Apache-2.0
"""The pods behind a Service, as EndpointSlices and Endpoints write them down."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.controlplane.controllers.base import pods

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.pod import Pod
    from koord.controlplane.controllers.base.objects import Owner


HEADLESS = "service.kubernetes.io/headless"
_ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class Backend:
    """A pod behind a Service.

    Attributes:
        ports: as an EndpointSlice has them, in order of the Service's.
        hostname: what the pod is called below the Service's name; empty for nothing.
        zone: of its node; empty for none.
    """

    pod: Pod
    ports: tuple[tuple[str, int, str, str], ...]
    hostname: str = ""
    zone: str = ""

    @property
    def family(self) -> str:
        """``IPv4`` or ``IPv6``."""
        return "IPv6" if ":" in self.pod.status.pod_ip else "IPv4"

    @property
    def target(self) -> Document:
        """The reference to the pod."""
        metadata = self.pod.metadata
        return {
            "kind": "Pod",
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
        }


def backends(
    service: Owner, selected: Sequence[Pod], zones: Mapping[str, str], hostnames: Mapping[str, str]
) -> list[Backend]:
    """The pods that stand behind a Service, by name.

    Args:
        service: the Service.
        selected: the pods that it selects.
        zones: by name of the nodes there are: the zone, or nothing.
        hostnames: by uid of pods that have a name below the Service's.
    """
    unready = publishes_unready(service)
    found = []
    for pod in sorted(selected, key=lambda pod: pod.metadata.name):
        if pods.is_finished(pod) or not _is_address(pod.status.pod_ip):
            continue
        node = pod.spec.node_name
        if node not in zones and not unready:
            continue
        hostname = hostnames.get(pod.metadata.uid, "")
        found.append(Backend(pod, _ports(service, pod), hostname, zones.get(node, "")))
    return found


def publishes_unready(service: Owner) -> bool:
    """Whether a Service stands for pods that are not ready, too."""
    return bool(service.spec.get("publishNotReadyAddresses"))


def is_headless(service: Owner) -> bool:
    """Whether a Service has no address of its own."""
    return service.spec.get("clusterIP", "") in ("", "None")


def families(service: Owner) -> list[str]:
    """The address types of a Service."""
    listed: list[str] = service.spec.get("ipFamilies") or ["IPv4"]
    return [family for family in ("IPv4", "IPv6") if family in listed]


def zone_of(labels: Mapping[str, str]) -> str:
    """The zone that a node's labels name."""
    return labels.get(_ZONE, "")


def _ports(service: Owner, pod: Pod) -> tuple[tuple[str, int, str, str], ...]:
    """Name, number, protocol and application protocol of each port that the pod has."""
    found = []
    for port in service.spec.get("ports") or ():
        protocol = port.get("protocol", "TCP")
        number = _number(port.get("targetPort", 0), protocol, pod)
        if number is not None:
            found.append((port.get("name", ""), number, protocol, port.get("appProtocol") or ""))
    return tuple(found)


def _number(target: int | str, protocol: str, pod: Pod) -> int | None:
    if isinstance(target, int):
        return target
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    for container in [*pod.spec.containers, *sidecars]:
        for port in container.ports:
            if port.name == target and (port.protocol or "TCP") == protocol:
                return port.container_port
    return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
