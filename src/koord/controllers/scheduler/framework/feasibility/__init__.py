# SPDX-License-Identifier: Apache-2.0
"""Which nodes a pod may run on, and which is best: `cache` keeps what Filter and Score answer by
shape (`kept_entries`) and row (`entry`), `plugin_answers` knows which rows are asked again,
`participants` which plugins; `nominated_pods` counts who waits for victims, `best_node` picks.
Begin with `cache`.
"""
