# SPDX-License-Identifier: Apache-2.0
"""What the agent tells the cluster: NodeMetric, NodeResourceTopology, Device."""
