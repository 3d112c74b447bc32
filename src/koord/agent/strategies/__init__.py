# SPDX-License-Identifier: Apache-2.0
"""Control loops: pure decisions over columns, and the thin actors around them."""
