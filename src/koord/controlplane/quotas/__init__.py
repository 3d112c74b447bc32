# SPDX-License-Identifier: Apache-2.0
"""What objects use of ResourceQuotas: the same rules for admission and for the controller.

``evaluators`` chooses by resource, ``pods`` is the evaluator of pods, ``amounts`` the
arithmetic. Begin with ``evaluators``.
"""
