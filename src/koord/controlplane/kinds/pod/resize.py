# SPDX-License-Identifier: Apache-2.0
"""``pods/resize`` and ``pods/ephemeralcontainers``: what they may change, and how."""

from __future__ import annotations

from koord.base.documents import Document
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.pod.containers import check_ephemeral
from koord.controlplane.kinds.pod.defaults import qos_class
from koord.controlplane.kinds.pod.spec_validation import check_pod
from koord.controlplane.kinds.validation.causes import Causes

_MUTABLE = ("cpu", "memory")


_RESIZABLE = ("resources", "resizePolicy")


def keep_all_but_resources(pod: Document, old: Document) -> None:
    """For ``/resize``: of the containers, their resources and resize policies may differ.

    Containers that were added, taken away or renamed stay as they came, for validation to refuse.
    """
    spec, before = pod.get("spec") or {}, old["spec"]
    kept = dict(before)
    for kind in ("containers", "initContainers"):
        new_ones, old_ones = spec.get(kind) or [], before.get(kind) or []
        names_differ = [c.get("name") for c in new_ones] != [c.get("name") for c in old_ones]
        if names_differ:
            return
        if old_ones:
            kept[kind] = [_resized(*pair) for pair in zip(new_ones, old_ones, strict=True)]
    pod["spec"] = kept


def _resized(new: Document, old: Document) -> Document:
    kept = {key: value for key, value in old.items() if key not in _RESIZABLE}
    return kept | {key: new[key] for key in _RESIZABLE if key in new}


def keep_all_but_ephemeral(pod: Document, old: Document) -> None:
    """For ``/ephemeralcontainers``: only these may differ."""
    added = (pod.get("spec") or {}).get("ephemeralContainers")
    pod["spec"] = {k: v for k, v in old["spec"].items() if k != "ephemeralContainers"}
    if added:
        pod["spec"]["ephemeralContainers"] = added


def check_resize(pod: Document, old: Document) -> Causes:
    """What is wrong with a resize: it keeps the QoS class and takes no request or limit away.

    Of init containers only sidecars are resized. Pods on any node are, since simulated ones do not
    say what their containers run with.
    """
    causes = Causes()
    check_pod(pod, causes)
    before = section(old, "status").get("qosClass") or qos_class(old["spec"])
    if qos_class(pod["spec"]) != before:
        why = "Pod QOS Class may not change as a result of resizing"
        causes.invalid("spec", before, why)
    for kind in ("containers", "initContainers"):
        new_ones, old_ones = pod["spec"].get(kind) or [], old["spec"].get(kind) or []
        if len(new_ones) != len(old_ones):
            causes.forbidden(f"spec.{kind}", f"{kind} may not be added or removed on resize")
            return causes
        for index, (new, was) in enumerate(zip(new_ones, old_ones, strict=True)):
            if new.get("name") != was.get("name"):
                why = f"{kind} may not be renamed or reordered on resize"
                causes.forbidden(f"spec.{kind}[{index}].name", why)
                return causes
        for index, (new, was) in enumerate(zip(new_ones, old_ones, strict=True)):
            path = f"spec.{kind}[{index}].resources"
            is_init = kind == "initContainers" and was.get("restartPolicy") != "Always"
            if is_init and new["resources"] != was["resources"]:
                why = "resources for non-sidecar init containers are immutable"
                causes.forbidden("spec", why)
            _check_amounts(new["resources"], was["resources"], path, causes)
    return causes


def _check_amounts(new: Document, old: Document, path: str, causes: Causes) -> None:
    for part in ("requests", "limits"):
        amounts, before = new.get(part) or {}, old.get(part) or {}
        if before.keys() - amounts.keys():
            causes.forbidden(f"{path}.{part}", f"resource {part} cannot be removed")
        changed = {name for name in amounts if amounts[name] != before.get(name)}
        if changed - set(_MUTABLE):
            causes.forbidden("spec", "only cpu and memory resources are mutable")


def check_ephemeral_change(pod: Document, old: Document) -> Causes:
    """What is wrong with ephemeral containers: they are only ever added."""
    causes = Causes()
    path = "spec.ephemeralContainers"
    containers = pod["spec"].get("ephemeralContainers") or []
    taken = {
        container.get("name")
        for kind in ("containers", "initContainers")
        for container in pod["spec"].get(kind) or ()
    }
    for index, container in enumerate(containers):
        check_ephemeral(container, f"{path}[{index}]", causes)
        if container.get("name") in taken:
            causes.duplicate(f"{path}[{index}].name", container.get("name"))
        taken.add(container.get("name"))
    by_name = {container.get("name"): container for container in containers}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container["name"]
        if name not in by_name:
            causes.forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n')
        elif by_name[name] != container:
            causes.forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n')
    return causes
