# SPDX-License-Identifier: Apache-2.0
"""What is wrong with security contexts. Privileged containers are allowed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from koord.base.documents import Document

if TYPE_CHECKING:
    from koord.controlplane.kinds.validation.causes import Causes


_ID_RANGE = "must be between 0 and 2147483647, inclusive"
_LARGEST_ID = 2**31 - 1
_SYSCTL = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")


def check_pod_security(security: Document, path: str, causes: Causes) -> None:
    """Adds what is wrong with a pod's ``securityContext``."""
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        _check_id(security.get(field), f"{path}.{field}", causes)
    for index, group in enumerate(security.get("supplementalGroups") or ()):
        _check_id(group, f"{path}.supplementalGroups[{index}]", causes)
    policy = security.get("fsGroupChangePolicy")
    if policy not in (None, "Always", "OnRootMismatch"):
        allowed = ("Always", "OnRootMismatch")
        causes.not_supported(f"{path}.fsGroupChangePolicy", policy, allowed)
    _check_seccomp(security.get("seccompProfile"), f"{path}.seccompProfile", causes)
    seen: set[str] = set()
    for index, sysctl in enumerate(security.get("sysctls") or ()):
        name, where = sysctl.get("name", ""), f"{path}.sysctls[{index}].name"
        if not name:
            causes.required(where)
        elif len(name) > 253 or not re.fullmatch(_SYSCTL[1:-1], name):
            why = f"must have at most 253 characters and match regex {_SYSCTL}"
            causes.invalid(where, name, why)
        elif name in seen:
            causes.duplicate(where, name)
        seen.add(name)


def check_container_security(security: Document, path: str, causes: Causes) -> None:
    """Adds what is wrong with a container's ``securityContext``."""
    for field in ("runAsUser", "runAsGroup"):
        _check_id(security.get(field), f"{path}.{field}", causes)
    mount = security.get("procMount")
    if mount not in (None, "Default", "Unmasked"):
        causes.not_supported(f"{path}.procMount", mount, ("Default", "Unmasked"))
    _check_seccomp(security.get("seccompProfile"), f"{path}.seccompProfile", causes)
    if security.get("allowPrivilegeEscalation") is False and security.get("privileged"):
        why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        causes.invalid(path, security, why)


def _check_id(number: int | None, path: str, causes: Causes) -> None:
    if number is not None and not 0 <= number <= _LARGEST_ID:
        causes.invalid(path, number, _ID_RANGE)


def _check_seccomp(profile: Document | None, path: str, causes: Causes) -> None:
    if profile is None:
        return
    kind = profile.get("type", "")
    if not kind:
        causes.required(f"{path}.type", "type is required when seccompProfile is set")
    elif kind not in _PROFILES:
        causes.not_supported(f"{path}.type", kind, _PROFILES)
    elif kind == "Localhost":
        if not profile.get("localhostProfile"):
            why = "must be set when seccomp type is Localhost"
            causes.required(f"{path}.localhostProfile", why)
    elif "localhostProfile" in profile:
        why = "can only be set when seccomp type is Localhost"
        causes.invalid(f"{path}.localhostProfile", profile["localhostProfile"], why)
