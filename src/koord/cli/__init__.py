# SPDX-License-Identifier: Apache-2.0
"""The `koord` command and the daemons' entry points: thin; a verb parses words, calls one function,
prints its answer. Begin with `entry` (console scripts), then `main`, then the verb's
`commands/VERB`.
"""
