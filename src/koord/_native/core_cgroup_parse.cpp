// SPDX-License-Identifier: Apache-2.0
// The pure half of the cgroup kernel: parsers and conversions give plain tuples, which the faces
// name.
#include "core_cgroup.hpp"
#include "koord/cgroup_parse.hpp"

namespace koord::python {
namespace {

using std::string_view;

py::tuple cpu_stat(string_view text, int version) {
  const auto stat = cgroup::parse_cpu_stat(text, to_version(version)).value();
  return py::make_tuple(stat.periods, stat.throttled, stat.throttled_ns);
}

py::tuple memory_stat(string_view text, int version) {
  const auto stat = cgroup::parse_memory_stat(text, to_version(version)).value();
  return py::make_tuple(stat.cache, stat.rss, stat.inactive_file, stat.active_file,
                        stat.inactive_anon, stat.active_anon, stat.unevictable);
}

py::list numa_stat(string_view text, int version) {
  py::list nodes;
  for (const auto& [node, pages] : cgroup::parse_numa_stat(text, to_version(version)).value()) {
    nodes.append(py::make_tuple(node, pages));
  }
  return nodes;
}

py::tuple pressure_line(const cgroup::PressureLine& line) {
  return py::make_tuple(line.avg10, line.avg60, line.avg300, line.total_us);
}

py::tuple pressure(string_view text) {
  const auto parsed = cgroup::parse_pressure(text).value();
  return py::make_tuple(pressure_line(parsed.some), pressure_line(parsed.full),
                        parsed.full_supported);
}

py::tuple idle_page_stats(string_view text) {
  auto stats = cgroup::parse_idle_page_stats(text).value();
  py::dict rows;
  for (std::size_t i = 0; i < stats.bytes.size(); ++i) {
    rows[py::str(std::string(cgroup::IdlePageStats::kRowNames[i]))] = stats.bytes[i];
  }
  return py::make_tuple(decoded(stats.version), stats.page_scans, stats.slab_scans,
                        stats.scan_period_seconds, stats.use_hierarchy, stats.buckets, rows);
}

std::int64_t cold_bytes(string_view text, int boundary) {
  return cgroup::parse_cold_bytes(text, boundary).value();
}

py::tuple proc_stat(string_view text) {
  const auto stat = cgroup::parse_proc_stat(text).value();
  return py::make_tuple(decoded(stat.command), decoded(string_view(&stat.state, 1)), stat.parent,
                        stat.group);
}

py::list device_values(string_view text) {
  py::list rows;
  for (const auto& [major, minor, value] : cgroup::parse_device_values(text).value()) {
    rows.append(py::make_tuple(major, minor, value));
  }
  return rows;
}

py::dict key_values(string_view text) {
  py::dict values;
  for (const auto& [key, value] : cgroup::parse_key_values(text))
    values[decoded(key)] = decoded(value);
  return values;
}

py::tuple sched_features(string_view text) {
  const auto features = cgroup::parse_sched_features(text);
  py::dict enabled;
  for (const auto& [name, on] : features.enabled) enabled[decoded(name)] = on;
  py::list conflicts;
  for (const auto& name : features.conflicts) conflicts.append(decoded(name));
  return py::make_tuple(enabled, conflicts);
}

py::array_t<std::int32_t> to_ids(std::vector<std::int32_t>&& ids) {
  const auto rows = static_cast<py::ssize_t>(ids.size());
  return to_array(std::move(ids), {rows});
}

}  // namespace

void register_cgroup_parsers(py::module_& m) {
  m.def("parse_int64", [](const std::string& field, string_view text, std::int64_t when_max) {
    return cgroup::parse_int64(field, text, when_max).value();
  });
  m.def("parse_memory_limit",
        [](string_view text) { return cgroup::parse_memory_limit(text).value(); });
  m.def("parse_key_values", key_values);
  m.def("parse_cpu_stat", cpu_stat);
  m.def("parse_cpu_usage_ns", [](string_view text, int version) {
    return cgroup::parse_cpu_usage_ns(text, to_version(version)).value();
  });
  m.def("parse_cpu_max_quota",
        [](string_view text) { return cgroup::parse_cpu_max_quota(text).value(); });
  m.def("parse_cpu_max_period",
        [](string_view text) { return cgroup::parse_cpu_max_period(text).value(); });
  m.def("parse_memory_stat", memory_stat);
  m.def("parse_numa_stat", numa_stat);
  m.def("parse_pressure", pressure);
  m.def("parse_idle_page_stats", idle_page_stats);
  m.def("cold_bytes", cold_bytes);
  m.def("parse_proc_stat", proc_stat);
  m.def("parse_ids", [](string_view text) { return to_ids(cgroup::parse_ids(text).value()); });
  m.def("ids_to_add", [](string_view text, std::vector<std::int32_t> wanted) {
    return to_ids(cgroup::ids_to_add(text, std::move(wanted)).value());
  });
  m.def("parse_device_values", device_values);
  m.def("parse_sched_features", sched_features);
  m.def("shares_to_weight",
        [](std::int64_t shares) { return cgroup::shares_to_weight(shares).value(); });
  m.def("weight_to_shares",
        [](std::int64_t weight) { return cgroup::weight_to_shares(weight).value(); });
  m.def("milli_cpu_to_shares", cgroup::milli_cpu_to_shares);
  m.def("milli_cpu_to_quota_us", cgroup::milli_cpu_to_quota_us);
}

}  // namespace koord::python
