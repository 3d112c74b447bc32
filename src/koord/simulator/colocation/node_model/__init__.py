# SPDX-License-Identifier: Apache-2.0
"""A busy machine as columns: who gets which CPU, what the agents' suppression and evictions do.

Begin with `cpu_contention`.
"""
