// SPDX-License-Identifier: Apache-2.0
// koord._native.core: a submodule a kernel, and the translation of libkoord's errors.
#include "bindings.hpp"
#include "koord/error.hpp"

namespace py = pybind11;

namespace {

using Registration = void (*)(py::module_&);

struct Kernel {
  const char* name;
  const char* doc;
  Registration add;
};

constexpr Kernel kKernels[] = {
    {"topology", "CPU topology and the CPU picker", koord::python::register_topology},
    {"numa", "NUMA hints, merge and per-zone fit", koord::python::register_numa},
    {"quota", "elastic quota tree", koord::python::register_quota},
    {"devices", "GPU and other device packing", koord::python::register_devices},
    {"placement", "node table and placement policies", koord::python::register_placement},
    {"histogram", "decaying exponential histogram", koord::python::register_histogram},
    {"series", "ring-buffer series and window aggregates", koord::python::register_series},
    {"cgroup", "batched cgroup reads and writes", koord::python::register_cgroup},
    {"resctrl", "resctrl masks, schemata and group plans", koord::python::register_resctrl},
};

// Paths may hold bytes that are no UTF-8; Python writes them as surrogates.
py::object text(const std::string& bytes) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
}

// ValueError, KeyError or OSError with the one-line message. The parts travel along as the
// attributes koord_field, koord_value and koord_expected, so that a caller can name its own file.
void raise_python(const koord::Error& error) {
  const char* types[] = {"ValueError", "ValueError", "KeyError", "OSError"};
  py::object type = py::module_::import("builtins").attr(types[static_cast<int>(error.code)]);
  py::object instance = error.code == koord::Errc::kSystem
                            ? type(error.sys_errno, text(error.expected), text(error.value))
                            : type(text(error.message()));
  instance.attr("koord_field") = text(error.field);
  instance.attr("koord_value") = text(error.value);
  instance.attr("koord_expected") = text(error.expected);
  PyErr_SetObject(type.ptr(), instance.ptr());
}

}  // namespace

PYBIND11_MODULE(core, m) {
  m.doc() = "libkoord's kernels; use the faces in koord.kernels.";
  py::register_exception_translator([](std::exception_ptr pending) {
    try {
      if (pending) std::rethrow_exception(pending);
    } catch (const koord::Exception& exception) {
      raise_python(exception.error());
    } catch (const py::cast_error&) {
      // An element of a list or mapping; pybind11 would say RuntimeError, over several lines.
      PyErr_SetString(PyExc_TypeError, "got an element of a type that is not taken here");
    }
  });
  for (const auto& kernel : kKernels) {
    py::module_ submodule = m.def_submodule(kernel.name, kernel.doc);
    kernel.add(submodule);
  }
}
