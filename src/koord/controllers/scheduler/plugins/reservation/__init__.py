# SPDX-License-Identifier: Apache-2.0
"""Resources of a node held for pods that come later.

`objects` reads Reservations and pods, `state` keeps who sits where, `evaluation` filters, scores
and nominates, `writers` write statuses, `explain` tells; `matched_reservation` is what other
plugins use. Begin with `plugin`, then `state.reservation_info`. Rules:
docs/reference/reservations.md.
"""
