// SPDX-License-Identifier: Apache-2.0
// memory.stat, memory.numa_stat, memory.idle_page_stats.
#include <algorithm>

#include "cgroup_fields.hpp"

namespace koord::cgroup {
namespace {

constexpr std::int64_t kPageBytes = 4096;

std::int64_t add_saturating(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kInt64Max : sum;
}

// The `N<i>=<value>` fields after the first of a line that must begin with `name`.
Result<std::vector<NumaPages>> numa_line(std::string_view line, std::string_view name) {
  std::string_view rest = line;
  if (!text::take_field(rest).starts_with(name)) {
    return invalid("memory.numa_stat", line, "a line that begins with " + std::string(name));
  }
  std::vector<NumaPages> nodes;
  for (auto field = text::take_field(rest); !field.empty(); field = text::take_field(rest)) {
    std::string_view value = field;
    const auto label = text::take_until(value, '=');
    const auto node =
        label.starts_with('N') ? text::integer<std::int32_t>(label.substr(1)) : std::nullopt;
    const auto amount = text::integer<std::int64_t>(value);
    if (!node || *node < 0 || !amount || *amount < 0) {
      return invalid("memory.numa_stat", field, "N<node>=<amount>");
    }
    nodes.push_back({*node, *amount});
  }
  return nodes;
}

Result<std::vector<NumaPages>> numa_stat_v2(std::string_view text) {
  auto anon = numa_line(text::take_until(text, '\n'), "anon");
  if (!anon) return anon;
  auto file = numa_line(text::take_until(text, '\n'), "file");
  if (!file) return file;
  auto& nodes = anon.value();
  if (file.value().size() != nodes.size()) {
    return invalid("memory.numa_stat", std::to_string(file.value().size()),
                   "as many nodes of file as of anon, " + std::to_string(nodes.size()));
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NumaPages& of_file = file.value()[i];
    const auto want = static_cast<std::int64_t>(i);
    if (nodes[i].node != want || of_file.node != want) {
      return invalid("memory.numa_stat", std::to_string(nodes[i].node), "nodes from 0 in order");
    }
    nodes[i].pages = nodes[i].pages / kPageBytes + of_file.pages / kPageBytes;
  }
  return anon;
}

constexpr std::size_t kIdleLines = 31;
constexpr std::size_t kIdleFirstRow = 14;
constexpr std::string_view kIdleField = "memory.idle_page_stats";

// The value of a header line `# key: value`.
Result<std::string_view> idle_header(std::string_view line, std::string_view key) {
  const auto fields = text::fields(line);
  const bool ok = fields.size() == 3 && fields[0] == "#" && fields[1].ends_with(':') &&
                  fields[1].substr(0, fields[1].size() - 1) == key;
  if (!ok) return invalid(kIdleField, line, "# " + std::string(key) + ": VALUE");
  return fields[2];
}

Result<std::int64_t> idle_number(std::string_view text) {
  const auto value = text::integer<std::int64_t>(text);
  if (!value || *value < 0) return invalid(kIdleField, text, "an int64 that is not negative");
  return *value;
}

Result<std::vector<std::int64_t>> idle_bounds(std::string_view text) {
  std::vector<std::int64_t> bounds;
  for (const auto piece : text::split(text, ',')) {
    auto bound = idle_number(piece);
    if (!bound) return bound.error();
    bounds.push_back(bound.value());
  }
  return bounds;
}

// The numbers of a line that must begin with `name`; `expected` is how many there are as a rule.
Result<std::vector<std::int64_t>> idle_row(std::string_view line, std::string_view name,
                                           std::size_t expected) {
  std::string_view rest = line;
  if (text::take_field(rest) != name) {
    return invalid(kIdleField, line, "the row " + std::string(name));
  }
  std::vector<std::int64_t> values;
  values.reserve(expected);
  for (auto field = text::take_field(rest); !field.empty(); field = text::take_field(rest)) {
    // A hundred and more of them a cgroup: no result is made of each that is well.
    const auto value = text::integer<std::int64_t>(field);
    if (!value || *value < 0) return idle_number(field).error();
    values.push_back(*value);
  }
  return values;
}

std::optional<Error> idle_headers(const std::vector<std::string_view>& lines,
                                  IdlePageStats& stats) {
  std::int64_t hierarchy = 0;
  const std::array<std::pair<std::string_view, std::int64_t*>, 4> scalars = {
      {{"page_scans", &stats.page_scans},
       {"slab_scans", &stats.slab_scans},
       {"scan_period_in_seconds", &stats.scan_period_seconds},
       {"use_hierarchy", &hierarchy}}};
  auto version = idle_header(lines[0], "version");
  if (!version) return version.error();
  stats.version = version.value();
  for (std::size_t i = 0; i < scalars.size(); ++i) {
    auto header = idle_header(lines[i + 1], scalars[i].first);
    if (!header) return header.error();
    auto number = idle_number(header.value());
    if (!number) return number.error();
    *scalars[i].second = number.value();
  }
  stats.use_hierarchy = hierarchy != 0;
  auto buckets = idle_header(lines[5], "buckets");
  if (!buckets) return buckets.error();
  auto bounds = idle_bounds(buckets.value());
  if (!bounds) return bounds.error();
  stats.buckets = std::move(bounds).value();
  return std::nullopt;
}

}  // namespace

std::int64_t MemoryStat::usage() const {
  return add_saturating(add_saturating(inactive_anon, active_anon), unevictable);
}

std::int64_t MemoryStat::usage_with_page_cache() const {
  return add_saturating(usage(), add_saturating(active_file, inactive_file));
}

Result<MemoryStat> parse_memory_stat(std::string_view text, Version version) {
  const bool v1 = version == Version::kV1;
  const std::string prefix = v1 ? "total_" : "";
  FieldReader reader("memory.stat", text);
  MemoryStat stat;
  stat.cache = reader.get(v1 ? "total_cache" : "file");
  stat.rss = reader.get(v1 ? "total_rss" : "anon");
  stat.inactive_file = reader.get(prefix + "inactive_file");
  stat.active_file = reader.get(prefix + "active_file");
  stat.inactive_anon = reader.get(prefix + "inactive_anon");
  stat.active_anon = reader.get(prefix + "active_anon");
  stat.unevictable = reader.get(prefix + "unevictable");
  return reader.result(stat);
}

Result<std::vector<NumaPages>> parse_numa_stat(std::string_view text, Version version) {
  if (version == Version::kV2) return numa_stat_v2(text);
  return numa_line(text::take_until(text, '\n'), "total");
}

const std::array<std::string_view, IdlePageStats::kRows> IdlePageStats::kRowNames = {
    "csei", "dsei", "cfei", "dfei", "csui", "dsui", "cfui", "dfui", "csea",
    "dsea", "cfea", "dfea", "csua", "dsua", "cfua", "dfua", "slab"};

Result<std::int64_t> IdlePageStats::cold_bytes(int boundary) const {
  std::int64_t total = 0;
  for (int row = 0; row < kRows; ++row) {
    const auto index = static_cast<std::size_t>(row);
    const auto name = kRowNames[index];
    // File pages that are inactive, clean or dirty, evictable or not.
    if (name == "slab" || name[1] != 'f' || name[3] != 'i') continue;
    for (auto i = static_cast<std::size_t>(std::max(boundary, 0)); i < bytes[index].size(); ++i) {
      if (__builtin_add_overflow(total, bytes[index][i], &total)) {
        return invalid(kIdleField, std::to_string(bytes[index][i]), "a sum that fits an int64");
      }
    }
  }
  return total;
}

Result<IdlePageStats> parse_idle_page_stats(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  const auto lines = text::split(text, '\n');
  if (lines.size() != kIdleLines) {
    return invalid(kIdleField, std::to_string(lines.size()) + " lines", "31 lines");
  }
  IdlePageStats stats;
  if (auto error = idle_headers(lines, stats)) return *std::move(error);
  for (std::size_t row = 0; row < IdlePageStats::kRowNames.size(); ++row) {
    auto values =
        idle_row(lines[kIdleFirstRow + row], IdlePageStats::kRowNames[row], stats.buckets.size());
    if (!values) return values.error();
    stats.bytes[row] = std::move(values).value();
  }
  return stats;
}

}  // namespace koord::cgroup
