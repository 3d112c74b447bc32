# SPDX-License-Identifier: Apache-2.0
"""What scheduler, manager and descheduler share: nodes as columns, pods and their shapes, quota
objects, views of kinds. `node_table` is the table all decisions read, `pods` what counts on it,
`views` the informers behind both. Begin with `node_table`, then `pods`.
"""
