# SPDX-License-Identifier: Apache-2.0
"""What is wrong with containers: names, images, ports, environment, mounts.

The common container passes with a few look-ups; paths are put together only where something is
wrong or a part is there that needs its own look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.controlplane.kinds.pod.probes import PROBES, check_probes
from koord.controlplane.kinds.pod.security_context import check_container_security
from koord.controlplane.kinds.pod.volumes import check_field, check_relative, check_resource_field
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.part_cache import ValidParts, checked_once
from koord.controlplane.kinds.validation.resources import check_requirements

if TYPE_CHECKING:
    from collections.abc import Container, Mapping


_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_ONLY_SIDECARS = "may not be set for init containers without restartPolicy=Always"
_ENV_FIELDS = frozenset(
    [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ]
)
_containers = ValidParts()
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")

check_amounts = checked_once(check_requirements)


def check_containers(
    spec: Document, path: str, volumes: Mapping[str, Document], causes: Causes
) -> None:
    """Adds what is wrong with the containers and init containers of a pod's spec."""
    containers = spec.get("containers")
    if not containers:
        causes.required(f"{path}.containers")
        return
    seen: set[str] = set()
    for index, container in enumerate(containers):
        _check_container(container, f"{path}.containers[{index}]", volumes, seen, causes)
    _check_host_ports(containers, f"{path}.containers", causes)
    for index, container in enumerate(spec.get("initContainers") or ()):
        where = f"{path}.initContainers[{index}]"
        _check_common(container, where, volumes, causes)
        _check_restart_policy(container, where, causes)
        name = container.get("name", "")
        if name in seen:
            causes.duplicate(f"{where}.name", name)
        elif name:
            seen.add(name)
        _check_init_probes(container, where, causes)


def _check_container(
    container: Document, path: str, volumes: Mapping[str, Document], seen: set[str], causes: Causes
) -> None:
    name, text = container.get("name", ""), _containers.text_of(container)
    # Of what is not in the container its checks look at the volumes alone.
    if _containers.has(text) and all(
        mount["name"] in volumes for mount in container.get("volumeMounts") or ()
    ):
        if name in seen:
            causes.duplicate(f"{path}.name", name)
        seen.add(name)
        return
    before = len(causes)
    _check_common(container, path, volumes, causes)
    if name in seen:
        causes.duplicate(f"{path}.name", name)
    seen.add(name)
    check_probes(container, path, causes)
    _check_restart_policy(container, path, causes)
    if len(causes) == before and not container.get("volumeDevices"):
        _containers.add(text)


def is_good_container(container: Document, is_init: bool) -> bool:
    """Whether nothing is wrong with one container of a pod by itself.

    That is, if the pod has the volumes that it mounts, and no other container has its name or one
    of its host's ports.
    """
    causes = Causes()
    volumes = {mount.get("name", ""): mount for mount in container.get("volumeMounts") or ()}
    _check_common(container, "", volumes, causes)
    _check_restart_policy(container, "", causes)
    if is_init:
        _check_init_probes(container, "", causes)
    else:
        check_probes(container, "", causes)
    _check_image_of_pod(container, "", causes)
    return not causes


def check_pod_only(spec: Document, path: str, causes: Causes) -> None:
    """Adds what is wrong in pods, though templates may have it."""
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            _check_image_of_pod(container, f"{path}.{kind}[{index}]", causes)


def check_ephemeral(container: Document, path: str, causes: Causes) -> None:
    """Adds what is wrong with one ephemeral container."""
    _check_common(container, path, {}, causes)
    for field in ("ports", "lifecycle", *PROBES):
        if container.get(field):
            causes.forbidden(f"{path}.{field}", "cannot be set for an Ephemeral Container")
    if container.get("resources"):
        causes.forbidden(f"{path}.resources", "cannot be set for an Ephemeral Container")


