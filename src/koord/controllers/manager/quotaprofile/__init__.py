# SPDX-License-Identifier: Apache-2.0
"""The controller ``quotaprofile`` (`controller`), and what the root of a quota tree is, given its
profile and the nodes (`quota_root`, a function of plain values). Begin with `quota_root`.
"""
