# SPDX-License-Identifier: Apache-2.0
"""By how much a node falls short (`shortfall`), and what is known of a node (`debug`, the debug
endpoint). Nothing here takes part in a decision. Begin with `shortfall`.
"""
