# SPDX-License-Identifier: Apache-2.0
"""FragmentationAware: the pod whose going evens out what a node has left of its resources.
Begin with ``fragmentation_aware``.
"""
