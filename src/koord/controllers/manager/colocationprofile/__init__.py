# SPDX-License-Identifier: Apache-2.0
"""ClusterColocationProfiles on pods that were created before their profile and still wait: the
rounds. What becomes of a pod: :mod:`koord.controllers.cluster.colocation_profiles`.
"""
