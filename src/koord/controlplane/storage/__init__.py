# SPDX-License-Identifier: Apache-2.0
"""Objects as JSON bytes under one version counter, with a bounded log of changes for each resource.

``store`` keeps both, ``watch`` is a cursor into the log, ``journal`` the SQLite file,
``conversion`` the way between what is stored and the version asked for. Begin with ``store``.
"""
