# SPDX-License-Identifier: Apache-2.0
"""Histories of gangs."""
