# SPDX-License-Identifier: Apache-2.0
"""PodTopologySpread: pods that match spread evenly over the domains of a node label."""
