# SPDX-License-Identifier: Apache-2.0
"""Reviews in, answers out: ``review_codec`` reads and writes AdmissionReviews, ``json_patch`` finds
what a handler changed, ``review_service`` answers a body, ``https_server`` speaks HTTP and TLS.
Begin with ``review_service``.
"""
