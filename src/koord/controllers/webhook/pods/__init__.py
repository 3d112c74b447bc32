# SPDX-License-Identifier: Apache-2.0
"""Pods: what is changed of new ones (`mutation`), what is refused (`validation`). Begin with
`handlers`.
"""
