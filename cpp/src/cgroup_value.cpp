// SPDX-License-Identifier: Apache-2.0
// What a value means: the text of v2, equality, and which of two values is looser.
#include <algorithm>

#include "cgroup_block.hpp"
#include "cgroup_validate.hpp"
#include "koord/cgroup.hpp"
#include "koord/cpuset.hpp"
#include "text.hpp"

namespace koord::cgroup {
namespace {

bool is_v2(Version version) { return version == Version::kV2; }

Result<std::int64_t> no_limit_is_largest(Result<std::int64_t> value) {
  if (value && value.value() < 0) return kInt64Max;
  return value;
}

// The number a file or a request holds, with no limit as the largest one.
Result<std::int64_t> comparable(const ResourceSpec& resource, Version version,
                                std::string_view text) {
  const bool both = is_v2(version) && text::fields(text).size() == 2;
  switch (resource.kind) {
    case Kind::kQuota:
      return no_limit_is_largest(both ? parse_cpu_max_quota(text)
                                      : parse_int64(resource.key, text));
    case Kind::kPeriod:
      return both ? parse_cpu_max_period(text) : parse_int64(resource.key, text);
    case Kind::kMemoryLimit:
      return no_limit_is_largest(parse_memory_limit(text));
    default:
      return parse_int64(resource.key, text, kInt64Max);
  }
}

// Both as the other side understands them: an id of net_cls may be written in hex.
std::optional<std::int64_t> class_id(std::string_view text) {
  text = text::trim(text);
  const bool hex = text.starts_with("0x");
  return text::integer<std::int64_t>(hex ? text.substr(2) : text, hex ? 16 : 10);
}

bool same_cpus(std::string_view a, std::string_view b) {
  auto left = CpuSet::parse_wire(text::trim(a));
  auto right = CpuSet::parse_wire(text::trim(b));
  return left && right && left.value() == right.value();
}

bool holds_id(std::string_view id, std::string_view current) {
  while (!current.empty()) {
    if (text::trim(text::take_until(current, '\n')) == text::trim(id)) return true;
  }
  return false;
}

bool same_number(const ResourceSpec& resource, Version version, std::string_view text,
                 std::string_view current) {
  auto wanted = comparable(resource, version, text);
  auto held = comparable(resource, version, current);
  return wanted && held && wanted.value() == held.value();
}

Result<std::optional<std::string>> union_of(std::string_view text, std::string_view current) {
  auto wanted = CpuSet::parse_wire(text::trim(text));
  if (!wanted) return wanted.error();
  auto held = CpuSet::parse_wire(text::trim(current));
  if (!held) return held.error();
  if (wanted.value().is_subset_of(held.value())) return std::optional<std::string>{};
  return std::optional((held.value() | wanted.value()).format());
}

}  // namespace

Result<std::string> file_text(const ResourceSpec& resource, Version version,
                              std::string_view value) {
  if (!resource.writable) return invalid("resource", resource.key, "one that can be written");
  switch (resource.kind) {
    case Kind::kQuota:
    case Kind::kPeriod:
    case Kind::kMemoryLimit: {
      auto number = parse_int64(resource.key, value);
      if (!number) return number.error();
      const bool has_max = is_v2(version) && resource.kind != Kind::kPeriod;
      if (has_max && number.value() == -1) return std::string("max");
      return std::to_string(number.value());
    }
    case Kind::kShares: {
      auto shares = parse_int64(resource.key, value, kInt64Max);
      if (!shares) return shares.error();
      auto weight = shares_to_weight(shares.value());
      if (!weight) return weight.error();
      return std::to_string(is_v2(version) ? weight.value() : shares.value());
    }
    default:
      if (auto error = validate(resource, version, value)) return *std::move(error);
      if (resource.kind == Kind::kBlkioDevice) return device_text(resource, version, value);
      return std::string(value);
  }
}

bool says_same(const ResourceSpec& resource, Version version, std::string_view text,
               std::string_view current) {
  switch (resource.kind) {
    case Kind::kCpuList:
      return same_cpus(text, current);
    case Kind::kIds:
      return holds_id(text, current);
    case Kind::kBlkioDevice:
    case Kind::kBlkioQos:
    case Kind::kBlkioModel:
      return says_same_of_device(resource, version, text, current);
    case Kind::kClassId: {
      const auto wanted = class_id(text);
      return wanted && wanted == class_id(current);
    }
    case Kind::kText:
      return text::trim(text, "\n") == text::trim(current, "\n");
    default:
      return same_number(resource, version, text, current);
  }
}

Result<std::optional<std::string>> loosened(const ResourceSpec& resource, Version version,
                                            std::string_view text, std::string_view current) {
  if (resource.merge == Merge::kNone) return std::optional<std::string>{};
  if (resource.merge == Merge::kCpusetLooser) return union_of(text, current);
  auto wanted = comparable(resource, version, text);
  if (!wanted) return wanted.error();
  auto held = comparable(resource, version, current);
  if (!held) return held.error();
  const bool first_pass = resource.merge == Merge::kSmaller ? wanted.value() < held.value()
                                                            : wanted.value() > held.value();
  if (!first_pass) return std::optional<std::string>{};
  return std::optional<std::string>(text);
}

}  // namespace koord::cgroup
