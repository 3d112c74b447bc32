# SPDX-License-Identifier: Apache-2.0
"""SECURITY.md says of each set of rights that is deployed what it comes to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.deploy.chart_files import ROOT

MANIFESTS = sorted((ROOT / "deploy" / "rbac").glob("*.yaml"))
# Rights by which more is done than their names say, and the word of the page for each.
FAR_REACHING = {
    ("pods/eviction", "create"): "evict",
    ("pods/binding", "create"): "bind",
    ("nodes/proxy", "get"): "nodes/proxy",
    ("pods", "delete"): "delete",
    ("pods", "patch"): "patch",
    ("nodes", "patch"): "patch",
    ("deployments", "patch"): "patch",
    ("reservations", "delete"): "Reservations",
    ("secrets", "get"): "Secret",
}


def rows(name: str) -> list[str]:
    """Lines of the page's tables about a manifest: its own row, or its component's first one."""
    lines = (ROOT / "SECURITY.md").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("|") and _is_of(line.split("|")[1], name)]


def _is_of(cell: str, name: str) -> bool:
    component = cell.strip().partition(",")[0]
    return f"`{name}.yaml`" in cell or component == name


def rights(document: dict[str, object]) -> Iterator[tuple[str, str]]:
    for rule in document.get("rules") or ():  # type: ignore[attr-defined]
        for resource in rule.get("resources", ()):
            yield from ((resource, verb) for verb in rule["verbs"])


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_page_names_each_manifest_and_what_reaches_far(path: object) -> None:
    text, name = path.read_text(encoding="utf-8"), path.stem  # type: ignore[attr-defined]
    told = " ".join(rows(name))
    assert told, f"SECURITY.md has no row for {name}.yaml"
    for document in yaml.safe_load_all(text):
        for right in rights(document or {}):
            if right in FAR_REACHING:
                assert FAR_REACHING[right] in told, (name, right)
