# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import pickle
import subprocess
import sys
from array import array
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels.quantity import Format, Quantity, Rounding, Unit, parse_column
from tests.models import quantity as model

SUFFIXES = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
EXPONENTS = ["e3", "E3", "e-3", "e+12", "E-12", "e0", "e1", "e38", "e-40", "e100"]
texts = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "", "-", "+"]),
    st.one_of(st.integers(0, 5000), st.integers(0, 10**20)),
    st.sampled_from(["", ".", ".5", ".25", ".001", ".000000001", ".1234567891234567"]),
    st.sampled_from(SUFFIXES + EXPONENTS),
)

# From the documentation and the table tests of Kubernetes' resource package.
KUBERNETES = [
    ("0", "0", Format.DECIMAL_SI),
    ("0Ki", "0", Format.BINARY_SI),
    ("1.5", "1500m", Format.DECIMAL_SI),
    ("0.5", "500m", Format.DECIMAL_SI),
    ("1.5Gi", "1536Mi", Format.BINARY_SI),
    ("1e3", "1e3", Format.DECIMAL_EXPONENT),
    ("1E-3", "1e-3", Format.DECIMAL_EXPONENT),
    ("1.3E+6", "1300e3", Format.DECIMAL_EXPONENT),
    ("12e21", "12e21", Format.DECIMAL_EXPONENT),
    ("100.035k", "100035", Format.DECIMAL_SI),
    ("0.0005k", "500m", Format.DECIMAL_SI),
    ("1.01E", "1010P", Format.DECIMAL_SI),
    ("12E", "12E", Format.DECIMAL_SI),
    ("100.035Ki", "102435840m", Format.BINARY_SI),
    ("0.5Mi", "512Ki", Format.BINARY_SI),
    ("0.05Gi", "53687091200m", Format.BINARY_SI),
    ("3.001n", "4n", Format.DECIMAL_SI),
    ("1.1E-9", "2e-9", Format.DECIMAL_EXPONENT),
    ("0.00000012345", "124n", Format.DECIMAL_SI),
    ("9Ei", "9223372036854775807", Format.BINARY_SI),
    ("9223372036854775807Ki", "9223372036854775807", Format.BINARY_SI),
    ("0.000000000001Ki", "2n", Format.DECIMAL_SI),
    (".001", "1m", Format.DECIMAL_SI),
    ("1.", "1", Format.DECIMAL_SI),
    ("1.G", "1G", Format.DECIMAL_SI),
]
NOT_QUANTITIES = [
    "", "+", "-", ".", "m", "Gi", "1.1.M", "1+1.0M", "0.1mi", "0.1am", "aoeu", ".5i", "1i",
    "-3.01i", "-3.01e-", " 1", "1 ", "1e", "0x10", "1K", "1gi", "1e2000", "nan", "inf", "1_000",
    "\u0663",
]  # fmt: skip


@pytest.mark.parametrize(("text", "canonical", "form"), KUBERNETES)
def test_kubernetes_own_examples(text: str, canonical: str, form: Format) -> None:
    for sign in ("", "-"):
        quantity = Quantity.parse(sign + text)
        assert str(quantity) == (sign + canonical if canonical != "0" else "0")
        assert quantity.format is form


@pytest.mark.parametrize("text", NOT_QUANTITIES)
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match=r"^quantity: got '.*', expected [^\n]*$") as caught:
        Quantity.parse(text)
    assert caught.value.koord_field == "quantity"


@given(texts)
def test_parse_and_print_agree_with_the_model(text: str) -> None:
    value, form = model.parse(text)
    quantity = Quantity.parse(text)
    assert (str(quantity), quantity.format) == (model.canonical(value, form), form)


@given(texts)
def test_the_canonical_text_reads_back_as_itself(text: str) -> None:
    quantity = Quantity.parse(text)
    again = Quantity.parse(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)
    # A text without a suffix of its format reads back as the decimal number that it is.
    mark = {Format.BINARY_SI: "i", Format.DECIMAL_EXPONENT: "e"}.get(quantity.format, "")
    assert again.format is (quantity.format if mark in str(quantity) else Format.DECIMAL_SI)


@given(texts, st.sampled_from(Unit), st.sampled_from(Rounding))
def test_counts_agree_with_the_model(text: str, unit: Unit, rounding: Rounding) -> None:
    value, _ = model.parse(text)
    quantity = Quantity.parse(text)
    read = quantity.milli if unit is Unit.MILLI else quantity.value
    column = array("q", [0])
    try:
        want = model.count(value, Fraction(10) ** unit, rounding.name)
    except ValueError:
        with pytest.raises(ValueError, match="expected"):
            read(rounding)
        with pytest.raises(ValueError, match="row 0"):
            parse_column([text], column, unit=unit, rounding=rounding)
        return
    assert read(rounding) == want
    parse_column([text], column, unit=unit, rounding=rounding)
    assert column[0] == want


