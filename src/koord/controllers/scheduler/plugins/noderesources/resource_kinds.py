# SPDX-License-Identifier: Apache-2.0
"""Which kind of resource a name stands for (Kubernetes: pkg/apis/core/v1/helper)."""

from __future__ import annotations

_PREFIXED = "kubernetes.io/"


def is_extended(name: str) -> bool:
    """Whether a resource is a device plugin's or an operator's, such as ``nvidia.com/gpu``."""
    return "/" in name and _PREFIXED not in name and not name.startswith("requests.")


def is_scalar(name: str) -> bool:
    """Whether a resource is none of CPU, memory and ephemeral storage.

    Of such, those that a pod does not ask for do not count in scores.
    """
    return (
        is_extended(name)
        or _PREFIXED in name
        or name.startswith(("hugepages-", "attachable-volumes-"))
    )
