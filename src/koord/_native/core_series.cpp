// SPDX-License-Identifier: Apache-2.0
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "koord/series.hpp"

namespace py = pybind11;

namespace koord::python {
namespace {

// Other integer and float types are converted; arrays of these types cross as they are.
using Ids = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;
using Values = py::array_t<double, py::array::c_style | py::array::forcecast>;

std::vector<Percentile> percentiles_of(const std::vector<double>& shares) {
  std::vector<Percentile> percentiles;
  for (const double share : shares) percentiles.push_back(Percentile::make(share).value());
  return percentiles;
}

template <class Array>
auto span_of(const Array& array) {
  return std::span(array.data(), static_cast<std::size_t>(array.size()));
}

py::tuple summarize(const Series& series, Window window, const std::vector<double>& shares) {
  const auto percentiles = percentiles_of(shares);
  std::vector<double> out(shares.size());
  std::vector<double> scratch;
  const Summary all = series.summarize(window, percentiles, out, scratch);
  return py::make_tuple(all.count, all.avg, all.last, all.oldest_ms, all.newest_ms, out);
}

template <class T>
py::array_t<T> column(const std::vector<Summary>& summaries, T Summary::* field) {
  py::array_t<T> array(static_cast<py::ssize_t>(summaries.size()));
  for (std::size_t i = 0; i < summaries.size(); ++i) array.mutable_data()[i] = summaries[i].*field;
  return array;
}

// Keeps the GIL: it is what keeps another thread from appending meanwhile.
py::tuple summarize_all(const SeriesStore& store, const Ids& ids, Window window,
                        const std::vector<double>& shares) {
  const auto percentiles = percentiles_of(shares);
  py::array_t<double> out({ids.size(), static_cast<py::ssize_t>(shares.size())});
  std::vector<Summary> summaries(static_cast<std::size_t>(ids.size()));
  store.summarize(span_of(ids), window, percentiles, summaries,
                  {out.mutable_data(), static_cast<std::size_t>(out.size())});
  return py::make_tuple(column(summaries, &Summary::count), column(summaries, &Summary::avg),
                        column(summaries, &Summary::last), column(summaries, &Summary::oldest_ms),
                        column(summaries, &Summary::newest_ms), out);
}

std::size_t append_all(SeriesStore& store, std::int64_t time_ms, const Ids& ids,
                       const Values& values) {
  if (ids.size() != values.size()) {
    throw Exception(invalid("values", std::to_string(values.size()),
                            "as many values as ids, " + std::to_string(ids.size())));
  }
  return store.append(time_ms, span_of(ids), span_of(values));
}

// Columns of tables lie strided; they are made contiguous, which for as many rows is nothing.
using Flags = py::array_t<bool, py::array::c_style | py::array::forcecast>;
using KeptValues = py::array_t<std::int64_t, py::array::c_style>;
using KeptTimes = py::array_t<double, py::array::c_style>;

py::tuple advance(KeptValues& before, KeptTimes& at, const Ids& values, const Flags& good,
                  double at_seconds, double kept_seconds) {
  const auto rows = static_cast<std::size_t>(values.size());
  for (const auto size : {before.size(), at.size(), good.size()}) {
    if (static_cast<std::size_t>(size) != rows) {
      throw Exception(invalid("rows", std::to_string(size),
                              "as many as there are values, " + std::to_string(rows)));
    }
  }
  py::array_t<std::int64_t> amount(values.size());
  py::array_t<double> seconds(values.size());
  advance_counters({{before.mutable_data(), rows}, {at.mutable_data(), rows}},
                   {span_of(values), span_of(good), at_seconds}, kept_seconds,
                   {amount.mutable_data(), rows}, {seconds.mutable_data(), rows});
  return py::make_tuple(amount, seconds);
}

}  // namespace

void register_series(py::module_& m) {
  py::class_<Series>(m, "Series")
      .def(py::init<std::size_t>(), py::arg("capacity"))
      .def(
          "append",
          [](Series& self, std::int64_t time_ms, double value) {
            return static_cast<int>(self.append(time_ms, value));
          },
          py::arg("time_ms"), py::arg("value"))
      .def(
          "summarize",
          [](const Series& self, std::int64_t start_ms, std::int64_t end_ms,
             const std::vector<double>& shares) {
            return summarize(self, {start_ms, end_ms}, shares);
          },
          py::arg("start_ms"), py::arg("end_ms"), py::arg("shares"))
      .def("size", &Series::size)
      .def("capacity", &Series::capacity);

  py::class_<SeriesStore>(m, "Store")
      .def(py::init<std::size_t>(), py::arg("capacity"))
      .def("add", &SeriesStore::add)
      .def("remove", &SeriesStore::remove, py::arg("id"))
      .def("size", &SeriesStore::size)
      .def("resize", &SeriesStore::resize, py::arg("capacity"))
      .def("append", &append_all, py::arg("time_ms"), py::arg("ids"), py::arg("values"))
      .def(
          "summarize",
          [](const SeriesStore& self, const Ids& ids, std::int64_t start_ms, std::int64_t end_ms,
             const std::vector<double>& shares) {
            return summarize_all(self, ids, {start_ms, end_ms}, shares);
          },
          py::arg("ids"), py::arg("start_ms"), py::arg("end_ms"), py::arg("shares"));

  m.def("advance_counters", &advance, py::arg("before").noconvert(), py::arg("at").noconvert(),
        py::arg("values"), py::arg("good"), py::arg("at_seconds"), py::arg("kept_seconds"));
}

}  // namespace koord::python
