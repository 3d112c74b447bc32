# SPDX-License-Identifier: Apache-2.0
"""What admission refuses of pods, and what it only warns of: `pod_rules` has the order of the
rules, `binding` who may bind. Begin with `pod_rules`.
"""
