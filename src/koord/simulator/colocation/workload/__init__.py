# SPDX-License-Identifier: Apache-2.0
"""Who wants what and when: pods of services with their demand by step, jobs that arrive, tasks that
wait, run and end.
"""
