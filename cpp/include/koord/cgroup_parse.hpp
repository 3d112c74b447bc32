// SPDX-License-Identifier: Apache-2.0
// The texts of cgroup and /proc files as numbers, and the numbers of cgroup v1 as those of v2. Pure
// functions: nothing is opened here. Every parser fails with kInvalid, naming the field.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "koord/error.hpp"

namespace koord::cgroup {

/// The two layouts of the cgroup file system.
enum class Version { kV1 = 1, kV2 = 2 };

inline constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
/// From here on memory.limit_in_bytes means no limit: the largest whole number of pages.
inline constexpr std::int64_t kMemoryUnlimitedBytes = 0x7FFFFFFFFFFFF000;
inline constexpr std::int64_t kCfsPeriodUs = 100000;
inline constexpr std::int64_t kCfsQuotaMinUs = 1000;
inline constexpr std::int64_t kSharesMin = 2;
inline constexpr std::int64_t kSharesMax = 262144;
inline constexpr std::int64_t kWeightMin = 1;
inline constexpr std::int64_t kWeightMax = 10000;

/// Conversions, all in truncating integer arithmetic.
KOORD_API Result<std::int64_t> shares_to_weight(std::int64_t shares);
KOORD_API Result<std::int64_t> weight_to_shares(std::int64_t weight);
KOORD_API std::int64_t milli_cpu_to_shares(std::int64_t milli);
/// Microseconds of a period of kCfsPeriodUs; -1 (no limit) for milli <= 0.
KOORD_API std::int64_t milli_cpu_to_quota_us(std::int64_t milli);

/// One decimal int64, white space around it ignored; `max` gives `when_max`: -1 for signed readers,
/// kInt64Max for 64-bit and kInt32Max for 32-bit unsigned ones.
KOORD_API Result<std::int64_t> parse_int64(std::string_view field, std::string_view text,
                                           std::int64_t when_max = -1);
/// memory.limit_in_bytes or memory.max: -1 when there is no limit.
KOORD_API Result<std::int64_t> parse_memory_limit(std::string_view text);

/// First two fields of each line; lines with fewer are skipped. Views into `text`.
using KeyValues = std::vector<std::pair<std::string_view, std::string_view>>;
KOORD_API KeyValues parse_key_values(std::string_view text);

struct CpuStat {
  std::int64_t periods = 0;
  std::int64_t throttled = 0;
  std::int64_t throttled_ns = 0;
};
KOORD_API Result<CpuStat> parse_cpu_stat(std::string_view text, Version version);
/// Throttled periods over periods between two readings; 0 when no period passed.
KOORD_API double throttled_ratio(const CpuStat& before, const CpuStat& after);

/// Nanoseconds of CPU time: v1 cpuacct.usage, v2 usage_usec of cpu.stat.
KOORD_API Result<std::int64_t> parse_cpu_usage_ns(std::string_view text, Version version);

/// cpu.max: quota (-1 for `max`) without looking at the period, and the period without the quota.
KOORD_API Result<std::int64_t> parse_cpu_max_quota(std::string_view text);
KOORD_API Result<std::int64_t> parse_cpu_max_period(std::string_view text);

/// Bytes; `cache` and `rss` are v2's file and anon.
struct KOORD_API MemoryStat {
  std::int64_t cache = 0, rss = 0;
  std::int64_t inactive_file = 0, active_file = 0;
  std::int64_t inactive_anon = 0, active_anon = 0;
  std::int64_t unevictable = 0;
  [[nodiscard]] std::int64_t usage() const;
  [[nodiscard]] std::int64_t usage_with_page_cache() const;
};
KOORD_API Result<MemoryStat> parse_memory_stat(std::string_view text, Version version);

struct NumaPages {
  std::int64_t node = 0;
  std::int64_t pages = 0;
};
/// memory.numa_stat: v1's `total` line, v2's anon and file bytes in pages of 4 KiB.
KOORD_API Result<std::vector<NumaPages>> parse_numa_stat(std::string_view text, Version version);

struct PressureLine {
  double avg10 = 0, avg60 = 0, avg300 = 0;  ///< percent of the time
  std::int64_t total_us = 0;
};
struct Pressure {
  PressureLine some, full;
  bool full_supported = false;  ///< the `full` line was there
};
KOORD_API Result<Pressure> parse_pressure(std::string_view text);

/// memory.idle_page_stats of kernels with kidled. Rows are named by four letters: clean or dirty,
/// swap or file, evictable or unevictable, inactive or active; the last one is slab.
struct KOORD_API IdlePageStats {
  static constexpr int kRows = 17;
  static constexpr int kDefaultBoundary = 5;
  static const std::array<std::string_view, kRows> kRowNames;

  std::string version;
  std::int64_t page_scans = 0, slab_scans = 0, scan_period_seconds = 0;
  bool use_hierarchy = false;
  std::vector<std::int64_t> buckets;                   ///< scan periods where each column begins
  std::array<std::vector<std::int64_t>, kRows> bytes;  ///< per row, one a bucket
  /// File pages that are inactive since `boundary` columns, in bytes; kInvalid on overflow.
  [[nodiscard]] Result<std::int64_t> cold_bytes(int boundary = kDefaultBoundary) const;
};
KOORD_API Result<IdlePageStats> parse_idle_page_stats(std::string_view text);
/// What cold_bytes() of such a file's figures gives, without keeping them.
KOORD_API Result<std::int64_t> parse_cold_bytes(std::string_view text,
                                                int boundary = IdlePageStats::kDefaultBoundary);

struct ProcStat {
  std::string command;
  char state = '?';
  std::int32_t parent = 0;
  std::int32_t group = 0;
};
/// /proc/PID/stat. The command ends at the last ')': a process may put one into its own name.
KOORD_API Result<ProcStat> parse_proc_stat(std::string_view text);

/// tasks, cgroup.threads, cgroup.procs: one id a line, in file order.
KOORD_API Result<std::vector<std::int32_t>> parse_ids(std::string_view text);
/// The wanted ids that `text` (such a file) does not hold: ascending, each once.
KOORD_API Result<std::vector<std::int32_t>> ids_to_add(std::string_view text,
                                                       std::vector<std::int32_t> wanted);

struct DeviceValue {
  std::int32_t major = 0, minor = 0;
  std::int64_t value = 0;
};
/// blkio.throttle.* and blkio.cost.weight: lines `MAJ:MIN VALUE`; other lines are skipped.
KOORD_API Result<std::vector<DeviceValue>> parse_device_values(std::string_view text);

struct SchedFeatures {
  std::vector<std::pair<std::string, bool>> enabled;  ///< in file order, each name once
  std::vector<std::string> conflicts;                 ///< named with both signs; the first counts
};
KOORD_API SchedFeatures parse_sched_features(std::string_view text);

}  // namespace koord::cgroup
