// SPDX-License-Identifier: Apache-2.0
// CPU accounting, plain numbers, pressure.
#include "koord/cgroup_parse.hpp"

#include <algorithm>

#include "cgroup_fields.hpp"

namespace koord::cgroup {

Result<std::int64_t> parse_int64(std::string_view field, std::string_view text,
                                 std::int64_t when_max) {
  const auto trimmed = text::trim(text);
  if (trimmed == "max") return when_max;
  const auto value = text::integer<std::int64_t>(trimmed);
  if (!value) return invalid(field, text, "an int64 or max");
  return *value;
}

Result<std::int64_t> parse_memory_limit(std::string_view text) {
  auto limit = parse_int64("memory limit", text);
  if (limit && limit.value() >= kMemoryUnlimitedBytes) return std::int64_t{-1};
  return limit;
}

KeyValues parse_key_values(std::string_view text) {
  KeyValues found;
  found.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
  while (!text.empty()) {
    const auto [key, value] = key_and_value(text::take_until(text, '\n'));
    if (!value.empty()) found.emplace_back(key, value);
  }
  return found;
}

Result<CpuStat> parse_cpu_stat(std::string_view text, Version version) {
  static constexpr std::array<std::string_view, 3> kV1Keys = {"nr_periods", "nr_throttled",
                                                              "throttled_time"};
  static constexpr std::array<std::string_view, 3> kV2Keys = {"nr_periods", "nr_throttled",
                                                              "throttled_usec"};
  const bool v1 = version == Version::kV1;
  FieldReader reader("cpu.stat", text, v1 ? kV1Keys : kV2Keys);
  CpuStat stat;
  stat.periods = reader.get(0);
  stat.throttled = reader.get(1);
  stat.throttled_ns = reader.get(2, v1 ? 1 : 1000);
  return reader.result(stat);
}

double throttled_ratio(const CpuStat& before, const CpuStat& after) {
  const double periods = static_cast<double>(after.periods) - static_cast<double>(before.periods);
  if (periods <= 0) return 0;
  return (static_cast<double>(after.throttled) - static_cast<double>(before.throttled)) / periods;
}

Result<std::int64_t> parse_cpu_usage_ns(std::string_view text, Version version) {
  if (version == Version::kV1) {
    const auto value = text::integer<std::int64_t>(text::trim(text));
    if (!value) return invalid("cpuacct.usage", text, "an int64");
    return *value;
  }
  static constexpr std::array<std::string_view, 1> kKeys = {"usage_usec"};
  FieldReader reader("cpu.stat", text, kKeys);
  return reader.result(reader.get(0, 1000));
}

namespace {

Result<std::int64_t> cpu_max_field(std::string_view text, std::size_t index) {
  const auto fields = text::fields(text);
  if (fields.size() != 2) return invalid("cpu.max", text, "a quota and a period");
  if (index == 0) return parse_int64("cpu.max quota", fields[0]);
  const auto period = text::integer<std::int64_t>(fields[1]);  // never max
  if (!period) return invalid("cpu.max period", fields[1], "an int64");
  return *period;
}

Result<PressureLine> parse_pressure_line(std::string_view line) {
  constexpr std::string_view kForm = "avg10=F avg60=F avg300=F total=N";
  PressureLine parsed;
  const std::array<std::pair<std::string_view, double*>, 3> averages = {
      {{"avg10=", &parsed.avg10}, {"avg60=", &parsed.avg60}, {"avg300=", &parsed.avg300}}};
  std::string_view rest = line;
  for (const auto& [name, target] : averages) {
    auto field = text::take_field(rest);
    if (!field.starts_with(name)) return invalid("pressure", line, kForm);
    field.remove_prefix(name.size());
    const char* end = field.data() + field.size();
    const auto [stop, error] = std::from_chars(field.data(), end, *target);
    const bool sane = error == std::errc() && stop == end && *target >= 0 && *target <= 1e9;
    if (!sane) return invalid("pressure", line, kForm);
  }
  const auto total = text::take_field(rest);
  const auto value =
      text::integer<std::int64_t>(total.substr(std::min<std::size_t>(6, total.size())));
  const bool ok = total.starts_with("total=") && value && *value >= 0 && text::trim(rest).empty();
  if (!ok) return invalid("pressure", line, kForm);
  parsed.total_us = *value;
  return parsed;
}

}  // namespace

Result<std::int64_t> parse_cpu_max_quota(std::string_view text) { return cpu_max_field(text, 0); }
Result<std::int64_t> parse_cpu_max_period(std::string_view text) { return cpu_max_field(text, 1); }

Result<Pressure> parse_pressure(std::string_view text) {
  Pressure pressure;
  bool some_seen = false;
  while (!text.empty()) {
    const auto line = text::take_until(text, '\n');
    std::string_view rest = line;
    const auto kind = text::take_field(rest);
    if (kind.empty()) continue;
    if (kind != "some" && kind != "full") return invalid("pressure", line, "some or full");
    auto parsed = parse_pressure_line(rest);
    if (!parsed) return parsed.error();
    (kind == "some" ? pressure.some : pressure.full) = parsed.value();
    (kind == "some" ? some_seen : pressure.full_supported) = true;
  }
  if (!some_seen) return invalid("pressure", "", "a line that begins with some");
  return pressure;
}

}  // namespace koord::cgroup
