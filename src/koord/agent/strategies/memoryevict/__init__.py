# SPDX-License-Identifier: Apache-2.0
"""Evicts pods for want of memory."""
