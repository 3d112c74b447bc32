# SPDX-License-Identifier: Apache-2.0
"""The plugins of kubernetes-sigs/descheduler, a module each with its arguments. What arguments
share is in ``strategy_args``. Begin with ``pod_life_time``.
"""
