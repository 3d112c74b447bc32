# SPDX-License-Identifier: Apache-2.0
"""By how much a node has too few devices (`shortfall`), and its cards as JSON (`debug`).

Nothing here takes part in a decision. Begin with `shortfall`.
"""
