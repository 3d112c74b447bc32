# SPDX-License-Identifier: Apache-2.0
"""Help of all programs in one style, whatever reads their command lines: `page` is the value,
`typer_help` makes it of typer's commands.
"""
