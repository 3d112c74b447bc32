# SPDX-License-Identifier: Apache-2.0
"""Replays the openb GPU traces through the placement kernel (`replay`) or the whole scheduler
(`scheduler_replay`). Begin with `replay`.
"""
