# SPDX-License-Identifier: Apache-2.0
"""ClusterColocationProfiles in admission, for Pods and Reservations alike: what some make of a
document (`application`, a function of plain values), and which those are (`profile_choice`). Begin
with `application`.
"""
