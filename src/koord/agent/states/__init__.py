# SPDX-License-Identifier: Apache-2.0
"""What the agent knows of the cluster: pods, node, NodeSLO; each with its age."""
