# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""koord._native.wire: what crosses the wire, without NumPy. Use the faces in koord.kernels.

The classes are compiled whole: a Python class around each would cost more than the work it wraps.
"""
from cpython.object cimport Py_EQ, Py_GE, Py_GT, Py_LE, Py_LT, Py_NE
from libc.stdint cimport uint32_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.string_view cimport string_view
from libcpp.vector cimport vector


cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL


cdef extern from "koord/error.hpp" namespace "koord" nogil:
    cdef cppclass Error:
        string field
        string value
        string expected
        string message()

    cdef cppclass Result[T]:
        pass

    Error invalid(string_view field, string_view value, string_view expected)


cdef extern from *:
    """
    // Cython keeps what it holds in variables that are first built empty, which a Result cannot be.
    template <class T>
    static bool take(koord::Result<T>&& result, T& value, koord::Error& error) {
      if (result.ok()) {
        value = std::move(result).value();
      } else {
        error = result.error();
      }
      return result.ok();
    }
    """
    cbool take[T](Result[T] result, T& value, Error& error) nogil


cdef string_view utf8(str text) except *:
    """The bytes of a text; they live as long as it does."""
    cdef Py_ssize_t size = 0
    cdef const char* data = PyUnicode_AsUTF8AndSize(text, &size)
    return string_view(data, size)


cdef object value_error(const Error& error):
    """The ValueError for a failure, with its parts as attributes, as koord._native.core raises."""
    exception = ValueError(error.message().decode())
    exception.koord_field = error.field.decode()
    exception.koord_value = error.value.decode()
    exception.koord_expected = error.expected.decode()
    return exception


cdef object invalid_value(str field, object value, str expected):
    # Held until the error has its own copy: an expression's text would be freed before.
    cdef str shown = ascii(value)
    return value_error(invalid(utf8(field), utf8(shown), utf8(expected)))


include "wire_quantity.pxi"
include "wire_cpuset.pxi"
include "wire_projection.pxi"
include "wire_sharing.pxi"
include "wire_splitter.pxi"
