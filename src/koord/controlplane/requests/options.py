# SPDX-License-Identifier: Apache-2.0
"""Checks of the options that a write carries in its query or body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.api_errors import failure, listed, not_supported
from koord.kube.errors import StatusDetails

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.base.documents import Document
    from koord.kube.errors import StatusCause

_LEVELS = ("", "Ignore", "Strict", "Warn")
_POLICIES = ("Foreground", "Background", "Orphan", "nil")
_KINDS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def truth(text: str) -> bool:
    """A boolean of a query; what is there and not false is true."""
    return text.lower() not in ("", "0", "false")


def check_write(method: str, query: Mapping[str, str]) -> None:
    """Refuses options of a create, update or patch that mean nothing.

    Raises:
        ApiError: 422.
    """
    causes = _dry_run([query["dryRun"]] if query.get("dryRun") else [])
    if query.get("fieldValidation", "") not in _LEVELS:
        causes.append(not_supported("fieldValidation", query["fieldValidation"], _LEVELS))
    refuse(_KINDS[method], causes)


def of_write(method: str, query: Mapping[str, str]) -> Document:
    """The options of a write as a document, for webhooks; empty where there are none.

    Args:
        method: POST or PUT; a patch is told as what it leads to.
    """
    if not query:
        return {}
    found: Document = {"kind": _KINDS[method], "apiVersion": "meta.k8s.io/v1"}
    for key in ("fieldManager", "fieldValidation"):
        if query.get(key):
            found[key] = query[key]
    if query.get("dryRun"):
        found["dryRun"] = [query["dryRun"]]
    return found


def check_delete(options: Document) -> None:
    """Refuses ``DeleteOptions`` that mean nothing.

    Raises:
        ApiError: 422.
    """
    causes = _dry_run(options.get("dryRun") or [])
    policy = options.get("propagationPolicy")
    if policy is not None and policy not in _POLICIES[:-1]:
        causes.append(not_supported("propagationPolicy", policy, _POLICIES))
    refuse("DeleteOptions", causes)


def refuse(kind: str, causes: list[StatusCause]) -> None:
    """Raises 422 for options if there is anything wrong with them."""
    if not causes:
        return
    details = StatusDetails(group="meta.k8s.io", kind=kind, causes=causes)
    raise failure(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {listed(causes)}', details)


def _dry_run(values: list[str]) -> list[StatusCause]:
    if all(one == "All" for one in values):
        return []
    return [not_supported("dryRun", values, ("All",))]
