// SPDX-License-Identifier: Apache-2.0
#include "cgroup_decode.hpp"

#include <algorithm>
#include <initializer_list>

#include "text.hpp"

namespace koord::cgroup {
namespace {

void put(std::vector<std::int64_t>& column, std::size_t row,
         std::initializer_list<std::int64_t> values) {
  std::copy(values.begin(), values.end(),
            column.begin() + static_cast<std::ptrdiff_t>(row * values.size()));
}

// One number, in v1 units.
Result<std::int64_t> scalar(const ResourceSpec& resource, std::string_view text, Version version) {
  const bool v2 = version == Version::kV2;
  switch (resource.kind) {
    case Kind::kQuota:
      return v2 ? parse_cpu_max_quota(text) : parse_int64(resource.key, text);
    case Kind::kPeriod:
      return v2 ? parse_cpu_max_period(text) : parse_int64(resource.key, text);
    case Kind::kMemoryLimit:
      return parse_memory_limit(text);
    case Kind::kCpuUsage:
      return parse_cpu_usage_ns(text, version);
    case Kind::kShares: {
      auto value = parse_int64(resource.key, text);
      return v2 && value ? weight_to_shares(value.value()) : std::move(value);
    }
    case Kind::kIdlePages:
      return parse_cold_bytes(text);
    default:
      return parse_int64(resource.key, text);
  }
}

std::optional<Error> decode_cpu_stat(std::string_view text, Version version, std::size_t row,
                                     Table& table) {
  auto parsed = parse_cpu_stat(text, version);
  if (!parsed) return parsed.error();
  const CpuStat& stat = parsed.value();
  put(table.integers, row, {stat.periods, stat.throttled, stat.throttled_ns});
  return std::nullopt;
}

std::optional<Error> decode_memory_stat(std::string_view text, Version version, std::size_t row,
                                        Table& table) {
  auto parsed = parse_memory_stat(text, version);
  if (!parsed) return parsed.error();
  const MemoryStat& stat = parsed.value();
  put(table.integers, row,
      {stat.cache, stat.rss, stat.inactive_file, stat.active_file, stat.inactive_anon,
       stat.active_anon, stat.unevictable});
  return std::nullopt;
}

std::optional<Error> decode_pressure(std::string_view text, std::size_t row, Table& table) {
  auto parsed = parse_pressure(text);
  if (!parsed) return parsed.error();
  const auto& [some, full, full_supported] = parsed.value();
  put(table.integers, row, {some.total_us, full.total_us, full_supported ? 1 : 0});
  const std::initializer_list<double> averages = {some.avg10, some.avg60, some.avg300,
                                                  full.avg10, full.avg60, full.avg300};
  std::copy(averages.begin(), averages.end(),
            table.reals.begin() + static_cast<std::ptrdiff_t>(row * averages.size()));
  return std::nullopt;
}

}  // namespace

std::optional<Error> decode(std::string_view text, Version version, std::size_t row, Table& table) {
  const ResourceSpec& resource = *table.resource;
  switch (resource.kind) {
    case Kind::kCpuStat:
      return decode_cpu_stat(text, version, row, table);
    case Kind::kMemoryStat:
      return decode_memory_stat(text, version, row, table);
    case Kind::kPressure:
      return decode_pressure(text, row, table);
    default:
      break;
  }
  if (integer_columns(resource.kind).empty()) {
    table.texts[row] = text::trim(text, "\n");
    return std::nullopt;
  }
  auto value = scalar(resource, text, version);
  if (!value) return value.error();
  table.integers[row] = value.value();
  return std::nullopt;
}

}  // namespace koord::cgroup
