# SPDX-License-Identifier: Apache-2.0
"""Completion of the command lines of all programs, for bash, zsh and fish.

`command_line` says what the word at the cursor may be, `option_values` and `cluster_names` what
values there are. Begin with `complete`.
"""
