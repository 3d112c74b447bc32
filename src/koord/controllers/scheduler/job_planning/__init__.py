# SPDX-License-Identifier: Apache-2.0
"""Gangs planned whole: `planner` collects a job's pods, `attempt` tries them once and keeps or
gives back, `plan` has the types. Who belongs to which job is said by a plugin (Coscheduling)
through the protocol in `planner`. Begin with `plan`.
"""
