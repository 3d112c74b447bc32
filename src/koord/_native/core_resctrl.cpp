// SPDX-License-Identifier: Apache-2.0
#include "bindings.hpp"
#include "core_cgroup.hpp"
#include "koord/resctrl.hpp"

namespace koord::python {
namespace {

using resctrl::Limits;
using resctrl::Schemata;
using std::string_view;
using OptionalPercent = std::optional<std::int64_t>;
using PythonClass = std::tuple<std::string, OptionalPercent, OptionalPercent, OptionalPercent>;
// cbm_mask, min_cbm_bits, shareable_bits, num_closids, bandwidth_gran, min_bandwidth,
// amd_full_scale
using PythonLimits =
    std::tuple<std::uint32_t, int, std::uint32_t, int, std::int64_t, std::int64_t, std::int64_t>;

Limits to_limits(const PythonLimits& given) {
  return std::apply([](const auto&... fields) { return Limits{fields...}; }, given);
}

PythonLimits to_python(const Limits& limits) {
  return {limits.cbm_mask,       limits.min_cbm_bits,  limits.shareable_bits, limits.num_closids,
          limits.bandwidth_gran, limits.min_bandwidth, limits.amd_full_scale};
}

resctrl::Vendor to_vendor(string_view name) {
  return name == "amd" ? resctrl::Vendor::kAmd : resctrl::Vendor::kIntel;
}

py::list plan(string_view vendor, const PythonLimits& limits,
              const std::vector<std::int32_t>& l3_ids, const std::vector<PythonClass>& classes) {
  std::vector<resctrl::ClassPolicy> policies;
  for (const auto& [name, start, end, mba] : classes) policies.push_back({name, start, end, mba});
  py::list groups;
  for (auto& group :
       resctrl::plan(to_vendor(vendor), to_limits(limits), l3_ids, policies).value()) {
    groups.append(py::make_tuple(group.name, group.lines, group.notes));
  }
  return groups;
}

py::tuple read_info(const std::string& path) {
  const auto info = [&] {
    const py::gil_scoped_release released;  // files only, no Python object
    auto root = Root::open(path);
    return resctrl::read_info(root.value()).value();
  }();
  return py::make_tuple(to_python(info.limits), info.has_bandwidth, info.delay_linear, info.l3_ids);
}

py::tuple parse_schemata(string_view text, int ids_expected) {
  auto schemata = Schemata::parse(text, ids_expected).value();
  py::dict others;
  for (const auto& [name, value] : schemata.others) others[decoded(name)] = decoded(value);
  return py::make_tuple(schemata.l3, schemata.mb, others);
}

}  // namespace

void register_resctrl(py::module_& m) {
  m.def("parse_cbm_mask", [](string_view hex) { return resctrl::parse_cbm_mask(hex).value(); });
  m.def("parse_l3_ids", [](string_view text) { return resctrl::parse_l3_ids(text).value(); });
  m.def("cache_mask", [](const PythonLimits& limits, std::int64_t start, std::int64_t end) {
    const auto mask = resctrl::cache_mask(to_limits(limits), start, end).value();
    return py::make_tuple(mask.bits, mask.widened, mask.shared);
  });
  m.def("bandwidth", [](string_view vendor, const PythonLimits& limits, std::int64_t percent) {
    const auto value = resctrl::bandwidth(to_vendor(vendor), to_limits(limits), percent).value();
    return py::make_tuple(value.value, value.clamped);
  });
  m.def("plan", plan);
  m.def("parse_schemata", parse_schemata);
  m.def("format_schemata", [](decltype(Schemata::l3) l3, decltype(Schemata::mb) mb) {
    return Schemata{std::move(l3), std::move(mb), {}}.format();
  });
  m.def("read_info", read_info);
  m.def("parse_counter", [](string_view text) { return resctrl::parse_counter(text).value(); });
}

}  // namespace koord::python
