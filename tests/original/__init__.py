# SPDX-License-Identifier: Apache-2.0
"""The original's own end-to-end specs and benchmark, run against koord (docs/test-original.md).

``source`` builds its programs, ``machines`` simulates nodes on a real API server, ``clusters``
starts what is tested, ``specs`` runs one spec, ``leftovers`` takes away what it left, ``table``
tells the results.
"""
