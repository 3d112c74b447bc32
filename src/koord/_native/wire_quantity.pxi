# SPDX-License-Identifier: Apache-2.0
# Quantities: the class, and columns of integers read from texts.
from enum import IntEnum, StrEnum

from cpython.buffer cimport PyBUF_CONTIG, PyBUF_FORMAT, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t


cdef extern from "koord/quantity.hpp" namespace "koord" nogil:
    cdef enum class CRounding "koord::Rounding":
        pass

    cdef enum class CUnit "koord::Unit":
        kMilli
        kWhole

    cdef enum class CFormat "koord::Quantity::Format":
        pass

    cdef cppclass CQuantity "koord::Quantity":
        @staticmethod
        Result[CQuantity] parse(string_view text)
        @staticmethod
        CQuantity from_integer(int64_t count, CUnit unit, CFormat format)
        string to_string()
        CFormat format()
        CQuantity with_format(CFormat format)
        Result[int64_t] count(CUnit unit, CRounding rounding)
        cbool is_zero()
        Result[CQuantity] add(const CQuantity& other)
        Result[CQuantity] sub(const CQuantity& other)
        CQuantity operator-()
        cbool operator==(const CQuantity& other)
        cbool operator<(const CQuantity& other)
        size_t hash()

    Result[int64_t] parse_count(string_view text, CUnit unit, CRounding rounding)


class Rounding(IntEnum):
    """What becomes of a fraction when a quantity is read as an integer.

    UP goes away from zero, as Kubernetes does; DOWN goes toward zero; EXACT raises ValueError.
    """

    UP = 0
    DOWN = 1
    EXACT = 2


class Unit(IntEnum):
    """What an integer counts, as a power of ten."""

    MILLI = -3
    WHOLE = 0


class Format(StrEnum):
    """How a quantity is written; the values are Kubernetes' names."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


cdef tuple FORMATS = tuple(Format)
cdef object FIRST_FORMAT = FORMATS[0]


cdef CRounding native_rounding(object rounding) except *:
    # To call an enumeration takes ten times as long as the arithmetic.
    if type(rounding) is not Rounding:
        rounding = Rounding(rounding)
    return <CRounding><int>rounding


cdef CFormat native_format(object format) except *:
    # To look an enumeration up takes longer than all that is done with it.
    if format is FIRST_FORMAT:
        return <CFormat>0
    return <CFormat><int>FORMATS.index(Format(format))


cdef str number_text(object value):
    """The text that a JSON or YAML value was written as, or an equal one."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    raise invalid_value("quantity", value, "a text or a number")


cdef Quantity wrap_quantity(const CQuantity& native):
    cdef Quantity quantity = Quantity.__new__(Quantity)
    quantity.native = native
    return quantity


cdef Quantity from_integer(value, CUnit unit, format):
    if not -(1 << 63) <= value < 1 << 63:
        raise invalid_value("quantity", value, "an integer that fits in 64 bits")
    return wrap_quantity(CQuantity.from_integer(value, unit, native_format(format)))


