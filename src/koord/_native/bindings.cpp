// SPDX-License-Identifier: Apache-2.0
#include "bindings.hpp"

#include "koord/error.hpp"

namespace py = pybind11;

namespace koord::python {
namespace {

// Paths may hold bytes that are no UTF-8; Python writes them as surrogates.
py::object text(const std::string& bytes) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
}

// ValueError, KeyError or OSError with the one-line message. The parts travel along as the
// attributes koord_field, koord_value and koord_expected, so that a caller can name its own file.
void raise_python(const Error& error) {
  const char* types[] = {"ValueError", "ValueError", "KeyError", "OSError"};
  py::object type = py::module_::import("builtins").attr(types[static_cast<int>(error.code)]);
  py::object instance = error.code == Errc::kSystem
                            ? type(error.sys_errno, text(error.expected), text(error.value))
                            : type(text(error.message()));
  instance.attr("koord_field") = text(error.field);
  instance.attr("koord_value") = text(error.value);
  instance.attr("koord_expected") = text(error.expected);
  PyErr_SetObject(type.ptr(), instance.ptr());
}

}  // namespace

void define_kernels(py::module_& m, std::span<const Kernel> kernels) {
  py::register_local_exception_translator([](std::exception_ptr pending) {
    try {
      if (pending) std::rethrow_exception(pending);
    } catch (const Exception& exception) {
      raise_python(exception.error());
    } catch (const py::cast_error&) {
      // An element of a list or mapping; pybind11 would say RuntimeError, over several lines.
      PyErr_SetString(PyExc_TypeError, "got an element of a type that is not taken here");
    }
  });
  for (const auto& kernel : kernels) {
    py::module_ submodule = m.def_submodule(kernel.name, kernel.doc);
    kernel.add(submodule);
  }
}

}  // namespace koord::python
