# SPDX-License-Identifier: Apache-2.0
"""CustomPriority: pods from expensive nodes to cheaper ones.
``custom_priority_args`` are the levels and modes, ``drain_plan`` is whether a whole node can be
emptied. Begin with ``custom_priority``.
"""
