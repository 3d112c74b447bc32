# SPDX-License-Identifier: Apache-2.0
"""NodeNUMAResource: which CPUs and which NUMA zones of a node a pod gets.

Data flows objects -> state -> allocation -> evaluation; `plugin` only feeds them, `explain` says
why. Begin with `objects.pod_request`, then `allocation.allocator`.
"""
