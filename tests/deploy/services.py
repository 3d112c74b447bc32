# SPDX-License-Identifier: Apache-2.0
"""What kube-proxy and DNS do: addresses of services lead to pods, names to addresses."""

from __future__ import annotations

from tests.deploy.admin import Admin, Document
from tests.deploy.pod_network import ServiceAddresses


class Services:
    """The services of a control plane, in the caller's network namespace.

    Args:
        admin: reads them; of one thread.
        api_port: where the API server listens on loopback.
    """

    def __init__(self, admin: Admin, api_port: int) -> None:
        self._admin = admin
        self._addresses = ServiceAddresses(api_port)

    def look(self) -> dict[str, str]:
        """Leads each address to what is ready now.

        Returns:
            Addresses by ``NAME.NAMESPACE``; of a headless service that of its first ready pod.
        """
        slices: dict[str, list[Document]] = {}
        for each in self._admin.items("/apis/discovery.k8s.io/v1/endpointslices"):
            metadata = each["metadata"]
            name = (metadata.get("labels") or {}).get("kubernetes.io/service-name", "")
            slices.setdefault(f"{name}.{metadata['namespace']}", []).append(each)
        names: dict[str, str] = {}
        for service in self._admin.items("/api/v1/services"):
            metadata = service["metadata"]
            name = f"{metadata['name']}.{metadata['namespace']}"
            if address := self._lead(name, service["spec"], slices.get(name, [])):
                names[name] = address
        return names

    def _lead(self, name: str, spec: Document, slices: list[Document]) -> str:
        address: str = spec.get("clusterIP", "None")
        first = ""
        for port in spec.get("ports") or ():
            found = _endpoints(slices, port.get("name", ""))
            if address == "None":
                first = first or (found[0][0] if found else "")
            # Its own slice names an address that nobody has.
            elif name != "kubernetes.default":
                self._addresses.lead((address, port["port"]), found)
        return first if address == "None" else address


def _endpoints(slices: list[Document], port: str) -> list[tuple[str, int]]:
    return [
        (endpoint["addresses"][0], number["port"])
        for each in slices
        for endpoint in each.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready")
        for number in each.get("ports") or ()
        if number.get("name", "") == port
    ]
