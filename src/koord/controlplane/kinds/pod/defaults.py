# SPDX-License-Identifier: Apache-2.0
"""What the server writes into a pod's spec where the author said nothing.

:func:`default_spec` serves pods and pod templates alike; :func:`default_pod` adds what only pods
get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.protocol.qos import qos_from_resources
from koord.base.documents import Document
from koord.base.memory.text_cache import text_cache
from koord.controlplane.kinds.validation.quantities import canonical, normalise, parsed

if TYPE_CHECKING:
    from koord.kernels.quantity import Quantity


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_MODES = frozenset(("secret", "configMap", "downwardAPI", "projected"))
DEFAULT_MODE = 0o644
_QOS_RESOURCES = ("cpu", "memory")
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(list[dict[str, Any]]).decode
_NO_AMOUNTS: dict[str, Quantity] = {}


def default_pod(spec: Document) -> None:
    """Fills in a pod's spec: everything of :func:`default_spec`, then requests from limits."""
    default_spec(spec)
    for key in ("containers", "initContainers"):
        for container in spec.get(key) or ():
            _default_requests(container["resources"])
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if spec.get("resources"):
        _default_pod_requests(spec)
    if spec.get("hostNetwork"):
        _default_host_ports(spec)


def default_container(container: Document) -> None:
    """Fills in one container of a pod, as :func:`default_pod` does with each."""
    _default_container(container)
    _default_requests(container["resources"])


def default_amounts(resources: Document) -> None:
    """Fills in the ``resources`` of a pod's container."""
    _normalise_resources(resources)
    _default_requests(resources)


def _default_requests(resources: Document) -> None:
    limits = resources.get("limits")
    if limits:
        requests = resources.get("requests")
        resources["requests"] = {**limits, **requests} if requests else dict(limits)


def default_template(template: Document) -> None:
    """Fills in a pod template."""
    template.setdefault("metadata", {})
    default_spec(template.setdefault("spec", {}))


def default_spec(spec: Document) -> None:
    """Fills in what pods and pod templates have in common."""
    for container in spec.get("containers") or ():
        _default_container(container)
    for container in spec.get("initContainers") or ():
        _default_container(container)
    for container in spec.get("ephemeralContainers") or ():
        _default_container(container)
    for volume in spec.get("volumes") or ():
        default_volume(volume)
    present = spec.keys()
    if "restartPolicy" not in present:
        spec["restartPolicy"] = "Always"
    if "terminationGracePeriodSeconds" not in present:
        spec["terminationGracePeriodSeconds"] = 30
    if "dnsPolicy" not in present:
        spec["dnsPolicy"] = "ClusterFirst"
    if "securityContext" not in present:
        spec["securityContext"] = {}
    if "schedulerName" not in present:
        spec["schedulerName"] = "default-scheduler"
    if "serviceAccountName" in present:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in present:
        spec["serviceAccountName"] = spec["serviceAccount"]
    if "overhead" in present:
        normalise(spec["overhead"])
    if "resources" in present:
        _normalise_resources(spec["resources"])


@text_cache(4096)
def pull_policy(image: str) -> str:
    """``Always`` for images tagged ``latest``, be it by silence; else ``IfNotPresent``."""
    name, _, digest = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].rpartition(":")
    if not colon and not digest:
        return "Always"
    return "Always" if tag == "latest" and colon else "IfNotPresent"


def _default_container(container: Document) -> None:
    present = container.keys()
    if "resources" in present:
        _normalise_resources(container["resources"])
    else:
        container["resources"] = {}
    if "terminationMessagePath" not in present:
        container["terminationMessagePath"] = "/dev/termination-log"
    if "terminationMessagePolicy" not in present:
        container["terminationMessagePolicy"] = "File"
    if "imagePullPolicy" not in present:
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    for port in container.get("ports") or ():
        if "protocol" not in port:
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        default_variable(variable)
    for key in _PROBES:
        if key in present:
            _default_probe(container[key])
    if "lifecycle" in present:
        for hook in _HOOKS:
            if "httpGet" in (action := container["lifecycle"].get(hook) or {}):
                _default_http(action["httpGet"])


def default_variable(variable: Document) -> None:
    """Fills in one variable of a container's environment."""
    if "valueFrom" in variable:
        _default_reference(variable["valueFrom"])


def _normalise_resources(resources: Document) -> None:
    if requests := resources.get("requests"):
        normalise(requests)
    if limits := resources.get("limits"):
        normalise(limits)


def _default_probe(probe: Document) -> None:
    if "httpGet" in probe:
        _default_http(probe["httpGet"])
    elif "grpc" in probe:
        probe["grpc"].setdefault("service", "")
    for key, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(key):
            probe[key] = value


def _default_http(get: Document) -> None:
    if not get.get("path"):
        get["path"] = "/"
    if not get.get("scheme"):
        get["scheme"] = "HTTP"


