# SPDX-License-Identifier: Apache-2.0
"""Which nodes a pod may run on, and which is best: `cache` keeps what Filter and Score answer by
shape (`kept_entries`) and row (`entry`), `participants` knows which plugins a shape concerns,
`fit_kernels` those of them that answer natively, `plugin_answers` which rows the others are asked
about again; `nominated_pods` counts who waits for victims, `best_node` picks. Begin with `cache`.
"""
