# SPDX-License-Identifier: Apache-2.0
"""koord-scheduler: chooses nodes for pods, see docs/scheduler.md."""
