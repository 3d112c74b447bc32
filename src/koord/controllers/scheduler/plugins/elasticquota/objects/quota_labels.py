# SPDX-License-Identifier: Apache-2.0
"""Quotas with labels or annotations that count as absent."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import absent

if TYPE_CHECKING:
    from koord.api.kinds.meta import Object
    from koord.base.errors import KoordError


class IgnoredQuotaLabels:
    """What quotas say that nobody can read, by quota."""

    def __init__(self) -> None:
        self._errors: dict[str, KoordError] = {}

    def put(self, item: Object) -> bool:
        """Looks at a quota that came or changed; gives whether there is other news of it."""
        if not isinstance(item, ElasticQuota):
            return False
        found = next(chain(absent.quota(item), absent.quota_documents(item)), None)
        known = self._errors.pop(item.metadata.uid, None)
        if found is not None:
            self._errors[item.metadata.uid] = found
        return str(found) != str(known)

    def of(self, item: Object) -> KoordError | None:
        """What is wrong first with what a quota says; None if nothing is."""
        return self._errors.get(item.metadata.uid)

    def removed(self, item: Object) -> None:
        """A quota is gone."""
        self._errors.pop(item.metadata.uid, None)
