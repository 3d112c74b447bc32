# SPDX-License-Identifier: Apache-2.0
"""What koord installs into a cluster: its CustomResourceDefinitions and its priority classes."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def crds() -> list[dict[str, Any]]:
    """The CustomResourceDefinition documents, by file name."""
    found = [
        entry for entry in (files("koord.api") / "crds").iterdir() if entry.name.endswith(".yaml")
    ]
    found.sort(key=lambda entry: entry.name)
    return [document for entry in found for document in _documents(entry)]


def priority_classes() -> list[dict[str, Any]]:
    """The PriorityClass documents, the highest first."""
    return _documents(files("koord.api") / "manifests" / "priorityclasses.yaml")


def _documents(entry: Traversable) -> list[dict[str, Any]]:
    from koord.base.documents import parse_documents

    return parse_documents(entry.read_text("utf-8"), entry.name)
