# SPDX-License-Identifier: Apache-2.0
"""What the plugin's arguments come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys
from koord.controllers.scheduler.plugins.reservation.preallocation import Options
from koord.controllers.scheduler.plugins.reservation.selectorindex import SelectorIndex

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.reservation.book import Book


def pre_allocation(args: Any) -> Options:
    """How pods are taken over."""
    config = args.pre_allocation_config
    if config is None:
        return Options()
    return Options(
        config.enable_cluster_mode,
        config.cluster_label_key or keys.IS_PRE_ALLOCATABLE,
        config.cluster_priority_annotation_key or keys.PRE_ALLOCATABLE_PRIORITY,
        config.prefer_no_pre_allocated_pods,
    )


def selector_index(args: Any, book: Book) -> SelectorIndex | None:
    """The index by labels, where one is wanted."""
    config = args.reservation_selector_index
    if config is None or not config.enabled:
        return None
    return SelectorIndex(book, config.keys, config.key_prefixes)
