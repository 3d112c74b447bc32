# SPDX-License-Identifier: Apache-2.0
"""The node-resource controller: keeps the ledger true and writes what is due on nodes."""
