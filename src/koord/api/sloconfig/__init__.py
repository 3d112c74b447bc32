# SPDX-License-Identifier: Apache-2.0
"""The sections of slo-controller-config: layout, defaults, rules, merge, what holds for one node.

Begin with `sections`, then `config`.
"""
