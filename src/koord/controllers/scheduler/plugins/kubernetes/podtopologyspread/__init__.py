# SPDX-License-Identifier: Apache-2.0
"""PodTopologySpread: matching pods spread evenly over the domains of a node label.

`constraints` reads them, `filtering` holds DoNotSchedule, `scoring` ScheduleAnyway,
`default_selector` the default ones. Begin with `constraints.SpreadConstraint`, then
`filtering.HardConstraints`.
"""
