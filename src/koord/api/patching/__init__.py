# SPDX-License-Identifier: Apache-2.0
"""What a strategic merge patch makes of a document: `shapes` are what is known of a type,
`core_types` those of Kubernetes' own from ``core.json``, which is dumped from a kube-apiserver and
never edited, `strategic_merge` the rules. Begin with `strategic_merge`.
"""
