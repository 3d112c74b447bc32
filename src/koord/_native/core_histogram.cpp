// SPDX-License-Identifier: Apache-2.0
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "koord/histogram.hpp"

namespace py = pybind11;

namespace koord::python {
namespace {

using Buckets = ExponentialBuckets;
using Weights = std::vector<std::pair<std::int64_t, std::uint32_t>>;

// A read-only view; `owner` lives as long as the array does.
py::array_t<double> view(std::span<const double> values, py::handle owner) {
  py::array_t<double> array(static_cast<py::ssize_t>(values.size()), values.data(), owner);
  array.attr("flags").attr("writeable") = false;
  return array;
}

py::tuple save(const DecayingHistogram& histogram) {
  const HistogramCheckpoint checkpoint = histogram.save();
  return py::make_tuple(checkpoint.reference_ms, checkpoint.weights, checkpoint.total_weight);
}

}  // namespace

void register_histogram(py::module_& m) {
  py::class_<Buckets, std::shared_ptr<Buckets>>(m, "Buckets")
      .def(py::init([](double first, double maximum, double ratio) {
             return std::make_shared<Buckets>(Buckets::make(first, maximum, ratio).value());
           }),
           py::arg("first"), py::arg("maximum"), py::arg("ratio"))
      .def("count", &Buckets::count)
      .def("find", &Buckets::find, py::arg("value"))
      .def("starts",
           [](py::object self) { return view(self.cast<const Buckets&>().starts(), self); });

  using Histogram = DecayingHistogram;
  py::class_<Histogram>(m, "Histogram")
      .def(py::init([](std::shared_ptr<Buckets> buckets, std::int64_t half_life_ms) {
             return Histogram(std::move(buckets), half_life_ms);
           }),
           py::arg("buckets"), py::arg("half_life_ms"))
      .def("add", &Histogram::add, py::arg("value"), py::arg("weight"), py::arg("time_ms"))
      .def("subtract", &Histogram::subtract, py::arg("value"), py::arg("weight"),
           py::arg("time_ms"))
      .def("merge", &Histogram::merge, py::arg("other"))
      .def("percentile", &Histogram::percentile, py::arg("p"))
      .def("empty", &Histogram::empty)
      .def("total_weight", &Histogram::total_weight)
      .def("reference_ms", &Histogram::reference_ms)
      .def("weights",
           [](py::object self) { return view(self.cast<const Histogram&>().weights(), self); })
      .def("save", &save)
      .def(
          "load",
          [](Histogram& self, std::int64_t reference_ms, Weights weights, double total_weight) {
            self.load({reference_ms, std::move(weights), total_weight});
          },
          py::arg("reference_ms"), py::arg("weights"), py::arg("total_weight"));
}

}  // namespace koord::python
