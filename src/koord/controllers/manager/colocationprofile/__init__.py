# SPDX-License-Identifier: Apache-2.0
"""ClusterColocationProfiles on pods that were made before their profile, and still wait."""
