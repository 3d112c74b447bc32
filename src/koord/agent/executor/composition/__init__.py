# SPDX-License-Identifier: Apache-2.0
"""From claims to values: `claim_index` knows who claims what, `value_resolver` composes the layers
and keeps within what the kernel demands, `claim_queries` answers owners. Pure but for the files
that it is handed. Begin with `value_resolver`.
"""
