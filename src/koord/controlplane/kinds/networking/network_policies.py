# SPDX-License-Identifier: Apache-2.0
"""NetworkPolicies."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.table_cells import AGE, NAME, age_of, selector_text
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.scheduling import check_selector
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.kube.errors import StatusCause


_PROTOCOLS = ("TCP", "UDP", "SCTP")
_TYPES = ("Ingress", "Egress")
_WAYS = (("ingress", "from"), ("egress", "to"))


class NetworkPolicyStrategy(Strategy):
    """NetworkPolicies."""

    generation = True
    columns = (NAME, Column("Pod-Selector"), AGE)

    def default(self, document: Document) -> None:
        """Ports are of TCP; a policy is of what comes in, and with egress rules of all."""
        spec = document.setdefault("spec", {})
        spec.setdefault("podSelector", {})
        for way, _ in _WAYS:
            for rule in spec.get(way) or ():
                for port in rule.get("ports") or ():
                    port.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]

    def validate(self, document: Document) -> list[StatusCause]:
        """Selectors, ports, peers, types."""
        causes = Causes()
        spec = document["spec"]
        check_selector(spec["podSelector"], "spec.podSelector", causes)
        for way, side in _WAYS:
            for index, rule in enumerate(spec.get(way) or ()):
                path = f"spec.{way}[{index}]"
                for number, port in enumerate(rule.get("ports") or ()):
                    _check_port(port, f"{path}.ports[{number}]", causes)
                for number, peer in enumerate(rule.get(side) or ()):
                    _check_peer(peer, f"{path}.{side}[{number}]", causes)
        types = spec["policyTypes"]
        if len(types) > len(_TYPES):
            why = "may not specify more than two policyTypes"
            causes.invalid("spec.policyTypes", types, why)
            return causes
        for index, kind in enumerate(types):
            if kind not in _TYPES:
                causes.not_supported(f"spec.policyTypes[{index}]", kind, _TYPES)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        selected = selector_text(section(document, "spec").get("podSelector"))
        return [document["metadata"]["name"], selected, age_of(document, now_seconds)]


def _check_port(port: Document, path: str, causes: Causes) -> None:
    protocol, number, end = port["protocol"], port.get("port"), port.get("endPort")
    if protocol not in _PROTOCOLS:
        causes.not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
    if isinstance(number, int):
        causes.invalid_all(f"{path}.port", number, names.port_number(number))
        if end is not None:
            if end < number:
                causes.invalid(f"{path}.endPort", number, "must be greater than or equal to `port`")
            causes.invalid_all(f"{path}.endPort", end, names.port_number(end))
        return
    if end is not None:
        what = "non-numeric" if number is not None else "not specified"
        causes.invalid(f"{path}.endPort", end, f"may not be specified when `port` is {what}")
    if number is not None:
        causes.invalid_all(f"{path}.port", number, names.port_name(number))


def _check_peer(peer: Document, path: str, causes: Causes) -> None:
    block = peer.get("ipBlock")
    for key in ("podSelector", "namespaceSelector"):
        check_selector(peer.get(key), f"{path}.{key}", causes)
    if block is not None:
        _check_block(block, f"{path}.ipBlock", causes)
    named = [key for key in ("podSelector", "namespaceSelector", "ipBlock") if key in peer]
    if not named:
        causes.required(path, "must specify a peer")
    elif len(named) > 1 and block is not None:
        causes.forbidden(path, "may not specify both ipBlock and another peer")


def _check_block(block: Document, path: str, causes: Causes) -> None:
    text = block.get("cidr", "")
    if not text:
        causes.required(f"{path}.cidr")
        return
    whole = _network(text, f"{path}.cidr", causes)
    if whole is None:
        return
    for index, inner in enumerate(block.get("except") or ()):
        where = f"{path}.except[{index}]"
        part = _network(inner, where, causes)
        if part is not None and (
            part.version != whole.version
            or part.network_address not in whole
            or part.prefixlen <= whole.prefixlen
        ):
            causes.invalid(where, inner, "must be a strict subset of `cidr`")


def _network(
    text: str, path: str, causes: Causes
) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        if "/" not in text:
            raise ValueError(text)
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        causes.invalid(path, text, why)
        return None
