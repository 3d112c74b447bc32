# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a pod, or with the pod template of a workload."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

import msgspec

from koord.base.documents import Document
from koord.controlplane.kinds.pod.containers import check_amounts, check_containers, check_pod_only
from koord.controlplane.kinds.pod.security_context import check_pod_security
from koord.controlplane.kinds.pod.volumes import check_volumes
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.object_meta import check_annotations, check_labels
from koord.controlplane.kinds.validation.part_cache import checked_once
from koord.controlplane.kinds.validation.scheduling import (
    check_affinity,
    check_gates,
    check_spread,
    check_tolerations,
)

if TYPE_CHECKING:
    from collections.abc import Callable


RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_LARGEST_SECONDS = 2**31 - 1
_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_SEARCH = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")
_SEARCH_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' "
    "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SEARCH.pattern}')"
)


def check_pod(pod: Document, causes: Causes) -> None:
    """Adds what is wrong with a pod, new or changed."""
    spec = pod["spec"]
    text = _encode(spec)
    if text in _good_specs:
        return
    before = len(causes)
    check_spec(spec, "spec", causes)
    check_pod_only(spec, "spec", causes)
    if not spec.get("serviceAccountName") and "volumes" in spec:
        _check_tokens(spec["volumes"], causes)
    if len(causes) == before and len(text) <= _LONGEST_KNOWN:
        if len(_good_specs) >= _KNOWN_SPECS:
            _good_specs.clear()
        _good_specs.add(text)


# The pods of one owner have the same spec: its text is made in a tenth of the time of the checks.
_good_specs: set[bytes] = set()
_KNOWN_SPECS, _LONGEST_KNOWN = 1024, 16 << 10  # how many, bytes
_encode = msgspec.json.Encoder().encode


def check_new_pod(pod: Document) -> Causes:
    """What is wrong with a pod that is to be created."""
    causes = Causes()
    check_pod(pod, causes)
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        causes.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        why = "cannot be set until all schedulingGates have been cleared"
        causes.forbidden("spec.nodeName", why)
    return causes


def check_template(template: Document, path: str, causes: Causes) -> None:
    """Adds what is wrong with a pod template."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    if labels := metadata.get("labels"):
        check_labels(labels, f"{path}.labels", causes)
    if annotations := metadata.get("annotations"):
        check_annotations(annotations, f"{path}.annotations", causes)
    check_spec(spec, f"{path}.spec", causes)
    if spec.get("ephemeralContainers"):
        why = "ephemeral containers not allowed in pod template"
        causes.forbidden(f"{path}.spec.ephemeralContainers", why)


def check_spec(spec: Document, path: str, causes: Causes) -> None:
    """Adds what is wrong with the spec of a pod or template."""
    volumes = spec.get("volumes")
    known = check_volumes(volumes, f"{path}.volumes", causes) if volumes else {}
    check_containers(spec, path, known, causes)
    for field, check in _PARTS:
        if part := spec.get(field):
            check(part, f"{path}.{field}", causes)
    if spec.get("restartPolicy") not in RESTART_POLICIES:
        _check_choice(spec, "restartPolicy", RESTART_POLICIES, path, causes)
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        _check_choice(spec, "dnsPolicy", _DNS_POLICIES, path, causes)
    if spec.get("dnsPolicy") == "None" or "dnsConfig" in spec:
        _check_dns(spec, f"{path}.dnsConfig", causes)
    for field, rule in _NAMES:
        if (name := spec.get(field)) and (whys := rule(name)):
            causes.invalid_all(f"{path}.{field}", name, whys)
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= _LARGEST_SECONDS:
        why = f"must be between 1 and {_LARGEST_SECONDS}, inclusive"
        causes.invalid(f"{path}.activeDeadlineSeconds", seconds, why)
    if spec.get("hostNetwork"):
        _check_host_network(spec, path, causes)
    system = (spec.get("os") or {}).get("name")
    if system is not None and system not in ("linux", "windows"):
        causes.not_supported(f"{path}.os", system, ("linux", "windows"))


def _check_choice(
    spec: Document, field: str, allowed: tuple[str, ...], path: str, causes: Causes
) -> None:
    if not spec.get(field):
        causes.required(f"{path}.{field}")
    else:
        causes.not_supported(f"{path}.{field}", spec[field], allowed)


def _check_host_network(spec: Document, path: str, causes: Causes) -> None:
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            # A pod's are defaulted to those of the container, those of a template stay open.
            if port.get("hostPort") and port["hostPort"] != port.get("containerPort", 0):
                where = f"{path}.containers[{index}].ports[{number}].hostPort"
                why = "must match `containerPort` when `hostNetwork` is true"
                causes.invalid(where, port["hostPort"], why)


def _check_dns(spec: Document, path: str, causes: Causes) -> None:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            causes.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            causes.required(f"{path}.nameservers", why)
            return
    config = config or {}
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > 3:
        causes.invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers")
    for index, server in enumerate(servers):
        _check_address(server, f"{path}.nameservers[{index}]", causes)
    if len(searches) > 32:
        causes.invalid(f"{path}.searches", searches, "must not have more than 32 search paths")
    for index, search in enumerate(searches):
        if search != "." and not _SEARCH.fullmatch(search.removesuffix(".")):
            where = f"{path}.searches[{index}]"
            causes.invalid(where, search.removesuffix("."), _SEARCH_WORDS)
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            causes.required(f"{path}.options[{index}]", "must not be empty")


def _check_address(address: str, path: str, causes: Causes) -> None:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        causes.invalid(path, address, _IP)


def _check_aliases(aliases: list[Document], path: str, causes: Causes) -> None:
    for index, alias in enumerate(aliases):
        _check_address(alias.get("ip", ""), f"{path}[{index}].ip", causes)
        for number, name in enumerate(alias.get("hostnames") or ()):
            where = f"{path}[{index}].hostnames[{number}]"
            causes.invalid_all(where, name, names.dns_subdomain(name))


def _check_readiness_gates(gates: list[Document], path: str, causes: Causes) -> None:
    for index, gate in enumerate(gates):
        name = gate.get("conditionType", "")
        causes.invalid_all(f"{path}[{index}].conditionType", name, names.label_key(name))


def _check_tokens(volumes: list[Document], causes: Causes) -> None:
    for index, volume in enumerate(volumes):
        if "projected" not in volume:
            continue
        for number, source in enumerate(volume["projected"].get("sources") or ()):
            if "serviceAccountToken" in source:
                path = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                why = "must not be specified when serviceAccountName is not set"
                causes.forbidden(path, why)


_PARTS: tuple[tuple[str, Callable[[Any, str, Causes], object]], ...] = (
    ("resources", check_amounts),
    ("nodeSelector", check_labels),
    ("securityContext", check_pod_security),
    ("affinity", checked_once(check_affinity)),
    ("readinessGates", _check_readiness_gates),
    ("schedulingGates", check_gates),
    ("topologySpreadConstraints", checked_once(check_spread)),
    ("tolerations", checked_once(check_tolerations)),
    ("hostAliases", _check_aliases),
)
_NAMES: tuple[tuple[str, Callable[[str], names.NameErrors]], ...] = (
    ("serviceAccountName", names.dns_subdomain),
    ("nodeName", names.dns_subdomain),
    ("hostname", names.dns_label),
    ("subdomain", names.dns_label),
    ("priorityClassName", names.dns_subdomain),
    ("runtimeClassName", names.dns_subdomain),
)
