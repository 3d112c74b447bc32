# SPDX-License-Identifier: Apache-2.0
"""InterPodAffinity: pods that want to be near other pods, or far from them.

`affinity_terms` reads a pod's terms, `existing_terms` those of pods on nodes, `term_counts`
counts both by topology domain. Begin with `term_counts.TermCounts`, which Filter and Score read.
"""