@given(texts, texts)
def test_order_sum_and_hash_agree_with_the_model(a: str, b: str) -> None:
    left, right = Quantity.parse(a), Quantity.parse(b)
    (x, x_form), (y, y_form) = model.parse(a), model.parse(b)
    assert (left < right, left <= right, left == right) == (x < y, x <= y, x == y)
    assert (left > right, left >= right, left != right) == (x > y, x >= y, x != y)
    assert left != right or hash(left) == hash(right)
    form = y_form if x == 0 else x_form
    for total, want in ((lambda: left + right, x + y), (lambda: left - right, x - y)):
        try:
            got = total()
        except ValueError:
            digits = (want * 10**9).numerator
            assert len(str(abs(digits)).rstrip("0")) > 38
        else:
            assert str(got) == model.canonical(want, form)
            assert got.format == form


@given(st.text(max_size=12) | st.text("0123456789.+-eEinumkKMGTP", max_size=12))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    try:
        want, form = model.parse(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"^quantity: [^\n]*$|surrogates"):
            Quantity.parse(text)
        return
    if abs(want) < 10**38:
        assert str(Quantity.parse(text)) == model.canonical(want, form)


def test_rounding_is_named() -> None:
    odd = Quantity.parse("-1500u")
    assert [odd.milli(rule) for rule in (Rounding.UP, Rounding.DOWN)] == [-2, -1]
    with pytest.raises(ValueError, match="got '-1500u', expected a whole number of thousandths"):
        odd.milli(Rounding.EXACT)


def test_json_values_read_as_kubernetes_reads_them() -> None:
    assert str(Quantity.from_wire(" 1Gi\n")) == "1Gi"
    assert str(Quantity.from_wire(None)) == "0"
    assert str(Quantity.from_wire(0.1)) == "100m"
    assert Quantity.parse(10**17) == Quantity.parse(1e17) == Quantity.parse("100P")
    for wrong in (True, [], {}, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="quantity"):
            Quantity.from_wire(wrong)


def test_made_from_integers() -> None:
    assert str(Quantity.from_milli(1500)) == "1500m"
    assert str(Quantity.from_value(3 << 30, Format.BINARY_SI)) == "3Gi"
    assert str(Quantity.parse("1Mi").with_format(Format.DECIMAL_EXPONENT)) == "1048576"
    assert str(-Quantity.parse("1Gi")) == "-1Gi"
    assert not Quantity()
    for count in (2**63, -(2**63) - 1):
        with pytest.raises(ValueError, match="fits in 64 bits"):
            Quantity.from_value(count)
    assert repr(Quantity.parse("0.5")) == "Quantity.parse('500m')"


def test_pickle_keeps_value_and_format() -> None:
    small = Quantity.from_value(5, Format.BINARY_SI)
    again = pickle.loads(pickle.dumps(small))
    assert again == small
    assert again.format is Format.BINARY_SI


def test_a_column_names_the_row_it_stops_at() -> None:
    out = array("q", [7, 7, 7])
    with pytest.raises(ValueError, match="row 1: quantity: got 'x'"):
        parse_column(["1", "x", "2"], out)
    assert out.tolist() == [1000, 7, 7]


@pytest.mark.parametrize("out", [array("q", [0]), array("d", [0.0, 0.0]), array("i", [0] * 4)])
def test_a_column_needs_a_buffer_of_its_shape(out: array[int]) -> None:
    with pytest.raises(ValueError, match=r"out: got .* expected a buffer of 2 signed"):
        parse_column(["1", "2"], out)


def test_a_column_fills_numpy_in_place() -> None:
    numpy = pytest.importorskip("numpy")
    out = numpy.zeros(3, numpy.int64)
    parse_column(("1.5Gi", 2, "1n"), out, unit=Unit.WHOLE)
    assert out.tolist() == [3 << 29, 2, 1]


def test_the_wire_kernels_import_without_numpy() -> None:
    code = "import sys, koord.kernels.quantity, koord.kernels.cpuset; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_refused_value_is_read_while_it_is_there() -> None:
    """Memory that was given back is overwritten there, so that who reads it later shows it."""
    script = (
        "from koord.kernels.quantity import Quantity\n"
        "try: Quantity.from_wire([{'minor': 0}] * 3)\n"
        "except ValueError as error: print(error.koord_value)"
    )
    environment = {**os.environ, "PYTHONMALLOC": "debug"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[{'minor': 0}, {'minor': 0}, {'minor': 0}]\n", done.stderr
