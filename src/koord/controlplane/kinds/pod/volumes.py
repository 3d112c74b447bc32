# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a pod's volumes. Sources that are rare today are taken as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.part_cache import ValidParts
from koord.controlplane.kinds.validation.quantities import ZERO, parsed

if TYPE_CHECKING:
    from collections.abc import Callable


_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATH_TYPES = frozenset(
    [
        "",
        *[
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ],
    ]
)
DOWNWARD_FIELDS = frozenset(
    f"metadata.{name}" for name in ("name", "namespace", "labels", "annotations", "uid")
)
CONTAINER_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_volume_lists = ValidParts()


def check_volumes(volumes: list[Document], path: str, causes: Causes) -> dict[str, Document]:
    """Adds what is wrong with ``spec.volumes``; gives the good ones by name."""
    text = _volume_lists.text_of(volumes)
    if _volume_lists.has(text):
        return {volume["name"]: volume for volume in volumes}
    known: dict[str, Document] = {}
    wrong = len(causes)
    for index, volume in enumerate(volumes):
        name = volume.get("name", "")
        before = len(causes)
        if len(volume) != 2 or _CHECKS.keys() & volume.keys():
            _check_source(volume, f"{path}[{index}]", causes)
        if not name:
            causes.required(f"{path}[{index}].name")
        elif whys := names.dns_label(name):
            causes.invalid_all(f"{path}[{index}].name", name, whys)
        elif name in known:
            causes.duplicate(f"{path}[{index}].name", name)
        if len(causes) == before:
            known[name] = volume
    if len(causes) == wrong:
        _volume_lists.add(text)
    return known


def is_good_volume(volume: Document) -> bool:
    """Whether nothing is wrong with one volume by itself."""
    causes = Causes()
    check_volumes([volume], "", causes)
    return not causes


def _check_source(volume: Document, path: str, causes: Causes) -> None:
    kinds = [kind for kind in volume if kind != "name"]
    if len(kinds) > 1:
        kinds.sort(key=lambda kind: _ORDER.get(kind, len(_ORDER)))  # others as they come
        for kind in kinds[1:]:
            causes.forbidden(f"{path}.{kind}", "may not specify more than 1 volume type")
    if kinds and (check := _CHECKS.get(kinds[0])):
        check(volume[kinds[0]], f"{path}.{kinds[0]}", causes)


def _check_empty_dir(source: Document, path: str, causes: Causes) -> None:
    if "sizeLimit" in source and parsed(source["sizeLimit"]) < ZERO:
        why = "SizeLimit field must be a valid resource quantity"
        causes.forbidden(f"{path}.sizeLimit", why)


def _check_host_path(source: Document, path: str, causes: Causes) -> None:
    if not source.get("path"):
        causes.required(f"{path}.path")
        return
    _check_no_backsteps(source["path"], f"{path}.path", causes)
    if source.get("type", "") not in _HOST_PATH_TYPES:
        causes.not_supported(f"{path}.type", source["type"], sorted(_HOST_PATH_TYPES))


def _check_secret(source: Document, path: str, causes: Causes) -> None:
    if not source.get("secretName"):
        causes.required(f"{path}.secretName")
    _check_files(source, path, causes)


def _check_config_map(source: Document, path: str, causes: Causes) -> None:
    if not source.get("name"):
        causes.required(f"{path}.name")
    _check_files(source, path, causes)


def _check_files(source: Document, path: str, causes: Causes) -> None:
    _check_mode(source.get("defaultMode"), f"{path}.defaultMode", causes)
    for index, item in enumerate(source.get("items") or ()):
        where = f"{path}.items[{index}]"
        if not item.get("key"):
            causes.required(f"{where}.key")
        if not item.get("path"):
            causes.required(f"{where}.path")
        else:
            check_relative(item["path"], f"{where}.path", causes)
        _check_mode(item.get("mode"), f"{where}.mode", causes)


def _check_mode(mode: int | None, path: str, causes: Causes) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        causes.invalid(path, mode, _MODE)


def _check_claim(source: Document, path: str, causes: Causes) -> None:
    if not source.get("claimName"):
        causes.required(f"{path}.claimName")


def _check_nfs(source: Document, path: str, causes: Causes) -> None:
    if not source.get("server"):
        causes.required(f"{path}.server")
    if not source.get("path"):
        causes.required(f"{path}.path")
    elif not source["path"].startswith("/"):
        causes.invalid(f"{path}.path", source["path"], "must be an absolute path")


