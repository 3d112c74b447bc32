# SPDX-License-Identifier: Apache-2.0
"""What evicting strategies share: thresholds and amounts to release, victims in their order, the
tasks of a cycle, and evictors through the API, by cgroup and for a dry run. Begin with
`eviction_cycle`, then `tasks`.
"""
