# SPDX-License-Identifier: Apache-2.0
"""The leader's loops: PodGroup status, the network tree's status, pods told what their gang waits
for. Begin with `pod_group_controller`.
"""
