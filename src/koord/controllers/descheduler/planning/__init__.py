# SPDX-License-Identifier: Apache-2.0
"""A round worked out as a whole before anything is evicted: ``planner`` makes a ``plan`` of what
strategies want, by the scheduler's own filters and scores (``landing``). Begin with ``planner``.
"""
