# SPDX-License-Identifier: Apache-2.0
"""ElasticQuota manifests of both API groups."""

from __future__ import annotations

from koord.api import load_manifests
from koord.base.errors import KoordError
from koord.controllers.cluster.quotas import QuotaObject, quota_object


def read_manifests(source: str, text: str) -> list[QuotaObject]:
    """All quotas of a text of YAML documents or one JSON document; lists are unfolded.

    Raises:
        KoordError: the text or an object in it is wrong; the line names source, object and field.
    """
    found = []
    for item in load_manifests(text, source):
        item.metadata.namespace = item.metadata.namespace or "default"
        try:
            found.append(quota_object(item, f"{source}: {item.title}"))
        except KoordError as error:
            raise error.within(source) from None
    return found
