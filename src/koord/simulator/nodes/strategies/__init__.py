# SPDX-License-Identifier: Apache-2.0
"""The agent's strategies for all machines at once: rows of nodes, pods and NodeSLOs in, the agent's
own decisions over columns, writes out. Begin with `enforcement`; `eviction_targets` has a
function a feature gate.
"""
