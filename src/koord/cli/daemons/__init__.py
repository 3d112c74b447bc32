# SPDX-License-Identifier: Apache-2.0
"""koord-scheduler, koord-manager and koordlet as programs: flags or configuration in, components
out. Begin with `scheduler.main`.
"""
