# SPDX-License-Identifier: Apache-2.0
"""Amounts of resources: names that exist, whole devices, requests within limits, huge pages."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.base.memory.text_cache import LONGEST_TEXT, text_cache
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import NOT_NEGATIVE
from koord.controlplane.kinds.validation.quantities import ZERO, is_whole, parsed

if TYPE_CHECKING:
    from koord.controlplane.kinds.validation.causes import Causes


HUGE_PAGES = "hugepages-"
_STANDARD = frozenset(("cpu", "memory", "ephemeral-storage"))
# What a quota counts by number.
COUNTED = frozenset(
    (
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
_STANDARD_ANYWHERE = _STANDARD | frozenset(
    [
        "storage",
        *COUNTED,
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    ]
)


def check_requirements(resources: Document, path: str, causes: Causes) -> None:
    """Adds what is wrong with a container's (or a pod's) requests and limits."""
    limits, requests = resources.get("limits"), resources.get("requests")
    if limits:
        _check_list(limits, f"{path}.limits", causes)
    # Requests that were filled in from the limits are the same texts: nothing to compare.
    if requests and (requests != limits or causes):
        _check_list(requests, f"{path}.requests", causes)
        _compare(requests, limits or {}, path, causes)
    for amounts in (requests, limits):
        if amounts and ("cpu" in amounts or "memory" in amounts):
            return
    if any(is_huge_page(name) for amounts in (requests, limits) for name in amounts or ()):
        causes.forbidden(path, "HugePages require cpu or memory")


def is_huge_page(name: str) -> bool:
    """Whether a resource is a size of huge pages."""
    return name.startswith(HUGE_PAGES)


@text_cache(4096)
def is_native(name: str) -> bool:
    """Whether a resource is Kubernetes' own: without a domain, or in kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


@text_cache(4096)
def is_extended(name: str) -> bool:
    """Whether a resource is a device or the like, counted in whole numbers."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.label_key(f"requests.{name}")


@text_cache(4096)
def may_be_overcommitted(name: str) -> bool:
    """Whether requests may differ from limits."""
    return is_native(name) and not is_huge_page(name)


@text_cache(4096)
def faults_of_name(name: str) -> tuple[str, ...]:
    """What is wrong with the name of a resource, anywhere."""
    if whys := names.label_key(name):
        return whys
    if "/" not in name and name not in _STANDARD_ANYWHERE and not is_huge_page(name):
        return ("must be a standard resource type or fully qualified",)
    return ()


@text_cache(4096)
def _faults_of_container_name(name: str) -> tuple[str, ...]:
    whys = faults_of_name(name)
    if "/" not in name:
        if name not in _STANDARD and not is_huge_page(name):
            return (*whys, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        return (*whys, "doesn't follow extended resource name standard")
    return whys


def check_amount(name: str, amount: str, path: str, causes: Causes) -> None:
    """An amount is not negative, and whole where the resource is counted in whole numbers."""
    if parsed(amount) < ZERO:
        causes.invalid(path, amount, NOT_NEGATIVE)
    if is_extended(name) and not is_whole(amount):
        causes.invalid(path, amount, "must be an integer")


def _check_list(amounts: Document, path: str, causes: Causes) -> None:
    for name, amount in amounts.items():
        if len(name) + len(amount) <= LONGEST_TEXT and _is_fine(name, amount):
            continue
        where = f"{path}[{name}]"
        causes.invalid_all(where, name, _faults_of_container_name(name))
        check_amount(name, amount, where, causes)
        if is_huge_page(name) and not _is_multiple(name, amount):
            why = f"{amount} is not positive integer multiple of {name}"
            causes.invalid(where, amount, why)


@lru_cache(maxsize=16_384)
def _is_fine(name: str, amount: str) -> bool:
    if _faults_of_container_name(name) or parsed(amount) < ZERO:
        return False
    if is_huge_page(name):
        return _is_multiple(name, amount)
    return not is_extended(name) or is_whole(amount)


def _is_multiple(name: str, amount: str) -> bool:
    try:
        size = int(parsed(name.removeprefix(HUGE_PAGES)).value())
    except (ValueError, TypeError):
        return True
    return size > 0 and is_whole(amount) and int(parsed(amount).value()) % size == 0


def _compare(requests: Document, limits: Document, path: str, causes: Causes) -> None:
    for name, request in requests.items():
        limit = limits.get(name)
        if limit is None:
            if not may_be_overcommitted(name):
                why = "Limit must be set for non overcommitable resources"
                causes.required(f"{path}.limits", why)
        elif request != limit:
            if parsed(request) != parsed(limit) and not may_be_overcommitted(name):
                why = f"must be equal to {name} limit of {limit}"
                causes.invalid(f"{path}.requests", request, why)
            elif parsed(request) > parsed(limit):
                why = f"must be less than or equal to {name} limit of {limit}"
                causes.invalid(f"{path}.requests", request, why)
