// SPDX-License-Identifier: Apache-2.0
// Files that list things: threads, devices, scheduler features; and /proc/PID/stat.
#include <algorithm>

#include "koord/cgroup_parse.hpp"
#include "text.hpp"

namespace koord::cgroup {

Result<ProcStat> parse_proc_stat(std::string_view text) {
  constexpr std::string_view kForm = "PID (COMMAND) STATE PPID PGRP ...";
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return invalid("/proc/PID/stat", text, kForm);
  }
  std::string_view rest = text.substr(close + 1);
  const auto state = text::take_field(rest);
  const auto parent = text::integer<std::int32_t>(text::take_field(rest));
  const auto group = text::integer<std::int32_t>(text::take_field(rest));
  if (state.size() != 1 || !parent || !group) return invalid("/proc/PID/stat", text, kForm);
  return ProcStat{std::string(text.substr(open + 1, close - open - 1)), state[0], *parent, *group};
}

Result<std::vector<std::int32_t>> parse_ids(std::string_view text) {
  std::vector<std::int32_t> ids;
  while (!text.empty()) {
    const auto line = text::trim(text::take_until(text, '\n'));
    if (line.empty()) continue;
    const auto id = text::integer<std::int32_t>(line);
    if (!id || *id < 0) return invalid("tasks", line, "one id a line");
    ids.push_back(*id);
  }
  return ids;
}

Result<std::vector<std::int32_t>> ids_to_add(std::string_view text,
                                             std::vector<std::int32_t> wanted) {
  auto present = parse_ids(text);
  if (!present) return present;
  auto& have = present.value();
  std::sort(have.begin(), have.end());
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::vector<std::int32_t> missing;
  std::set_difference(wanted.begin(), wanted.end(), have.begin(), have.end(),
                      std::back_inserter(missing));
  return missing;
}

Result<std::vector<DeviceValue>> parse_device_values(std::string_view text) {
  std::vector<DeviceValue> found;
  while (!text.empty()) {
    const auto line = text::take_until(text, '\n');
    const auto fields = text::fields(line);
    // blkio.cost files also hold lines of other forms, such as the `Total` of statistics.
    if (fields.size() != 2 || fields[0].find(':') == std::string_view::npos) continue;
    std::string_view minor_text = fields[0];
    const auto major = text::integer<std::int32_t>(text::take_until(minor_text, ':'));
    const auto minor = text::integer<std::int32_t>(minor_text);
    const auto value = text::integer<std::int64_t>(fields[1]);
    if (!major || !minor || !value) return invalid("blkio", line, "MAJ:MIN VALUE");
    found.push_back({*major, *minor, *value});
  }
  return found;
}

SchedFeatures parse_sched_features(std::string_view text) {
  SchedFeatures features;
  for (auto field = text::take_field(text); !field.empty(); field = text::take_field(text)) {
    const bool enabled = !field.starts_with("NO_");
    const std::string name(enabled ? field : field.substr(3));
    const auto same = [&](const auto& known) { return known.first == name; };
    const auto known = std::find_if(features.enabled.begin(), features.enabled.end(), same);
    if (known == features.enabled.end()) {
      features.enabled.emplace_back(name, enabled);
    } else if (known->second != enabled) {
      features.conflicts.push_back(name);
    }
  }
  return features;
}

}  // namespace koord::cgroup
