# SPDX-License-Identifier: Apache-2.0
"""Services, Endpoints and EndpointSlices. Nothing routes to them; addresses are made up."""

from __future__ import annotations

import ipaddress
import zlib
from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.documents import NONE, bring, section
from koord.controlplane.kinds.pod.probes import check_port
from koord.controlplane.kinds.table_cells import AGE, NAME, age_of, labels_text
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.object_meta import check_labels
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause


CLUSTER_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
HEADLESS = "None"
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_NODE_PORTS = range(30_000, 32_768)
_PRINTED_ENDPOINTS = 3


class ServiceStrategy(Strategy):
    """Services."""

    status_subresource = True
    returns_deleted = True
    columns = (
        NAME,
        Column("Type"),
        Column("Cluster-IP"),
        Column("External-IP"),
        Column("Port(s)"),
        AGE,
        Column("Selector", priority=1),
    )
    selectable = ("spec.clusterIP", "spec.type")

    def default(self, document: Document) -> None:
        """Type, affinity, protocols, target ports, traffic policies."""
        spec = document.setdefault("spec", {})
        if spec.setdefault("sessionAffinity", "None") == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP":
            config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            config.setdefault("timeoutSeconds", 10_800)
        kind = spec.setdefault("type", "ClusterIP")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, "") and kind != "ExternalName":
                port["targetPort"] = port.get("port", 0)
        if kind in ("NodePort", "LoadBalancer") or (
            kind == "ClusterIP" and spec.get("externalIPs")
        ):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind in ("NodePort", "LoadBalancer", "ClusterIP"):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        document.setdefault("status", {}).setdefault("loadBalancer", {})

    def prepare_create(self, document: Document, context: Context) -> None:
        """Addresses and node ports."""
        document["status"] = {"loadBalancer": {}}
        self._allocate(document)

    def prepare_update(self, document: Document, old: Document, context: Context) -> None:
        """Addresses stay unless the type gives them up."""
        bring(document, old, "status")
        spec, before = document["spec"], section(old, "spec")
        if spec["type"] != "ExternalName":
            for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if key not in spec and key in before:
                    spec[key] = before[key]
        self._allocate(document)

    def validate(self, document: Document) -> list[StatusCause]:
        """Ports, selector, type."""
        causes = Causes()
        spec = document["spec"]
        kind, ports = spec["type"], spec.get("ports") or []
        if not ports and spec.get("clusterIP") != HEADLESS and kind != "ExternalName":
            causes.required("spec.ports")
        _check_ports(ports, causes)
        if selector := spec.get("selector"):
            check_labels(selector, "spec.selector", causes)
        if spec["sessionAffinity"] not in ("ClientIP", "None"):
            allowed = ("ClientIP", "None")
            causes.not_supported("spec.sessionAffinity", spec["sessionAffinity"], allowed)
        if kind not in _TYPES:
            causes.not_supported("spec.type", kind, _TYPES)
        elif kind == "ExternalName":
            name = spec.get("externalName", "")
            if not name:
                causes.required("spec.externalName")
            else:
                where, bare = "spec.externalName", name.removesuffix(".")
                causes.invalid_all(where, name, names.dns_subdomain(bare))
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The address is fixed once given."""
        causes = Causes()
        spec, before = document["spec"], old["spec"]
        if spec is before:
            if section(document, "status", "loadBalancer").get("ingress") and (
                spec["type"] != "LoadBalancer"
            ):
                why = "may only be used when `spec.type` is 'LoadBalancer'"
                causes.forbidden("status.loadBalancer.ingress", why)
            return causes
        given, had = spec.get("clusterIP"), before.get("clusterIP")
        if had and given != had and "ExternalName" not in (spec["type"], before["type"]):
            why = "may not change once set"
            causes.invalid("spec.clusterIPs[0]", spec.get("clusterIPs"), why)
        causes.extend(self.validate(document))
        return causes

    def fields(self, document: Document) -> Mapping[str, str]:
        """Address and type."""
        spec = section(document, "spec")
        return {
            "spec.clusterIP": spec.get("clusterIP", ""),
            "spec.type": spec.get("type", ""),
        }

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec = section(document, "spec")
        addresses = spec.get("clusterIPs")
        return [
            document["metadata"]["name"],
            spec.get("type", ""),
            addresses[0] if addresses else NONE,
            _external(document),
            ",".join(map(_port_text, spec.get("ports") or ())) or NONE,
            age_of(document, now_seconds),
            labels_text(spec.get("selector")),
        ]

    def _allocate(self, document: Document) -> None:
        """An address in the cluster network that follows from the name; families; node ports."""
        metadata, spec = document["metadata"], document["spec"]
        if spec["type"] == "ExternalName":
            for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                spec.pop(key, None)
            return
        name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        address = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
        spec["clusterIP"] = address or cluster_address(name)
        if not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if spec["type"] in ("NodePort", "LoadBalancer"):
            for port in spec.get("ports") or ():
                key = f"{name}/{port.get('port')}/{port['protocol']}"
                port.setdefault("nodePort", node_port(key))


def cluster_address(name: str) -> str:
    """The address of a service, spread over the cluster network by its name; may collide."""
    offset = zlib.crc32(name.encode()) % (CLUSTER_NETWORK.num_addresses - 512)
    return str(CLUSTER_NETWORK[256 + offset])


def node_port(name: str) -> int:
    """A node port by name; may collide."""
    return _NODE_PORTS[zlib.crc32(name.encode()) % len(_NODE_PORTS)]


def _check_ports(ports: list[Document], causes: Causes) -> None:
    seen_names: set[str] = set()
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if not name:
            if len(ports) > 1:
                causes.required(f"{path}.name")
        elif whys := names.dns_label(name):
            causes.invalid_all(f"{path}.name", name, whys)
        elif name in seen_names:
            causes.duplicate(f"{path}.name", name)
        seen_names.add(name)
        number, protocol = port.get("port", 0), port.get("protocol", "")
        causes.invalid_all(f"{path}.port", number, names.port_number(number))
        if protocol not in _PROTOCOLS:
            causes.not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
        check_port(port.get("targetPort", 0), f"{path}.targetPort", causes)
        if (protocol, number) in seen:
            shown = {
                "Name": "",
                "Protocol": protocol,
                "AppProtocol": None,
                "Port": number,
                "TargetPort": 0,
                "NodePort": 0,
            }
            causes.duplicate(path, shown)
        seen.add((protocol, number))


def _port_text(port: Document) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node}/{port.get('protocol', '')}"


def _external(service: Document) -> str:
    spec, kind = section(service, "spec"), section(service, "spec").get("type")
    given: list[str] = list(spec.get("externalIPs") or ())
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(given) or NONE
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    if kind != "LoadBalancer":
        return "<unknown>"
    ingress = section(service, "status", "loadBalancer").get("ingress") or ()
    reached = sorted({entry.get("ip") or entry.get("hostname", "") for entry in ingress})
    return ",".join([*reached, *given]) or "<pending>"


class EndpointsStrategy(Strategy):
    """Endpoints."""

    columns = (NAME, Column("Endpoints"), AGE)

    def default(self, document: Document) -> None:
        """TCP."""
        for subset in document.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def validate(self, document: Document) -> list[StatusCause]:
        """Several ports have names."""
        causes = Causes()
        for index, subset in enumerate(document.get("subsets") or ()):
            ports = subset.get("ports") or ()
            for number, port in enumerate(ports):
                path = f"subsets[{index}].ports[{number}]"
                if len(ports) > 1 and not port.get("name"):
                    causes.required(f"{path}.name")
                value = port.get("port", 0)
                causes.invalid_all(f"{path}.port", value, names.port_number(value))
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        listed = []
        for subset in document.get("subsets") or ():
            addresses = [entry.get("ip", "") for entry in subset.get("addresses") or ()]
            ports = subset.get("ports")
            if not ports:
                listed += addresses
            else:
                listed += [f"{ip}:{port.get('port')}" for port in ports for ip in addresses]
        shown = _first_few(listed) if document.get("subsets") else NONE
        return [document["metadata"]["name"], shown, age_of(document, now_seconds)]


class EndpointSliceStrategy(Strategy):
    """EndpointSlices."""

    generation = True
    columns = (NAME, Column("AddressType"), Column("Ports"), Column("Endpoints"), AGE)

    def default(self, document: Document) -> None:
        """TCP, and names that are always written."""
        document.setdefault("endpoints", None)
        for port in document.setdefault("ports", None) or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def validate(self, document: Document) -> list[StatusCause]:
        """A known family of addresses."""
        causes = Causes()
        family = document.get("addressType", "")
        if not family:
            causes.required("addressType")
        elif family not in ("FQDN", "IPv4", "IPv6"):
            causes.not_supported("addressType", family, ("FQDN", "IPv4", "IPv6"))
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The family is fixed."""
        causes = Causes(self.validate(document))
        causes.fixed("addressType", document.get("addressType"), old.get("addressType"))
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        ports = [str(p.get("port") or p.get("name") or "*") for p in document.get("ports") or ()]
        addresses = [
            address
            for endpoint in document.get("endpoints") or ()
            for address in endpoint.get("addresses") or ()
        ]
        return [
            document["metadata"]["name"],
            document.get("addressType", ""),
            _first_few(ports) or "<unset>",
            _first_few(addresses) or "<unset>",
            age_of(document, now_seconds),
        ]


def _first_few(listed: list[str]) -> str:
    text = ",".join(listed[:_PRINTED_ENDPOINTS])
    return (
        f"{text} + {len(listed) - _PRINTED_ENDPOINTS} more..."
        if len(listed) > _PRINTED_ENDPOINTS
        else text
    )
