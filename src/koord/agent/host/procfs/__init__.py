# SPDX-License-Identifier: Apache-2.0
"""Readers of `/proc` and of the processor: CPU time, memory, CPU model, processes of cgroups. Each
takes its root and raises KoordError with the file's name. Begin with `proc_stat`.
"""
