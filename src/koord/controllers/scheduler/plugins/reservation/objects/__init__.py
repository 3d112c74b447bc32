# SPDX-License-Identifier: Apache-2.0
"""What a Reservation and a pod say: owners, affinity, the life of a Reservation (`lifecycle`), its
reserve pod. Pure functions over objects; nothing is kept here. Begin with `lifecycle`.
"""
