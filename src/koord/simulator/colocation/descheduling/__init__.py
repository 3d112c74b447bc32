# SPDX-License-Identifier: Apache-2.0
"""A descheduler beside the day: services as Deployments on an API server in virtual time (`api`),
who serves which load (`slots`), rounds (`rounds`), what it costs and gains (`account`), and the
same day without, one by one and planned (`comparison`). Begin with `day_part`.
"""
