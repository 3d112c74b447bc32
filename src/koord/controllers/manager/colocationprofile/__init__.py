# SPDX-License-Identifier: Apache-2.0
"""ClusterColocationProfiles on pods that were created before their profile and still wait: the
rounds (`controller`), and what becomes of a pod (`pod_mutation`, a function of plain values).
Begin with `pod_mutation`.
"""
