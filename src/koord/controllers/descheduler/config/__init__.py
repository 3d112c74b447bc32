# SPDX-License-Identifier: Apache-2.0
"""Both configuration files: ``configuration_file`` and ``policy_file`` are the files as written,
``profiles`` resolves which plugins run, ``load`` reads either. Begin with ``load``.
"""
