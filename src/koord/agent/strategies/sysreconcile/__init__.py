# SPDX-License-Identifier: Apache-2.0
"""Kernel settings of the whole node."""
