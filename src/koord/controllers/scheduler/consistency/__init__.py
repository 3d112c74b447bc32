# SPDX-License-Identifier: Apache-2.0
"""Whether what is believed is so: `checker` runs all recounts in small steps, `recounts` has the
scheduler's own, `informer_check` compares informers with the API server. Begin with `checker`.
"""
