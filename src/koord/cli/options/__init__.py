# SPDX-License-Identifier: Apache-2.0
"""Readers of options: `go_flags` makes a Go program's command line of a dataclass, `values` reads
numbers, durations and lists.
"""
