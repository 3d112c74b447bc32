# SPDX-License-Identifier: Apache-2.0
"""ClusterColocationProfiles: which objects one is for (`selection`, `profile_index`), and what it
makes of labels and annotations (`effect`). Admission and the manager's controller both go by it.
Begin with `effect`.
"""
