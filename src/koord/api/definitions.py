# SPDX-License-Identifier: Apache-2.0
"""The CustomResourceDefinitions that koord installs, as package data."""

from __future__ import annotations

from importlib.resources import files
from typing import Any


def crds() -> list[dict[str, Any]]:
    """The CustomResourceDefinition documents, by file name."""
    from koord.base.documents import parse_documents

    found = [
        entry for entry in (files("koord.api") / "crds").iterdir() if entry.name.endswith(".yaml")
    ]
    found.sort(key=lambda entry: entry.name)
    return [parse_documents(entry.read_text("utf-8"), entry.name)[0] for entry in found]
