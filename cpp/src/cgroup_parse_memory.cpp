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

using IdleTexts = std::array<std::string_view, kIdleLines>;

Result<IdleTexts> idle_lines(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  const auto count = std::count(text.begin(), text.end(), '\n') + 1;
  if (count != static_cast<std::ptrdiff_t>(kIdleLines)) {
    return invalid(kIdleField, std::to_string(count) + " lines", "31 lines");
  }
  IdleTexts lines;
  for (auto& line : lines) line = text::take_until(text, '\n');
  return lines;
}

// The value of a header line `# key: value`.
Result<std::string_view> idle_header(std::string_view line, std::string_view key) {
  std::string_view rest = line;
  const auto mark = text::take_field(rest);
  const auto name = text::take_field(rest);
  const auto value = text::take_field(rest);
  const bool ok = mark == "#" && name.ends_with(':') && name.substr(0, name.size() - 1) == key &&
                  !value.empty() && text::take_field(rest).empty();
  if (!ok) return invalid(kIdleField, line, "# " + std::string(key) + ": VALUE");
  return value;
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

// File pages that are inactive, clean or dirty, evictable or not.
bool is_cold_row(std::size_t row) {
  const auto name = IdlePageStats::kRowNames[row];
  return name != "slab" && name[1] == 'f' && name[3] == 'i';
}

// A sum that may leave the range of an int64.
class ColdSum {
 public:
  explicit ColdSum(int boundary) : first_(static_cast<std::size_t>(std::max(boundary, 0))) {}

  void add(std::size_t row, std::size_t column, std::int64_t bytes) {
    if (column < first_ || !is_cold_row(row)) return;
    if (__builtin_add_overflow(total_, bytes, &total_) && !overflows_) {
      overflows_ = true;
      beyond_ = bytes;
    }
  }

  [[nodiscard]] Result<std::int64_t> result() const {
    if (overflows_) {
      return invalid(kIdleField, std::to_string(beyond_), "a sum that fits an int64");
    }
    return total_;
  }

 private:
  std::size_t first_;
  std::int64_t total_ = 0;
  bool overflows_ = false;
  std::int64_t beyond_ = 0;  // The first that does.
};

std::optional<Error> idle_headers(const IdleTexts& lines, IdlePageStats& stats) {
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

// Checks the whole file. `take(row, column, bytes)` gets each number of its rows.
template <class Take>
std::optional<Error> read_idle(std::string_view text, IdlePageStats& stats, Take take) {
  auto lines = idle_lines(text);
  if (!lines) return lines.error();
  if (auto error = idle_headers(lines.value(), stats)) return error;
  for (std::size_t row = 0; row < IdlePageStats::kRowNames.size(); ++row) {
    const std::string_view line = lines.value()[kIdleFirstRow + row];
    std::string_view rest = line;
    if (text::take_field(rest) != IdlePageStats::kRowNames[row]) {
      return invalid(kIdleField, line, "the row " + std::string(IdlePageStats::kRowNames[row]));
    }
    std::size_t column = 0;
    for (auto field = text::take_field(rest); !field.empty(); field = text::take_field(rest)) {
      // A hundred and more of them a cgroup: no result is made of each that is well.
      const auto value = text::integer<std::int64_t>(field);
      if (!value || *value < 0) return idle_number(field).error();
      take(row, column++, *value);
    }
  }
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
  static constexpr std::array<std::string_view, 7> kV1Keys = {
      "total_cache",         "total_rss",         "total_inactive_file", "total_active_file",
      "total_inactive_anon", "total_active_anon", "total_unevictable"};
  static constexpr std::array<std::string_view, 7> kV2Keys = {
      "file",          "anon",        "inactive_file", "active_file",
      "inactive_anon", "active_anon", "unevictable"};
  FieldReader reader("memory.stat", text, version == Version::kV1 ? kV1Keys : kV2Keys);
  MemoryStat stat;
  stat.cache = reader.get(0);
  stat.rss = reader.get(1);
  stat.inactive_file = reader.get(2);
  stat.active_file = reader.get(3);
  stat.inactive_anon = reader.get(4);
  stat.active_anon = reader.get(5);
  stat.unevictable = reader.get(6);
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
  ColdSum sum(boundary);
  for (std::size_t row = 0; row < bytes.size(); ++row) {
    for (std::size_t column = 0; column < bytes[row].size(); ++column) {
      sum.add(row, column, bytes[row][column]);
    }
  }
  return sum.result();
}

Result<IdlePageStats> parse_idle_page_stats(std::string_view text) {
  IdlePageStats stats;
  const auto keep = [&stats](std::size_t row, std::size_t, std::int64_t bytes) {
    stats.bytes[row].push_back(bytes);
  };
  if (auto error = read_idle(text, stats, keep)) return *std::move(error);
  return stats;
}

Result<std::int64_t> parse_cold_bytes(std::string_view text, int boundary) {
  IdlePageStats headers;
  ColdSum sum(boundary);
  const auto add = [&sum](std::size_t row, std::size_t column, std::int64_t bytes) {
    sum.add(row, column, bytes);
  };
  if (auto error = read_idle(text, headers, add)) return *std::move(error);
  return sum.result();
}

}  // namespace koord::cgroup
