# SPDX-License-Identifier: Apache-2.0
"""EvictPodsOnReservedResources: pods on what a node's reservation has taken back since.
``reserved_victims`` is which pods these are, ``reservation_changes`` how long they have been told.
Begin with ``evict_pods_on_reserved_resources``.
"""