def _check_image_of_pod(container: Document, path: str, causes: Causes) -> None:
    image = container.get("image", "")
    if image != image.strip():
        causes.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")


def _check_init_probes(container: Document, path: str, causes: Causes) -> None:
    if container.get("restartPolicy") == "Always":
        check_probes(container, path, causes)
        return
    for kind in ("lifecycle", *PROBES):
        if kind in container:
            causes.forbidden(f"{path}.{kind}", _ONLY_SIDECARS)


def _check_common(
    container: Document, path: str, volumes: Mapping[str, Document], causes: Causes
) -> None:
    name = container.get("name")
    if not name:
        causes.required(f"{path}.name")
    elif whys := names.dns_label(name):
        causes.invalid_all(f"{path}.name", name, whys)
    if not container.get("image"):
        causes.required(f"{path}.image")
    policy = container.get("terminationMessagePolicy")
    if policy not in _MESSAGE_POLICIES:
        causes.not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    policy = container.get("imagePullPolicy")
    if policy not in _PULL_POLICIES:
        causes.not_supported(f"{path}.imagePullPolicy", policy, _PULL_POLICIES)
    if ports := container.get("ports"):
        _check_ports(ports, f"{path}.ports", causes)
    if variables := container.get("env"):
        check_env(variables, f"{path}.env", causes)
    if sources := container.get("envFrom"):
        _check_env_from(sources, f"{path}.envFrom", causes)
    if mounts := container.get("volumeMounts"):
        check_mounts(mounts, container, volumes, f"{path}.volumeMounts", causes)
    if devices := container.get("volumeDevices"):
        _check_devices(devices, volumes, f"{path}.volumeDevices", causes)
    if resources := container.get("resources"):
        check_amounts(resources, f"{path}.resources", causes)
    if security := container.get("securityContext"):
        check_container_security(security, f"{path}.securityContext", causes)


def _check_restart_policy(container: Document, path: str, causes: Causes) -> None:
    policy = container.get("restartPolicy")
    if policy is not None and policy not in _RESTART_POLICIES:
        causes.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)


def _check_ports(ports: list[Document], path: str, causes: Causes) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        if name := port.get("name"):
            if whys := names.port_name(name):
                causes.invalid_all(f"{path}[{index}].name", name, whys)
            elif name in seen:
                causes.duplicate(f"{path}[{index}].name", name)
            seen.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            causes.required(f"{path}[{index}].containerPort")
        elif whys := names.port_number(number):
            causes.invalid_all(f"{path}[{index}].containerPort", number, whys)
        if (number := port.get("hostPort")) and (whys := names.port_number(number)):
            causes.invalid_all(f"{path}[{index}].hostPort", number, whys)
        if port.get("protocol") not in _PROTOCOLS:
            causes.not_supported(f"{path}[{index}].protocol", port.get("protocol", ""), _PROTOCOLS)


def _check_host_ports(containers: list[Document], path: str, causes: Causes) -> None:
    seen: set[str] = set()
    for number, container in enumerate(containers):
        for index, port in enumerate(container.get("ports") or ()):
            if host_port := port.get("hostPort"):
                key = f"{port.get('protocol')}/{port.get('hostIP', '')}/{host_port}"
                if key in seen:
                    causes.duplicate(f"{path}[{number}].ports[{index}].hostPort", key)
                seen.add(key)


def check_env(variables: list[Document], path: str, causes: Causes) -> None:
    """Adds what is wrong with the environment of a container."""
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            causes.required(f"{path}[{index}].name")
        elif whys := names.env_name(name):
            causes.invalid_all(f"{path}[{index}].name", name, whys)
        if (source := variable.get("valueFrom")) is not None:
            where = f"{path}[{index}].valueFrom"
            _check_source(source, where, causes)
            if variable.get("value"):
                causes.invalid(where, "", "may not be specified when `value` is not empty")


