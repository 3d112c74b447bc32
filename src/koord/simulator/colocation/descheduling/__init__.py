# SPDX-License-Identifier: Apache-2.0
"""A descheduler beside the day: services as Deployments on an API server in virtual time
(`service_api`), who serves which load (`service_replicas`), rounds (`rounds`), hot minutes
(`load_account`), and a day without, one by one or planned (`comparison`). Begin with
`movable_services`.
"""
