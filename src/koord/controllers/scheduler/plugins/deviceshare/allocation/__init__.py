# SPDX-License-Identifier: Apache-2.0
"""Which cards of one node a pod gets, type by type or jointly (`joint`), from which pool (`pools`).

A function of the cache that changes nothing. `reservation_pools` tries reservations in their order,
`topology_hints` sets of NUMA nodes. Begin with `allocator.DeviceAllocator`.
"""
