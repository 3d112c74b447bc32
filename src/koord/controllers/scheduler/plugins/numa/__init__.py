# SPDX-License-Identifier: Apache-2.0
"""NodeNUMAResource: which CPUs and which NUMA zones of a node a pod gets.

``machine`` says what a node is made of, ``state`` what pods hold of it, ``request`` what a pod
wants; ``allocate`` and ``decide`` bring them together as functions of plain values, and ``plugin``
is the thin shell that feeds them.
"""