def _check_csi(source: Document, path: str, causes: Causes) -> None:
    if not source.get("driver"):
        causes.required(f"{path}.driver")


def _check_downward(source: Document, path: str, causes: Causes) -> None:
    _check_mode(source.get("defaultMode"), f"{path}.defaultMode", causes)
    for item in source.get("items") or ():
        if not item.get("path"):
            causes.required(f"{path}.path")
        else:
            check_relative(item["path"], f"{path}.path", causes)
        if "fieldRef" in item:
            check_field(item["fieldRef"], DOWNWARD_FIELDS, f"{path}.fieldRef", causes)
        elif "resourceFieldRef" in item:
            where = f"{path}.resourceFieldRef"
            if not item["resourceFieldRef"].get("containerName"):
                causes.required(f"{where}.containerName")
            check_resource_field(item["resourceFieldRef"], where, causes)
        else:
            causes.required(path, "one of fieldRef and resourceFieldRef is required")
        _check_mode(item.get("mode"), f"{path}.mode", causes)


def _check_projected(source: Document, path: str, causes: Causes) -> None:
    _check_mode(source.get("defaultMode"), f"{path}.defaultMode", causes)
    for index, projection in enumerate(source.get("sources") or ()):
        where = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if (named := projection.get(kind)) is not None:
                if not named.get("name"):
                    causes.required(f"{where}.{kind}.name")
                _check_files(named, f"{where}.{kind}", causes)
        if (downward := projection.get("downwardAPI")) is not None:
            _check_downward(downward, f"{where}.downwardAPI", causes)
        if (token := projection.get("serviceAccountToken")) is not None:
            seconds = token.get("expirationSeconds", 3600)
            if seconds < 600:
                why = "may not specify a duration less than 10 minutes"
                causes.invalid(f"{where}.serviceAccountToken.expirationSeconds", seconds, why)
            if not token.get("path"):
                causes.required(f"{path}.path")


def check_field(reference: Document, allowed: frozenset[str], path: str, causes: Causes) -> None:
    """A ``fieldRef``: of labels and annotations also single entries, ``metadata.labels['x']``."""
    field = reference.get("fieldPath", "")
    if not field:
        causes.required(f"{path}.fieldPath")
        return
    base, bracket, key = field.partition("['")
    if bracket and key.endswith("']") and base in ("metadata.labels", "metadata.annotations"):
        key = key.removesuffix("']")
        causes.invalid_all(path, key, names.label_key(key.lower()))
    elif field not in allowed and field not in _REFERABLE:
        why = f"error converting fieldPath: field label not supported: {field}"
        causes.invalid(f"{path}.fieldPath", field, why)
    elif field not in allowed:
        causes.not_supported(f"{path}.fieldPath", field, sorted(allowed))


_REFERABLE = DOWNWARD_FIELDS | frozenset(
    [
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.hostIP",
        "status.hostIPs",
        "status.nominatedNodeName",
    ]
)


def check_resource_field(reference: Document, path: str, causes: Causes) -> None:
    """A ``resourceFieldRef``."""
    resource = reference.get("resource", "")
    if not resource:
        causes.required(f"{path}.resource")
    elif resource not in CONTAINER_RESOURCES and ".hugepages-" not in resource:
        causes.not_supported(f"{path}.resource", resource, CONTAINER_RESOURCES)
    elif resource.endswith(".cpu") and reference.get("divisor") not in (None, "0", "1", "1m"):
        why = "only divisor's values 1m and 1 are supported with the cpu resource"
        causes.invalid(f"{path}.divisor", resource, why)


def check_relative(path_text: str, path: str, causes: Causes) -> None:
    """A path that stays beneath where it is put."""
    if path_text.startswith("/"):
        causes.invalid(path, path_text, "must be a relative path")
    _check_no_backsteps(path_text, path, causes)


def _check_no_backsteps(path_text: str, path: str, causes: Causes) -> None:
    if ".." in path_text.split("/"):
        causes.invalid(path, path_text, "must not contain '..'")


_CHECKS: dict[str, Callable[[Document, str, Causes], None]] = {
    "emptyDir": _check_empty_dir,
    "hostPath": _check_host_path,
    "nfs": _check_nfs,
    "secret": _check_secret,
    "persistentVolumeClaim": _check_claim,
    "downwardAPI": _check_downward,
    "configMap": _check_config_map,
    "projected": _check_projected,
    "csi": _check_csi,
}
_ORDER = {kind: number for number, kind in enumerate(_CHECKS)}
