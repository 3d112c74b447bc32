# SPDX-License-Identifier: Apache-2.0
"""Which CPUs and zone amounts a pod gets of one node, out of which pool; nothing is changed.

`pools` are the node's free part and reservations', `reservation_pools` finds them, `allocator`
takes from them in turn. `rules` says which policies hold, `topology_hints` which sets of zones
would do. Begin with `allocator.allocate`.
"""
