# SPDX-License-Identifier: Apache-2.0
"""`koord explain`: asks the component that decided and prints its answer.

`component_query` finds it by its Lease, the others turn its JSON into text (`pod_text`,
`object_text`, `node_*`). Begin with `command`.
"""
