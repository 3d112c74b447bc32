# SPDX-License-Identifier: Apache-2.0
"""What koord installs into a cluster: its CustomResourceDefinitions and its priority classes."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


GUIDE_CRD = "elasticquotas.quota.koordinator.sh"
"""The name of the one definition that Koordinator does not have."""


def crds(*, guide: bool = True) -> list[dict[str, Any]]:
    """The CustomResourceDefinition documents, by file name.

    Args:
        guide: whether the guide's ElasticQuota is among them. Beside Koordinator's it takes over
            the bare name ``elasticquota``, so a cluster gets it where somebody asks for it.
    """
    found = [
        entry for entry in (files("koord.api") / "crds").iterdir() if entry.name.endswith(".yaml")
    ]
    found.sort(key=lambda entry: entry.name)
    documents = [document for entry in found for document in _documents(entry)]
    return [each for each in documents if guide or each["metadata"]["name"] != GUIDE_CRD]


def crd_names() -> list[str]:
    """The names of all definitions, sorted, such as ``devices.scheduling.koordinator.sh``."""
    stems = (
        entry.name.removesuffix(".yaml")
        for entry in (files("koord.api") / "crds").iterdir()
        if entry.name.endswith(".yaml")
    )
    return sorted(
        f"{plural}.{group}" for group, _, plural in (each.partition("_") for each in stems)
    )


def priority_classes() -> list[dict[str, Any]]:
    """The PriorityClass documents, the highest first."""
    return _documents(files("koord.api") / "manifests" / "priorityclasses.yaml")


def _documents(entry: Traversable) -> list[dict[str, Any]]:
    # Whoever asks may change what it gets.
    documents: list[dict[str, Any]] = msgspec.json.decode(_parsed(entry))
    return documents


@cache
def _parsed(entry: Traversable) -> bytes:
    """Package data as JSON, which is read a hundred times faster than YAML."""
    from koord.base.documents import parse_documents

    return msgspec.json.encode(parse_documents(entry.read_text("utf-8"), entry.name))
