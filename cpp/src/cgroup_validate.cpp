// SPDX-License-Identifier: Apache-2.0
#include "cgroup_validate.hpp"

#include <array>

#include "koord/cpuset.hpp"
#include "text.hpp"

namespace koord::cgroup {
namespace {

// What follows MAJ:MIN: names that carry a number, and names whose value is fixed.
constexpr std::array<std::string_view, 6> kQosForm = {
    "enable=1", "ctrl=user", "rpct=", "rlat=", "wpct=", "wlat="};
constexpr std::array<std::string_view, 7> kModelForm = {
    "ctrl=user", "rbps=", "rseqiops=", "rrandiops=", "wbps=", "wseqiops=", "wrandiops="};
constexpr std::array<std::string_view, 1> kValueForm = {""};

std::string range_text(const Range& range) {
  return std::to_string(range.min) + " to " + std::to_string(range.max);
}

bool in_range(std::string_view text, const Range& range) {
  const auto value = text::integer<std::int64_t>(text);
  return value && *value >= range.min && *value <= range.max;
}

bool is_device(std::string_view text) {
  const auto major = text::integer<std::uint32_t>(text::take_until(text, ':'));
  return major && text::integer<std::uint32_t>(text).has_value();
}

std::span<const std::string_view> blkio_form(Kind kind) {
  if (kind == Kind::kBlkioQos) return kQosForm;
  if (kind == Kind::kBlkioModel) return kModelForm;
  return kValueForm;
}

// A line with another number of fields, such as `253:16 enable=0`, is left to the kernel to judge.
bool valid_blkio(const ResourceSpec& resource, Version version, std::string_view line,
                 const Range& range) {
  const auto form = blkio_form(resource.kind);
  const auto fields = text::split(line, ' ');
  const bool limit = !resource.in(version).field.empty();
  if (fields.size() != form.size() + 1) return !limit;
  if (!is_device(fields[0])) return false;
  // In v2 a device that is to have no weight of its own gets the one of all devices.
  const bool weight = version == Version::kV2 && resource.kind == Kind::kBlkioDevice && !limit;
  if (weight && fields[1] == "default") return true;
  for (std::size_t i = 0; i < form.size(); ++i) {
    const auto field = fields[i + 1];
    const bool fixed = !form[i].empty() && !form[i].ends_with('=');
    if (fixed && field != form[i]) return false;
    if (!fixed && !(field.starts_with(form[i]) && in_range(field.substr(form[i].size()), range))) {
      return false;
    }
  }
  return true;
}

// Hex ids are the ones that tc writes, whose digits are decimal by convention.
bool valid_class_id(std::string_view text) {
  if (!text.starts_with("0x")) {
    const auto value = text::integer<std::int32_t>(text);
    return value && *value >= 0;
  }
  text.remove_prefix(2);
  constexpr std::size_t kDigitsMax = 8;
  return !text.empty() && text.size() <= kDigitsMax &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::optional<Error> validate(const ResourceSpec& resource, Version version,
                              std::string_view value) {
  const Range range = resource.in(version).range.value_or(Range{0, kInt64Max});
  switch (resource.kind) {
    case Kind::kCpuList: {
      auto cpus = CpuSet::parse_wire(value);
      if (!cpus) return invalid(resource.key, value, cpus.error().expected);
      return std::nullopt;
    }
    case Kind::kIds:
      if (!in_range(value, {0, kInt32Max})) return invalid(resource.key, value, "one id");
      return std::nullopt;
    case Kind::kClassId:
      if (!valid_class_id(value)) {
        return invalid(resource.key, value, "0x and up to 8 decimal digits, or 0 to 2147483647");
      }
      return std::nullopt;
    case Kind::kBlkioDevice:
    case Kind::kBlkioQos:
    case Kind::kBlkioModel:
      if (valid_blkio(resource, version, value, range)) return std::nullopt;
      return invalid(resource.key, value, "MAJ:MIN and values of " + range_text(range));
    case Kind::kText:
      return std::nullopt;
    default: {
      const auto number = value == "max" ? kInt64Max : text::integer<std::int64_t>(value);
      if (number && *number >= range.min && *number <= range.max) return std::nullopt;
      return invalid(resource.key, value, range_text(range));
    }
  }
}

}  // namespace koord::cgroup
