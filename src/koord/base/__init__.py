# SPDX-License-Identifier: Apache-2.0
"""What every component needs and nobody owns: clock, errors, configuration, documents, faults,
feature gates, log, metrics, random streams, supervision. Imports nothing of koord. Begin with
`errors`.
"""
