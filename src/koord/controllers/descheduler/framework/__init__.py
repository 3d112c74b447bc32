# SPDX-License-Identifier: Apache-2.0
"""The descheduler's framework: ``plugin`` has the extension points, ``handle`` is what plugins get,
``profile`` runs the plugins of one profile, ``round`` one round of all. Begin with ``plugin``.
"""
