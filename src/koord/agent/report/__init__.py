# SPDX-License-Identifier: Apache-2.0
"""What the agent tells the cluster: NodeMetric, NodeResourceTopology and Device as values
(`nodemetric_status`, `topology_object`, `device_object`), `publisher` writes them, `reporters`
are the loops. Begin with `reporters`.
"""
