# SPDX-License-Identifier: Apache-2.0
"""Whom a pod may take quota from (`preemption`), which pods of a group go when it uses too much
(`revocation`), and quota being freed for a pod (`nominated_quota`). Begin with `preemption`.
"""
