// SPDX-License-Identifier: Apache-2.0
// Every file as data.
#include <algorithm>
#include <array>

#include "koord/cgroup.hpp"

namespace koord::cgroup {
namespace {

using enum Kind;
constexpr Support kAlways = Support::kAlways;
constexpr Support kFile = Support::kFile;
constexpr Support kKubepods = Support::kKubepods;
constexpr bool kReadOnly = false;
constexpr bool kWritable = true;
constexpr FileSpec kNone{};

constexpr FileSpec v1(std::string_view subsystem, std::string_view file, Support support,
                      std::optional<Range> range = {}) {
  return {subsystem, file, support, range, {}};
}
constexpr FileSpec v2(std::string_view file, Support support, std::optional<Range> range = {},
                      std::string_view read_file = {}) {
  return {"", file, support, range, read_file};
}
constexpr ResourceSpec row(std::string_view key, Kind kind, bool writable, Merge merge,
                           FileSpec in_v1, FileSpec in_v2) {
  return {key, Base::kCgroup, kind, writable, merge, in_v1, in_v2};
}
constexpr Range kBool{0, 1};
constexpr Range kNatural{0, kInt64Max};

// Files that read alike in both versions.
constexpr ResourceSpec same(std::string_view key, std::string_view subsystem, Kind kind,
                            Support in_v1, Support in_v2, std::optional<Range> range = {},
                            Merge merge = Merge::kNone) {
  return row(key, kind, range.has_value(), merge, v1(subsystem, key, in_v1, range),
             v2(key, in_v2, range));
}
constexpr ResourceSpec throttle(std::string_view key, std::string_view field) {
  return row(key, kBlkioDevice, kWritable, Merge::kNone, v1("blkio", key, kKubepods, kNatural),
             {"", "io.max", kFile, kNatural, {}, field});
}
constexpr ResourceSpec io_cost(std::string_view key, std::string_view in_v2, Kind kind,
                               Range range) {
  return row(key, kind, kWritable, Merge::kNone, v1("blkio", key, Support::kRoot, range),
             v2(in_v2, Support::kRoot, range));
}
constexpr ResourceSpec pagecache(std::string_view key, Range range) {
  return row(key, kInteger, kWritable, Merge::kNone, kNone, v2(key, kFile, range));
}
constexpr ResourceSpec system(Base base, std::string_view directory, std::string_view key,
                              Kind kind, Support support, std::optional<Range> range) {
  const FileSpec file{directory, key, support, range, {}};
  return {key, base, kind, kWritable, Merge::kNone, file, file};
}

constexpr std::array kCatalogue = {
    row("cpu.shares", kShares, kWritable, Merge::kNone,
        v1("cpu", "cpu.shares", kAlways, Range{kSharesMin, kSharesMax}),
        v2("cpu.weight", kAlways, Range{kWeightMin, kWeightMax})),
    row("cpu.cfs_quota_us", kQuota, kWritable, Merge::kQuotaLarger,
        v1("cpu", "cpu.cfs_quota_us", kAlways), v2("cpu.max", kAlways)),
    row("cpu.cfs_period_us", kPeriod, kWritable, Merge::kNone,
        v1("cpu", "cpu.cfs_period_us", kAlways), v2("cpu.max", kAlways)),
    row("cpu.cfs_burst_us", kInteger, kWritable, Merge::kSmaller,
        v1("cpu", "cpu.cfs_burst_us", kFile, Range{0, 100000000}),
        v2("cpu.max.burst", kKubepods, kNatural)),
    same("cpu.bvt_warp_ns", "cpu", kInteger, kFile, kFile, Range{-1, 2}),
    same("cpu.idle", "cpu", kInteger, kKubepods, kKubepods, kBool),
    same("cpu.stat", "cpu", kCpuStat, kAlways, kAlways),
    row("tasks", kIds, kWritable, Merge::kNone, v1("cpu", "tasks", kAlways),
        v2("cgroup.threads", kAlways)),
    row("cgroup.procs", kIds, kWritable, Merge::kNone, v1("cpu", "cgroup.procs", kAlways),
        v2("cgroup.procs", kAlways)),
    row("cpuset.cpus", kCpuList, kWritable, Merge::kCpusetLooser,
        v1("cpuset", "cpuset.cpus", kAlways),
        v2("cpuset.cpus", kAlways, {}, "cpuset.cpus.effective")),
    row("cpuset.cpus.effective", kCpuList, kReadOnly, Merge::kNone, kNone,
        v2("cpuset.cpus.effective", kAlways)),
    row("cpuacct.stat", kText, kReadOnly, Merge::kNone, v1("cpuacct", "cpuacct.stat", kAlways),
        v2("cpu.stat", kAlways)),
    row("cpuacct.usage", kCpuUsage, kReadOnly, Merge::kNone,
        v1("cpuacct", "cpuacct.usage", kAlways), v2("cpu.stat", kAlways)),
    same("cpu.pressure", "cpuacct", kPressure, kKubepods, kKubepods),
    same("memory.pressure", "cpuacct", kPressure, kKubepods, kKubepods),
    same("io.pressure", "cpuacct", kPressure, kKubepods, kKubepods),

    row("memory.limit_in_bytes", kMemoryLimit, kWritable, Merge::kNone,
        v1("memory", "memory.limit_in_bytes", kAlways), v2("memory.max", kAlways)),
    row("memory.usage_in_bytes", kInteger, kReadOnly, Merge::kNone,
        v1("memory", "memory.usage_in_bytes", kAlways), v2("memory.current", kAlways)),
    same("memory.stat", "memory", kMemoryStat, kAlways, kAlways),
    same("memory.numa_stat", "memory", kText, kAlways, kAlways),
    same("memory.min", "memory", kInteger, kKubepods, kAlways, kNatural, Merge::kLarger),
    same("memory.low", "memory", kInteger, kKubepods, kAlways, kNatural, Merge::kLarger),
    same("memory.high", "memory", kInteger, kKubepods, kAlways, kNatural, Merge::kLarger),
    same("memory.wmark_ratio", "memory", kInteger, kKubepods, kFile, Range{0, 100}),
    same("memory.wmark_scale_factor", "memory", kInteger, kKubepods, kFile, Range{1, 1000}),
    same("memory.wmark_min_adj", "memory", kInteger, kKubepods, kFile, Range{-25, 50}),
    same("memory.priority", "memory", kInteger, kKubepods, kFile, Range{0, 12}),
    same("memory.use_priority_oom", "memory", kInteger, kKubepods, kFile, kBool),
    same("memory.oom.group", "memory", kInteger, kKubepods, kFile, kBool),
    row("memory.idle_page_stats", kIdlePages, kReadOnly, Merge::kNone,
        v1("memory", "memory.idle_page_stats", kKubepods), kNone),
    pagecache("memory.pagecache_limit.enable", kBool),
    pagecache("memory.pagecache_limit.sync", kBool),
    pagecache("memory.pagecache_limit.size", kNatural),

    throttle("blkio.throttle.read_iops_device", "riops"),
    throttle("blkio.throttle.write_iops_device", "wiops"),
    throttle("blkio.throttle.read_bps_device", "rbps"),
    throttle("blkio.throttle.write_bps_device", "wbps"),
    row("blkio.cost.weight", kBlkioDevice, kWritable, Merge::kNone,
        v1("blkio", "blkio.cost.weight", kKubepods, Range{1, 100}),
        v2("io.weight", kFile, Range{kWeightMin, kWeightMax})),
    io_cost("blkio.cost.qos", "io.cost.qos", kBlkioQos, kNatural),
    io_cost("blkio.cost.model", "io.cost.model", kBlkioModel, Range{1, kInt64Max}),
    // There is no such file in v2, but hosts that mount both keep the v1 hierarchy for it.
    row("net_cls.classid", kClassId, kWritable, Merge::kNone,
        v1("net_cls", "net_cls.classid", kKubepods), v1("net_cls", "net_cls.classid", kKubepods)),

    system(Base::kProc, "sys/vm", "min_free_kbytes", kInteger, kAlways, Range{10240, 10485760}),
    system(Base::kProc, "sys/vm", "watermark_scale_factor", kInteger, kAlways, Range{10, 400}),
    system(Base::kSys, "kernel/mm/memcg_reaper", "reap_background", kInteger, kFile, kBool),
    system(Base::kSys, "kernel/mm/pagecache_limit", "enabled", kInteger, kFile, kBool),
    system(Base::kSys, "kernel/mm/kidled", "scan_period_in_seconds", kInteger, kFile, kNatural),
    system(Base::kSys, "kernel/mm/kidled", "use_hierarchy", kInteger, kFile, kBool),
    system(Base::kSys, "kernel/debug", "sched_features", kText, kFile, {}),
    system(Base::kProc, "sys/kernel", "sched_group_identity_enabled", kInteger, kFile, kBool),
    system(Base::kProc, "sys/kernel", "sched_idle_saver_wmark", kText, kFile, {}),
    system(Base::kProc, "sys/kernel", "sched_core", kInteger, kFile, kBool),
};

constexpr std::array<std::string_view, 1> kValue = {"value"};
constexpr std::array<std::string_view, 3> kCpuStatColumns = {"nr_periods", "nr_throttled",
                                                             "throttled_ns"};
constexpr std::array<std::string_view, 7> kMemoryStatColumns = {
    "cache", "rss", "inactive_file", "active_file", "inactive_anon", "active_anon", "unevictable"};
constexpr std::array<std::string_view, 3> kPressureTotals = {"some_total_us", "full_total_us",
                                                             "full_supported"};
constexpr std::array<std::string_view, 6> kPressureAverages = {
    "some_avg10", "some_avg60", "some_avg300", "full_avg10", "full_avg60", "full_avg300"};

}  // namespace

std::span<const ResourceSpec> catalogue() { return kCatalogue; }

Result<const ResourceSpec*> find_resource(std::string_view key) {
  const auto found = std::find_if(kCatalogue.begin(), kCatalogue.end(),
                                  [&](const ResourceSpec& spec) { return spec.key == key; });
  if (found == kCatalogue.end()) {
    return not_found("resource", key, "a cgroup v1 file name such as cpu.shares");
  }
  return &*found;
}

std::span<const std::string_view> integer_columns(Kind kind) {
  switch (kind) {
    case kText:
    case kCpuList:
    case kIds:
    case kBlkioDevice:
    case kBlkioQos:
    case kBlkioModel:
      return {};
    case kCpuStat:
      return kCpuStatColumns;
    case kMemoryStat:
      return kMemoryStatColumns;
    case kPressure:
      return kPressureTotals;
    default:
      return kValue;
  }
}

std::span<const std::string_view> real_columns(Kind kind) {
  if (kind == kPressure) return kPressureAverages;
  return {};
}

}  // namespace koord::cgroup
