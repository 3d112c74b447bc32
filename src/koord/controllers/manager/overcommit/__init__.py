# SPDX-License-Identifier: Apache-2.0
"""What nodes offer as batch and mid resources: pure functions over columns, and their ledger."""
