# SPDX-License-Identifier: Apache-2.0
"""Types of the hook service's messages, of ``hooks.proto``, and its methods.

Rule: docs/reference/delivery.md#hook-service.
"""

from __future__ import annotations

from typing import Any

from koord.delivery.proto import load

HOOKS: Any = load(__package__, "hooks.proto")
"""Classes of the messages, e.g. ``HOOKS.PodSandboxHookRequest``."""

SERVICE = "runtime.v1alpha1.RuntimeHookService"
"""Its name in a call's path: ``/SERVICE/METHOD``."""

POD_STAGES = ("PreRunPodSandbox", "PostStopPodSandbox")
"""Stages whose calls carry a ``PodSandboxHookRequest``."""

CONTAINER_STAGES = (
    "PreCreateContainer",
    "PreStartContainer",
    "PostStartContainer",
    "PostStopContainer",
    "PreUpdateContainerResources",
)
"""Stages whose calls carry a ``ContainerResourceHookRequest``."""


def method_of(stage: str) -> str:
    """A stage's path: ``PreRunPodSandbox`` is asked by the method ``PreRunPodSandboxHook``."""
    return f"/{SERVICE}/{stage}Hook"
