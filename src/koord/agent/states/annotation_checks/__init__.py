# SPDX-License-Identifier: Apache-2.0
"""Which annotations of pods the agent obeys.

Rule: docs/reference/hooks.md#annotations-that-are-obeyed.
"""
