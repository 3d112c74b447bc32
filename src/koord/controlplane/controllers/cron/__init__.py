# SPDX-License-Identifier: Apache-2.0
"""The controller of CronJobs.

``cronjobs`` decides which Jobs start and go, ``controller`` carries out and records a start in
one go. Begin with ``cronjobs``.
"""