cdef class Quantity:
    """A Kubernetes quantity: the exact value and the format it prints in. Immutable.

    Equality, order and hash go by value, so `1Ki` equals `1024`; `format` tells them apart.
    """

    cdef CQuantity native

    def __init__(self, *values):
        """Zero. TypeError for an argument, which else would be left out in silence."""
        if values:
            raise TypeError(f"Quantity: got {values[0]!r}, expected no argument; "
                            "Quantity.parse reads one")

    @staticmethod
    def parse(value):
        """Reads a text, or a number through its text. ValueError when it is no quantity."""
        cdef Quantity quantity = Quantity.__new__(Quantity)
        cdef Error error
        cdef str text = number_text(value)
        if not take(CQuantity.parse(utf8(text)), quantity.native, error):
            raise value_error(error)
        return quantity

    @staticmethod
    def from_wire(value):
        """As Kubernetes reads JSON: a text, space around it dropped, a number, or null for 0."""
        if value is None:
            return Quantity()
        return Quantity.parse(number_text(value).strip(" \t\r\n"))

    @staticmethod
    def from_value(value, format=Format.DECIMAL_SI):
        """So many whole units. ValueError beyond 64 bits."""
        return from_integer(value, CUnit.kWhole, format)

    @staticmethod
    def from_milli(value, format=Format.DECIMAL_SI):
        """So many thousandths. ValueError beyond 64 bits."""
        return from_integer(value, CUnit.kMilli, format)

    @property
    def format(self):
        """The format it was read or made in."""
        return FORMATS[<int>self.native.format()]

    def with_format(self, format):
        """The same value, printed in another format."""
        return wrap_quantity(self.native.with_format(native_format(format)))

    def value(self, rounding=Rounding.UP):
        """How many whole units. ValueError beyond 64 bits, or when EXACT meets a fraction."""
        return self.count(CUnit.kWhole, native_rounding(rounding))

    def milli(self, rounding=Rounding.UP):
        """How many thousandths. ValueError beyond 64 bits, or when EXACT meets a fraction."""
        return self.count(CUnit.kMilli, native_rounding(rounding))

    cdef count(self, CUnit unit, CRounding rounding):
        cdef int64_t count = 0
        cdef Error error
        if not take(self.native.count(unit, rounding), count, error):
            raise value_error(error)
        return count

    def __add__(self, other):
        if not isinstance(other, Quantity):
            return NotImplemented
        cdef Quantity result = Quantity.__new__(Quantity)
        cdef Error error
        if not take(self.native.add((<Quantity>other).native), result.native, error):
            raise value_error(error)
        return result

    def __sub__(self, other):
        if not isinstance(other, Quantity):
            return NotImplemented
        cdef Quantity result = Quantity.__new__(Quantity)
        cdef Error error
        if not take(self.native.sub((<Quantity>other).native), result.native, error):
            raise value_error(error)
        return result

    def __neg__(self):
        return wrap_quantity(-self.native)

    def __bool__(self):
        return not self.native.is_zero()

    def __richcmp__(self, other, int op):
        if not isinstance(other, Quantity):
            return NotImplemented
        cdef CQuantity theirs = (<Quantity>other).native
        if op == Py_EQ:
            return self.native == theirs
        if op == Py_NE:
            return not (self.native == theirs)
        if op == Py_LT:
            return self.native < theirs
        if op == Py_LE:
            return not (theirs < self.native)
        if op == Py_GT:
            return theirs < self.native
        return not (self.native < theirs)

    def __hash__(self):
        return <Py_hash_t>self.native.hash()

    def __str__(self):
        return self.native.to_string().decode()

    def __repr__(self):
        return f"Quantity.parse({str(self)!r})"

    def __reduce__(self):
        return restore_quantity, (str(self), self.format)


def restore_quantity(str text, format):
    """Unpickles: a small binary quantity prints as decimal, so the format travels too."""
    return Quantity.parse(text).with_format(format)


def encode_hook(other):
    """A hook for msgspec's encoders: the text of a quantity, and what `other` says of all else."""
    def hook(value):
        return str(value) if type(value) is Quantity else other(value)

    return hook


def decode_hook(other):
    """A hook for msgspec's decoders: quantities, and what `other` makes of all else."""
    def hook(kind, value):
        return Quantity.from_wire(value) if kind is Quantity else other(kind, value)

    return hook


cdef int64_t parsed_count(
    object value, CUnit unit, CRounding rounding, Py_ssize_t row
) except? -1:
    cdef int64_t count = 0
    cdef Error error
    cdef str text = number_text(value)
    if not take(parse_count(utf8(text), unit, rounding), count, error):
        error.field = f"row {row}: quantity".encode()
        raise value_error(error)
    return count


def parse_column(texts, out, unit, rounding):
    """Reads the count of each text into `out`; the faces in koord.kernels say more."""
    cdef CUnit native_unit = <CUnit><int>Unit(unit)
    cdef CRounding rule = native_rounding(rounding)
    cdef Py_ssize_t row = 0
    cdef Py_buffer buffer
    PyObject_GetBuffer(out, &buffer, PyBUF_CONTIG | PyBUF_FORMAT)
    try:
        if buffer.format not in (b"q", b"l") or buffer.len != len(texts) * sizeof(int64_t):
            raise invalid_value("out", out, f"a buffer of {len(texts)} signed 64-bit integers")
        for value in texts:
            (<int64_t*>buffer.buf)[row] = parsed_count(value, native_unit, rule, row)
            row += 1
    finally:
        PyBuffer_Release(&buffer)