def _default_reference(source: Document) -> None:
    """``valueFrom``, or an item of a downward API volume."""
    if "fieldRef" in source:
        if not source["fieldRef"].get("apiVersion"):
            source["fieldRef"]["apiVersion"] = "v1"
    elif "resourceFieldRef" in source:
        reference = source["resourceFieldRef"]
        reference["divisor"] = canonical(reference.get("divisor", "0"))


def default_volume(volume: Document) -> None:
    """Fills in one volume of a pod."""
    if len(volume) == 1:
        volume["emptyDir"] = {}
        return
    for kind, source in volume.items():
        if kind in _MODES:
            if "defaultMode" not in source:
                source["defaultMode"] = DEFAULT_MODE
            if kind == "projected":
                for projection in source.get("sources") or ():
                    _default_projection(projection)
            elif kind == "downwardAPI":
                for item in source.get("items") or ():
                    _default_reference(item)
        elif kind != "name":
            _default_other_volume(kind, source)


def _default_projection(projection: Document) -> None:
    if token := projection.get("serviceAccountToken"):
        token.setdefault("expirationSeconds", 3600)
    for item in (projection.get("downwardAPI") or {}).get("items") or ():
        _default_reference(item)


def _default_other_volume(kind: str, source: Document) -> None:
    if kind == "hostPath":
        source.setdefault("type", "")
    elif kind == "emptyDir":
        if "sizeLimit" in source:
            source["sizeLimit"] = canonical(source["sizeLimit"])
    elif kind == "image":
        source.setdefault("pullPolicy", pull_policy(source.get("reference") or ""))
    elif kind == "ephemeral":
        template = source.setdefault("volumeClaimTemplate", {})
        template.setdefault("metadata", {})
        default_claim_spec(template.setdefault("spec", {}))
    else:
        default_block_volume(kind, source)


def default_block_volume(kind: str, source: Document) -> None:
    """Volumes that pods and persistent volumes share."""
    for key, value in _BLOCK_DEFAULTS.get(kind, ()):
        if key not in source:
            source[key] = value


_BLOCK_DEFAULTS: dict[str, tuple[tuple[str, Any], ...]] = {
    "iscsi": (("iscsiInterface", "default"),),
    "rbd": (("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")),
    "scaleIO": (("storageMode", "ThinProvisioned"), ("fsType", "xfs")),
    "azureDisk": (
        ("cachingMode", "ReadWrite"),
        ("fsType", "ext4"),
        ("readOnly", False),
        ("kind", "Shared"),
    ),
}


def default_claim_spec(spec: Document) -> None:
    """The spec of a PersistentVolumeClaim, wherever it stands."""
    spec.setdefault("volumeMode", "Filesystem")
    if resources := spec.setdefault("resources", {}):
        _normalise_resources(resources)
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = {key: reference[key] for key in reference if key != "namespace"}


def _default_host_ports(spec: Document) -> None:
    for key in ("containers", "initContainers"):
        for container in spec.get(key) or ():
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)


def _default_pod_requests(spec: Document) -> None:
    """Requests of a pod that has limits as a whole: what its containers ask for, or the limits."""
    limits = spec["resources"].get("limits")
    if not limits:
        return
    requests = spec["resources"].get("requests") or {}
    for name, limit in limits.items():
        if name in requests:
            continue
        asked = _container_requests(spec, name)
        requests[name] = str(asked) if asked is not None and "/" not in name else limit
    spec["resources"]["requests"] = requests


def _container_requests(spec: Document, name: str) -> Quantity | None:
    """Sum over the containers, or the largest init container if that is more."""

    def requests(kind: str) -> list[Quantity]:
        containers = spec.get(kind) or ()
        amounts = [(c["resources"].get("requests") or {}).get(name) for c in containers]
        return [parsed(amount) for amount in amounts if amount is not None]

    together, first = requests("containers"), requests("initContainers")
    if not together and not first:
        return None
    return max([sum(together[1:], together[0]) if together else first[0], *first])


def qos_class(spec: Document) -> str:
    """Guaranteed, Burstable or BestEffort, by CPU and memory.

    Amounts for the whole pod take the place of the containers'.
    """
    whole = spec.get("resources")
    if whole is not None:
        owners = [whole]
    else:
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        owners = [each.get("resources") or {} for each in containers]
    return _qos_of(_encode(owners).decode())


def qos_of(amounts: list[bytes]) -> str:
    """The same from the texts of the containers' ``resources``."""
    return _qos_of((b"[%b]" % b",".join(amounts)).decode())


@text_cache(4096)
def _qos_of(owners: str) -> str:
    """The class of a pod whose amounts are those of a text: few pods ask for what none did."""
    amounts = ((_amounts(each, "requests"), _amounts(each, "limits")) for each in _decode(owners))
    return qos_from_resources(amounts).value


def _amounts(resources: Document, part: str) -> dict[str, Quantity]:
    found = resources.get(part)
    if not found:
        return _NO_AMOUNTS
    return {name: parsed(found[name]) for name in _QOS_RESOURCES if found.get(name) is not None}
