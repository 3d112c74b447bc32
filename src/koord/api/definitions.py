# SPDX-License-Identifier: Apache-2.0
"""What koord installs into a cluster: its CustomResourceDefinitions and its priority classes."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

GUIDE_CRD = "elasticquotas.quota.koordinator.sh"
"""The name of the one definition that Koordinator does not have."""


def crds(*, guide: bool = True) -> list[dict[str, Any]]:
    """The CustomResourceDefinition documents, by file name.

    Args:
        guide: whether the guide's ElasticQuota is among them. Beside Koordinator's it takes over
            the bare name ``elasticquota``, so a cluster gets it where somebody asks for it.
    """
    names = sorted(
        entry.name
        for entry in (files("koord.api") / "crds").iterdir()
        if entry.name.endswith(".yaml")
    )
    documents = [document for name in names for document in _documents("crds", name)]
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
    return _documents("manifests", "priorityclasses.yaml")


def roles(component: str) -> list[dict[str, Any]]:
    """The namespace, service account, roles and bindings of a component, as they are deployed.

    Args:
        component: e.g. ``koord-scheduler``; a file of ``deploy/rbac``.
    """
    return _documents("manifests", f"rbac/{component}.yaml")


def _documents(folder: str, name: str) -> list[dict[str, Any]]:
    # Whoever asks may change what it gets.
    documents: list[dict[str, Any]] = msgspec.json.decode(_parsed(folder, name))
    return documents


@cache
def _parsed(folder: str, name: str) -> bytes:
    """Package data as JSON, which is read a hundred times faster than YAML."""
    from koord.base.documents import parse_documents

    entry = files("koord.api") / folder / name
    return msgspec.json.encode(parse_documents(entry.read_text("utf-8"), name))
