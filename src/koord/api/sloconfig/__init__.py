# SPDX-License-Identifier: Apache-2.0
"""The ConfigMap slo-controller-config: its sections, defaults, rules, merging and selection."""
