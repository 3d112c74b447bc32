# SPDX-License-Identifier: Apache-2.0
"""What a call consists of, and what becomes of it until an answer counts.

``options`` (of get, list, watch, write), ``paths`` and ``subresources`` make requests;
``pipeline`` sends them under the rules of ``retry``; ``watch`` reads the batches of a watch;
``discovery`` asks what is served. Begin with ``pipeline``.
"""
