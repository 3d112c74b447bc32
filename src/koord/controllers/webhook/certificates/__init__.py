# SPDX-License-Identifier: Apache-2.0
"""The authority and the certificate of admission, where they are kept, and the two webhook
configurations that trust them. ``renewal`` decides, ``certificate_keeper`` does. Begin with these.
"""
