# SPDX-License-Identifier: Apache-2.0
"""`koord support-bundle`: `allow_list` says which fields of which objects are kept,
`scrubbing` takes out what looks like a secret, `cluster_files` and `component_files` ask,
`archive` bounds and packs. Begin with `command`.
"""
