# SPDX-License-Identifier: Apache-2.0
"""Labels, annotations, QoS classes, priority bands and resource names, with their reading rules.

Begin with `qos` and `priority`; `keys` has every key.
"""
