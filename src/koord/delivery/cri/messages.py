# SPDX-License-Identifier: Apache-2.0
"""Types of the few CRI messages that the proxy reads, of ``cri.proto`` beside this module.

Rule: docs/reference/delivery.md#cri-proxy.
"""

from __future__ import annotations

from typing import Any

from koord.delivery.proto import load

CRI: Any = load(__package__, "cri.proto")
"""Classes of the messages, e.g. ``CRI.RunPodSandboxRequest``."""

RUNTIME_SERVICE = "/runtime.v1.RuntimeService/"
"""What a call's path begins with, where a method's name follows."""


def recast(message: Any, kind: Any) -> Any:
    """The same fields as a message of another type, whose numbers are the same."""
    return kind.FromString(message.SerializeToString())
