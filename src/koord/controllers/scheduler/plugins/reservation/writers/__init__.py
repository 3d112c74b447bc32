# SPDX-License-Identifier: Apache-2.0
"""What is written: `reservation_controller` ends and clears Reservations, `reservation_writer`
statuses and pod annotations, `surrogates` what the loop says of reserve pods. Begin with
`reservation_controller`.
"""
