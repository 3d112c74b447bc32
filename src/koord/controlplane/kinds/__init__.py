# SPDX-License-Identifier: Apache-2.0
"""How objects of the core kinds behave: defaults, rules, field selectors, table rows."""
