# SPDX-License-Identifier: Apache-2.0
"""Pods: defaults, validation of new and changed ones, subresources, the row of ``kubectl get``.

``strategy`` puts the others together; ``spec_validation`` calls ``containers``, ``probes``,
``volumes`` and ``security_context``; ``resize`` is a subresource.
Begin with ``strategy``.
"""
