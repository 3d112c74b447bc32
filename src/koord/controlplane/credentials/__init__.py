# SPDX-License-Identifier: Apache-2.0
"""Certificates and the token of one server, and the kubeconfig files that carry them.

``pki`` makes the authority, the certificate and the token, ``kubeconfig`` writes the server's
own file, ``user_kubeconfig`` adds an entry to the user's and takes it out again. Begin with
``pki``.
"""
