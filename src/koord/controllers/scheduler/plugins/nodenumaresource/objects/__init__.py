# SPDX-License-Identifier: Apache-2.0
"""What the plugin reads: a pod's request, a node's topology, the annotations that record an
allocation. All are frozen values made by pure functions. Begin with `pod_request.NUMARequest`
and `node_topology.NodeTopology`.
"""
