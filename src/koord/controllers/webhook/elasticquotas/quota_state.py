# SPDX-License-Identifier: Apache-2.0
"""What one replica knows of quotas, for all handlers that work over the same views."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from koord.api.kinds.cluster import Namespace
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import quotas
from koord.controllers.cluster.quota_groups import group_of
from koord.controllers.cluster.quota_objects import AmountSums
from koord.controllers.cluster.quota_reach import NamespaceReach
from koord.controllers.cluster.quota_validation import Surroundings
from koord.controllers.webhook.elasticquotas.bound_pods import PodsByQuota
from koord.controllers.webhook.elasticquotas.minimum_claims import ClaimBook
from koord.controllers.webhook.elasticquotas.quota_topology import QuotaTopology, reaches_all
from koord.controllers.webhook.options import NAMESPACE_SCOPE

if TYPE_CHECKING:
    from koord.controllers.cluster.quota_groups import QuotaGroup
    from koord.controllers.cluster.views import InformerViews
    from koord.controllers.webhook.framework.handler import HandlerDependencies

LAG_SECONDS = 2.0
"""How long a request waits for this replica to see what another one wrote."""
_SHARED: WeakKeyDictionary[InformerViews, QuotaState] = WeakKeyDictionary()


class QuotaState:
    """Quotas, claims and pods as they are seen.

    Attributes:
        tree: the quotas.
        book: the claims on them.
        pods: the pods that use them.
    """

    def __init__(self, given: HandlerDependencies) -> None:
        by_namespace = given.options.quota_scope == NAMESPACE_SCOPE
        reach = NamespaceReach(given.views.view(Namespace)) if by_namespace else reaches_all
        self.tree = QuotaTopology(reach)
        if isinstance(reach, NamespaceReach):
            reach.changed = self.tree.reach_changed
        self.book = ClaimBook(given.clock)
        self.pods = PodsByQuota(given.views.view(Pod))
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        given.views.view(ElasticQuota).on_change(
            self._put, lambda _, item: self._put(item), lambda item, _: self._remove(item)
        )

    @classmethod
    def of(cls, given: HandlerDependencies) -> QuotaState:
        """The state over the views of a handler; made by the first that asks."""
        found = _SHARED.get(given.views)
        if found is None:
            found = _SHARED[given.views] = cls(given)
        return found

    def surroundings(self, group: QuotaGroup) -> Surroundings:
        """What is around a group as it is to be, claims of others included."""
        tree, name = self.tree, group.name
        # The root's object bounds nobody: a scheduler makes it, of nothing.
        bounded = group.parent not in (name, quotas.ROOT_QUOTA)
        parent = tree.groups.get(group.parent) if bounded else None
        others = AmountSums()
        if parent is not None:
            others.add(tree.children_min(parent.name, without=name))
            for _, more in self.book.claimed(parent.name, tree.children(parent.name), name):
                others.add(more)
        below = AmountSums()
        below.add(tree.children_min(name))
        for _, more in self.book.claimed(name, tree.children(name)):
            below.add(more)
        return Surroundings(
            parent,
            others.total(),
            lambda: sorted({*tree.children(group.parent), name}),
            tree.children(name).values(),
            below.total(),
        )

    def children(self, name: str) -> int:
        """How many children a group has, those that were just admitted included."""
        return len({*self.tree.children(name), *(each.child for each in self.book.open(name))})

    async def seen(self, name: str, version: str) -> bool:
        """Waits until a quota is seen at a version or a later one.

        Everything that was stored before that version has been seen then, since one watch brings
        all quotas in order.

        Returns:
            Whether it was seen within :data:`LAG_SECONDS`.
        """
        told = asyncio.Event()
        self._waiting[name].add(told)
        try:
            async with asyncio.timeout(LAG_SECONDS):
                while not self._is_at(name, version):
                    told.clear()
                    await told.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting[name].discard(told)
            if not self._waiting[name]:
                del self._waiting[name]
        return True

    def _is_at(self, name: str, version: str) -> bool:
        item = self.tree.item(name)
        return item is not None and at_version(item) >= number(version)

    def _put(self, item: ElasticQuota) -> None:
        self.tree.put(item)
        self.book.see(item, group_of(item))
        self._wake(item.metadata.name)

    def _remove(self, item: ElasticQuota) -> None:
        self.tree.remove(item)
        if self.tree.item(item.metadata.name) is None:
            self.book.forget(item.metadata.name)
        self._wake(item.metadata.name)

    def _wake(self, name: str) -> None:
        for event in self._waiting.get(name, ()):
            event.set()


def at_version(item: ElasticQuota) -> int:
    """The resource version of an object; versions of one kind are in order."""
    return number(item.metadata.resource_version)


def number(version: str) -> int:
    """A resource version as a number; 0 for none, and for one that is no number."""
    return int(version) if version.isdecimal() else 0
