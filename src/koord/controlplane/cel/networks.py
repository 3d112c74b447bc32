# SPDX-License-Identifier: Apache-2.0
"""IP addresses and networks in expressions, as Kubernetes adds them to CEL.

One is a map with one key that users do not see, as quantities are. Addresses with a zone, IPv4 in
the form of IPv6 and numbers with leading zeros are none. Rule: Kubernetes' documentation of CEL,
"Kubernetes IP address library" and "Kubernetes CIDR library".
Reference: docs/controlplane.md#expressions.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_IP, _CIDR = "net.IP", "net.CIDR"
_FAMILIES = (4, 6)
_LINK_LOCAL_MULTICAST = tuple(map(ipaddress.ip_network, ("224.0.0.0/24", "ff02::/16")))
_BROADCAST = ipaddress.ip_address("255.255.255.255")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface
CelMap = dict[str, str]


def _parsed(text: str) -> Address:
    if "%" in text:
        raise ValueError(f"IP Address {text!r} with zone value is not allowed")
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f"IP Address {text!r} parse error during conversion") from None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        raise ValueError(f"IPv4-mapped IPv6 address {text!r} is not allowed")
    return found


def _parsed_network(text: str) -> Network:
    address, _, length = text.partition("/")
    plain = length.isascii() and length.isdigit() and (length == "0" or length[0] != "0")
    if not plain:
        raise ValueError(f"network address parse error during conversion from string: {text!r}")
    _ = _parsed(address)
    try:
        return ipaddress.ip_interface(text)
    except ValueError:
        raise ValueError(f"network address parse error during conversion: {text!r}") from None


def _holds(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def of(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return of


def _address(value: CelMap) -> Address:
    if _IP not in value:
        raise ValueError("no such overload: expected an IP address")
    return _parsed(value[_IP])


def _network(value: CelMap) -> Network:
    if _CIDR not in value:
        raise ValueError("no such overload: expected a CIDR")
    return _parsed_network(value[_CIDR])


def _of_address(part: Callable[[Address], Any]) -> Callable[[CelMap], Any]:
    return lambda value: part(_address(value))


def _is_global_unicast(address: Address) -> bool:
    """Any that is one machine's and not this link's alone; private ones too."""
    return not (
        address.is_unspecified or address.is_loopback or address.is_multicast
        or address.is_link_local or address == _BROADCAST
    )  # fmt: skip


def _contains_ip(value: CelMap, other: str | CelMap) -> bool:
    address = _parsed(other) if isinstance(other, str) else _address(other)
    return address in _network(value).network


def _contains_network(value: CelMap, other: str | CelMap) -> bool:
    inner = _parsed_network(other) if isinstance(other, str) else _network(other)
    outer = _network(value)
    if outer.version != inner.version:
        return False
    prefix = outer.network.prefixlen
    return prefix <= inner.network.prefixlen and inner.ip in outer.network


# As koord.controlplane.cel.functions has them.
NETWORK_FUNCTIONS: list[tuple[str, str, str, bool, Callable[..., Any]]] = [
    ("isIP", "s", "b", False, _holds(_parsed)),
    ("ip", "s", "m", False, lambda text: {_IP: str(_parsed(text))}),
    ("ip.isCanonical", "s", "b", False, lambda text: str(_parsed(text)) == text),
    ("family", "m", "i", True, _of_address(lambda ip: _FAMILIES[ip.version == 6])),
    ("isUnspecified", "m", "b", True, _of_address(lambda ip: ip.is_unspecified)),
    ("isLoopback", "m", "b", True, _of_address(lambda ip: ip.is_loopback)),
    ("isLinkLocalMulticast", "m", "b", True,
     _of_address(lambda ip: any(ip in each for each in _LINK_LOCAL_MULTICAST))),
    ("isLinkLocalUnicast", "m", "b", True, _of_address(lambda ip: ip.is_link_local)),
    ("isGlobalUnicast", "m", "b", True, _of_address(_is_global_unicast)),
    ("isCIDR", "s", "b", False, _holds(_parsed_network)),
    ("cidr", "s", "m", False, lambda text: {_CIDR: str(_parsed_network(text))}),
    ("containsIP", "ms", "b", True, _contains_ip),
    ("containsIP", "mm", "b", True, _contains_ip),
    ("containsCIDR", "ms", "b", True, _contains_network),
    ("containsCIDR", "mm", "b", True, _contains_network),
    ("ip", "m", "m", True, lambda value: {_IP: str(_network(value).ip)}),
    ("masked", "m", "m", True, lambda value: {_CIDR: str(_network(value).network)}),
    ("prefixLength", "m", "i", True, lambda value: _network(value).network.prefixlen),
]  # fmt: skip
