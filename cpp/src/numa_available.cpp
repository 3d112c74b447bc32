// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "numa_internal.hpp"

namespace koord::numa {
namespace {

std::optional<Error> check_usage(std::span<const Column> total, const Usage& usage,
                                 std::size_t zones) {
  if (auto error = check_columns("used", usage.used, zones, false)) return error;
  if (auto error = check_columns("reusable", usage.reusable, zones, false)) return error;
  if (usage.used.size() != total.size() || usage.reusable.size() != total.size()) {
    return invalid("columns", std::to_string(usage.used.size()), "as many as total has");
  }
  if (usage.bound_cpus.size() != zones) {
    return invalid("bound cpus", std::to_string(usage.bound_cpus.size()), "a count for each zone");
  }
  for (const std::int64_t count : usage.bound_cpus) {
    if (count < 0 || count > kMostCpus) {
      return invalid("bound cpus", std::to_string(count), "a number of CPUs");
    }
  }
  if (!std::isfinite(usage.cpu_ratio) || usage.cpu_ratio > 1e6) {
    return invalid("cpu ratio", std::to_string(usage.cpu_ratio), "a finite ratio up to 1000000");
  }
  return std::nullopt;
}

std::int64_t amplification(std::int64_t bound_cpus, double ratio) {
  const auto milli = bound_cpus * kMilliPerCpu;
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(milli) * ratio)) - milli;
}

Column left_over(const Column& total, std::size_t index, const Usage& usage) {
  const Column& used = usage.used[index];
  const Column& reusable = usage.reusable[index];
  const bool amplified = total.kind == Kind::kCpu && usage.cpu_ratio > 1.0;
  Column left{total.kind, 0, std::vector<std::int64_t>(total.amount.size())};
  const Mask in_use = used.listed | reusable.listed | (amplified ? ~Mask{0} : Mask{0});
  left.listed = total.listed | (usage.tracked & in_use & all_of(total.amount.size()));
  for (std::size_t zone = 0; zone < total.amount.size(); ++zone) {
    std::int64_t taken = 0;
    if (contains(usage.tracked, zone)) {
      taken = used.amount[zone];
      if (amplified) taken += amplification(usage.bound_cpus[zone], usage.cpu_ratio);
      taken = std::max<std::int64_t>(0, taken - reusable.amount[zone]);
    }
    left.amount[zone] = std::max<std::int64_t>(0, total.amount[zone] - taken);
  }
  return left;
}

}  // namespace

std::optional<Error> check_columns(std::string_view field, std::span<const Column> columns,
                                   std::size_t zones, bool signed_amounts) {
  const std::int64_t lowest = signed_amounts ? -kLargestAmount : 0;
  for (const Column& column : columns) {
    if (column.amount.size() != zones) {
      return invalid(field, std::to_string(column.amount.size()), "an amount for each zone");
    }
    for (std::size_t zone = 0; zone < zones; ++zone) {
      const std::int64_t amount = column.amount[zone];
      if (amount < lowest || amount > kLargestAmount) {
        return invalid(field, std::to_string(amount),
                       signed_amounts ? "an amount within 2^61" : "an amount from 0 to 2^61");
      }
      if (amount != 0 && !contains(column.listed, zone)) {
        return invalid(field, std::to_string(amount), "0 on a zone that does not list it");
      }
    }
  }
  return std::nullopt;
}

Result<std::vector<Column>> available(std::span<const Column> total, const Usage& usage) {
  const std::size_t zones = usage.bound_cpus.size();
  if (auto error = check_zone_count(zones)) return *error;
  if (auto error = check_columns("total", total, zones, true)) return *error;
  if (auto error = check_usage(total, usage, zones)) return *error;
  std::vector<Column> left;
  left.reserve(total.size());
  for (std::size_t i = 0; i < total.size(); ++i) left.push_back(left_over(total[i], i, usage));
  return left;
}

}  // namespace koord::numa
