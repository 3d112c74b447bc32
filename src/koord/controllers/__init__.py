# SPDX-License-Identifier: Apache-2.0
"""What runs once per cluster: scheduler, manager, descheduler, webhook."""
