# SPDX-License-Identifier: Apache-2.0
"""One module a concern; which there are, and in which order they run, is in
:mod:`koord.agent.metrics.registry`. Begin with `node`, the simplest, then `pods`, which reads
cgroups as tables.
"""
