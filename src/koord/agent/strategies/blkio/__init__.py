# SPDX-License-Identifier: Apache-2.0
"""Limits and weights of block I/O."""
