# SPDX-License-Identifier: Apache-2.0
"""ClusterColocationProfiles in admission, for Pods and Reservations alike: what one makes of a
document (`application`, a function of plain values), the profiles there are (`known_profiles`),
and the priority classes that they name (`priority_classes`). Begin with `application`.
"""
