# SPDX-License-Identifier: Apache-2.0
"""What holds for the manifest of every component, given a scene of it; see the package's head."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.real.plane import RealControlPlane
from tests.real.rbac.account import Account
from tests.real.rbac.grants import Grant, granted
from tests.real.rbac.recording import Recorder


def documents(*manifests: Path) -> list[dict[str, Any]]:
    """The objects of manifests."""
    texts = [manifest.read_text(encoding="utf-8") for manifest in manifests]
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def check_parts(found: list[dict[str, Any]], account: str) -> None:
    """The parts that a component needs, for its own service account, and no grant twice."""
    assert [each["kind"] for each in found] == [
        "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
    ]  # fmt: skip
    grants = granted(found)
    assert len(grants) == len(set(grants)), "no grant is written twice"
    for each in found:
        for subject in each.get("subjects", []):
            assert (subject["name"], subject["namespace"]) == (account, "koordinator-system")


def check_nothing_was_refused(grants: list[Grant], scene: Recorder) -> None:
    """Every verb that was used is granted."""
    assert not scene.forbidden
    lacking = [str(u) for u in scene.used if not any(each.covers(u) for each in grants)]
    assert not lacking


def check_is_needed(
    grant: Grant, manifests: Sequence[Path], plane: RealControlPlane, scene: Recorder
) -> None:
    """The scene has a request that needs it, and without it the server refuses that request."""
    needs = [request for used, request in scene.used.items() if grant.covers(used)]
    assert needs, f"nobody needs to {grant}"

    async def run() -> bool:
        account = Account(plane, *manifests)
        await account.apply()
        transport = account.transport()
        try:
            return await account.refused_without(grant, needs[0], transport)
        finally:
            await transport.close()
            await account.close()

    assert asyncio.run(run())
