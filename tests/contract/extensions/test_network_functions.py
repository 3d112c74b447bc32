# SPDX-License-Identifier: Apache-2.0
"""IP addresses and networks in expressions: one property an expression, true or false."""

from __future__ import annotations

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.conftest import Server
from tests.contract.documents import custom_definition, document
from tests.contract.extensions.test_crds import establish, fresh_group

EXPRESSIONS = [
    ("isIP('10.0.0.1')", True), ("isIP('2001:db8::1')", True), ("isIP('10.0.0')", False),
    ("isIP('010.0.0.1')", False), ("isIP('fe80::1%eth0')", False),
    ("isIP('::ffff:1.2.3.4')", False), ("isIP('10.0.0.1/8')", False),
    ("ip('10.0.0.1').family() == 4", True), ("ip('::1').family() == 6", True),
    ("ip.isCanonical('2001:db8::1')", True), ("ip.isCanonical('2001:DB8:0::1')", False),
    ("ip('::1') == ip('0:0:0:0:0:0:0:1')", True), ("ip('0.0.0.0').isUnspecified()", True),
    ("ip('127.9.9.9').isLoopback()", True), ("ip('10.0.0.1').isLoopback()", False),
    ("ip('224.0.0.7').isLinkLocalMulticast()", True),
    ("ip('224.0.1.7').isLinkLocalMulticast()", False),
    ("ip('ff02::1').isLinkLocalMulticast()", True),
    ("ip('169.254.3.3').isLinkLocalUnicast()", True),
    ("ip('fe80::1').isLinkLocalUnicast()", True), ("ip('192.168.0.1').isGlobalUnicast()", True),
    ("ip('255.255.255.255').isGlobalUnicast()", False), ("ip('ff02::1').isGlobalUnicast()", False),
    ("isCIDR('10.0.0.0/8')", True), ("isCIDR('10.0.0.0')", False),
    ("isCIDR('10.0.0.0/33')", False), ("isCIDR('10.0.0.0/08')", False),
    ("isCIDR('2001:db8::/32')", True), ("isCIDR('::ffff:1.2.3.4/120')", False),
    ("cidr('10.0.0.0/8').containsIP('10.9.9.9')", True),
    ("cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))", False),
    ("cidr('10.0.0.0/8').containsIP('::1')", False),
    ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True),
    ("cidr('10.0.0.0/8').containsCIDR(cidr('0.0.0.0/0'))", False),
    ("cidr('10.0.0.7/8').ip() == ip('10.0.0.7')", True),
    ("cidr('10.0.0.7/8').masked() == cidr('10.0.0.0/8')", True),
    ("cidr('10.0.0.7/8') == cidr('10.0.0.0/8')", False),
    ("cidr('10.0.0.0/8').prefixLength() == 8", True),
]  # fmt: skip


@pytest.fixture(scope="module")
def widgets(server: Server) -> str:
    """A resource whose properties must be what their expressions say."""
    properties: Document = {
        f"e{number}": {
            "type": "boolean",
            "x-kubernetes-validations": [{"rule": f"self == ({text})", "message": "otherwise"}],
        }
        for number, (text, _) in enumerate(EXPRESSIONS)
    }
    spec = {"type": "object", "properties": properties}
    body = custom_definition(fresh_group(), "widgets", "Widget", {"spec": spec})
    return establish(server.api, body)


def wrong(api: Api, plural: str, namespace: str, **spec: bool) -> list[str]:
    """The expressions that are not what is said."""
    body = document(plural.rpartition("/")[0], "Widget", "a", spec=spec)
    answer = api.post(at(plural, namespace), body, dryRun="All")
    if answer.code == 201:
        return []
    fields = [field for field, _, _ in answer.causes]
    return sorted(EXPRESSIONS[int(each.removeprefix("spec.e"))][0] for each in fields)


def test_expressions_are_true_or_false_as_on_a_real_server(
    api: Api, namespace: str, widgets: str
) -> None:
    answers = {f"e{number}": value for number, (_, value) in enumerate(EXPRESSIONS)}
    assert wrong(api, widgets, namespace, **answers) == []
    others = {name: not value for name, value in answers.items()}
    assert wrong(api, widgets, namespace, **others) == sorted(text for text, _ in EXPRESSIONS)
