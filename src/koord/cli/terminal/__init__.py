# SPDX-License-Identifier: Apache-2.0
"""What is printed: `output` (text, table or JSON), `table_layout` and `text_wrap` (what fits a
terminal). Begin with `output`.
"""
