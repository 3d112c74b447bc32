# SPDX-License-Identifier: Apache-2.0
"""Takes away what a spec left, so that the next one finds the cluster as the first one did."""

from __future__ import annotations

import time

from tests.contract.api import Api, Document, at
from tests.hostile.places import Place

GONE_SECONDS = 60.0
_MADE = "e2e-framework"
_CLUSTER_WIDE = ("scheduling.koordinator.sh/v1alpha1/reservations",)


def clear(place: Place) -> list[str]:
    """Deletes namespaces of specs and all reservations; gives what would not go in time."""
    api = place.api("leftovers")
    try:
        deadline = time.monotonic() + GONE_SECONDS
        while left := _left(api):
            for path in left:
                api.delete(path)
            if time.monotonic() > deadline:
                return left
            time.sleep(0.5)
        return []
    finally:
        api.close()


def _left(api: Api) -> list[str]:
    found = [
        at(kind, "", each["metadata"]["name"])
        for kind in _CLUSTER_WIDE
        for each in api.get(at(kind)).ok["items"]
    ]
    found += [at("namespaces", "", name) for name in _namespaces(api)]
    return found


def _namespaces(api: Api) -> list[str]:
    items: list[Document] = api.get(at("namespaces")).ok["items"]
    return [
        each["metadata"]["name"] for each in items if _MADE in each["metadata"].get("labels", {})
    ]
