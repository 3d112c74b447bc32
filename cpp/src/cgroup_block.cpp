// SPDX-License-Identifier: Apache-2.0
// Rules: Documentation/admin-guide/cgroup-v2.rst (IO), block/blk-throttle.c, block/blk-iocost.c.
#include "cgroup_block.hpp"

#include <cstdint>
#include <limits>
#include <optional>

#include "text.hpp"

namespace koord::cgroup {
namespace {

constexpr std::string_view kNone = "max";
constexpr std::string_view kDefault = "default";

// What follows `key` in its line; nothing without a line.
std::optional<std::string_view> line_of(std::string_view key, std::string_view current) {
  while (!current.empty()) {
    auto line = text::take_until(current, '\n');
    if (text::take_field(line) == key) return text::trim(line);
  }
  return std::nullopt;
}

std::optional<std::string_view> named(std::string_view name, std::string_view line) {
  for (auto field = text::take_field(line); !field.empty(); field = text::take_field(line)) {
    if (text::take_until(field, '=') == name) return field;
  }
  return std::nullopt;
}

// Percentages are printed with two decimals.
std::string_view plain(std::string_view number) {
  if (number.find('.') == std::string_view::npos) return number;
  number = number.substr(0, number.find_last_not_of('0') + 1);
  return number.ends_with('.') ? number.substr(0, number.size() - 1) : number;
}

// What the kernel says of a device that nobody has set anything for.
std::string_view unset(const ResourceSpec& resource, std::string_view name) {
  if (resource.kind == Kind::kBlkioDevice) return kNone;
  if (name == "enable") return "0";
  return name == "ctrl" ? "auto" : "";
}

bool same_names(const ResourceSpec& resource, std::string_view text, std::string_view current) {
  const auto device = text::take_field(text);
  const auto line = line_of(device, current);
  for (auto field = text::take_field(text); !field.empty(); field = text::take_field(text)) {
    const auto name = text::take_until(field, '=');
    const auto held = line ? named(name, *line) : unset(resource, name);
    if (!held || plain(*held) != plain(field)) return false;
  }
  return true;
}

// A throttle of 0 removes a device's line, so it says nothing new where there is none.
bool same_value(std::string_view text, std::string_view current) {
  const auto device = text::take_field(text);
  const auto line = line_of(device, current);
  text = text::trim(text);
  return text == "0" ? !line : line == text;
}

// A device without a weight of its own has the default one.
bool same_weight(std::string_view text, std::string_view current) {
  const auto device = text::take_field(text);
  const auto line = line_of(device, current);
  text = text::trim(text);
  if (text == kDefault) return !line;
  return (line ? line : line_of(kDefault, current)) == text;
}

}  // namespace

std::string device_text(const ResourceSpec& resource, Version version, std::string_view value) {
  const auto name = resource.in(version).field;
  if (name.empty()) return std::string(value);
  std::string text(text::take_field(value));
  const auto limit = text::integer<std::int64_t>(text::trim(value)).value_or(0);
  // The kernel keeps operations in 32 bits, the largest of which is none.
  const bool operations = name.ends_with("iops");
  const bool none =
      limit == 0 || (operations && limit >= std::numeric_limits<std::uint32_t>::max());
  text.append(" ").append(name).append("=");
  return text.append(none ? std::string(kNone) : std::to_string(limit));
}

bool says_same_of_device(const ResourceSpec& resource, Version version, std::string_view text,
                         std::string_view current) {
  const bool names = text.find('=') != std::string_view::npos;
  if (names) return same_names(resource, text, current);
  if (version == Version::kV1) return same_value(text, current);
  return same_weight(text, current);
}

}  // namespace koord::cgroup
