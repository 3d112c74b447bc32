# SPDX-License-Identifier: Apache-2.0
"""StarvedPods: best-effort pods that a busy node holds down are moved to one that has CPU left.
``satisfaction`` is what a report of a node says of them, ``report_history`` for how long it has
said so, ``cooldown`` who was moved, ``offers`` what other nodes can take. Begin with
``starved_pods``.
"""
