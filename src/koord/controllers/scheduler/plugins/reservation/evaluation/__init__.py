# SPDX-License-Identifier: Apache-2.0
"""Filter, Score and nomination: `nominator` which of several reservations a pod gets, `columnar`
all rows at once, `reserve_pod_placement` and `pre_allocation` where a Reservation itself may go,
`cycle_state` what one attempt keeps. Begin with `nominator`.
"""
