# SPDX-License-Identifier: Apache-2.0
"""Replays the openb GPU traces through the placement kernels.

The experiment is that of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023): pods are
resampled until their GPU requests reach a load, placed one by one, and never leave.
"""