def _check_env_source(source: Document, path: str, causes: Causes) -> None:
    given = [kind for kind in _ENV_SOURCES if source.get(kind) is not None]
    if not given:
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        causes.invalid(path, "", f"must specify one of: {listed}")
    elif len(given) > 1:
        causes.invalid(path, "", "may not have more than one field specified at a time")
    for kind in given:
        reference, where = source[kind], f"{path}.{kind}"
        if kind == "fieldRef":
            check_field(reference, _ENV_FIELDS, where, causes)
        elif kind == "resourceFieldRef":
            check_resource_field(reference, where, causes)
        elif kind != "fileKeyRef":
            _check_key_reference(reference, where, causes)


_check_source = checked_once(_check_env_source)


def _check_key_reference(reference: Document, path: str, causes: Causes) -> None:
    causes.invalid_all(f"{path}.name", reference.get("name", ""), _object_name(reference))
    if not (key := reference.get("key")):
        causes.required(f"{path}.key")
    elif whys := names.config_key(key):
        causes.invalid_all(f"{path}.key", key, whys)


def _object_name(reference: Document) -> names.NameErrors:
    return names.dns_subdomain(reference.get("name", ""))


def _check_env_from(sources: list[Document], path: str, causes: Causes) -> None:
    for index, source in enumerate(sources):
        if prefix := source.get("prefix"):
            causes.invalid_all(f"{path}[{index}].prefix", prefix, names.env_name(prefix))
        given = [kind for kind in ("configMapRef", "secretRef") if kind in source]
        for kind in given:
            where = f"{path}[{index}].{kind}.name"
            if not source[kind].get("name"):
                causes.required(where)
            else:
                causes.invalid_all(where, source[kind]["name"], _object_name(source[kind]))
        if not given:
            causes.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            causes.invalid(path, "", "may not have more than one field specified at a time")


def check_mounts(
    mounts: list[Document],
    container: Document,
    volumes: Container[str],
    path: str,
    causes: Causes,
) -> None:
    """Adds what is wrong with what a container mounts.

    Args:
        volumes: names of those that there are.
    """
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        name, mount_path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            causes.required(f"{path}[{index}].name")
        if name not in volumes:
            causes.not_found(f"{path}[{index}].name", name)
        if not mount_path:
            causes.required(f"{path}[{index}].mountPath")
        if mount_path in seen:
            causes.invalid(f"{path}[{index}].mountPath", mount_path, "must be unique")
        seen.add(mount_path)
        if sub_path := mount.get("subPath"):
            check_relative(sub_path, f"{path}.subPath", causes)
        if expression := mount.get("subPathExpr"):
            if sub_path:
                why = "subPathExpr and subPath are mutually exclusive"
                causes.invalid(f"{path}[{index}].subPathExpr", expression, why)
            check_relative(expression, f"{path}.subPathExpr", causes)
        if (propagation := mount.get("mountPropagation")) is not None:
            if propagation not in _PROPAGATIONS:
                where = f"{path}.mountPropagation"
                causes.not_supported(where, propagation, _PROPAGATIONS)
            elif propagation == "Bidirectional" and not _privileged(container):
                why = "Bidirectional mount propagation is available only to privileged containers"
                causes.forbidden(f"{path}.mountPropagation", why)


def _privileged(container: Document) -> bool:
    return bool((container.get("securityContext") or {}).get("privileged"))


def _check_devices(
    devices: list[Document], volumes: Mapping[str, Document], path: str, causes: Causes
) -> None:
    for index, device in enumerate(devices):
        name = device.get("name", "")
        if not name:
            causes.required(f"{path}[{index}].name")
        if not device.get("devicePath"):
            causes.required(f"{path}[{index}].devicePath")
        volume = volumes.get(name)
        if volume is None:
            causes.not_found(f"{path}[{index}].name", name)
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            why = (
                "can only use volume source type of PersistentVolumeClaim or Ephemeral "
                "for block mode"
            )
            causes.invalid(f"{path}[{index}].name", name, why)
