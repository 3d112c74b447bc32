// SPDX-License-Identifier: Apache-2.0
// Reads and writes many cgroup files at a time. A resource is named by its cgroup v1 file whatever
// the kernel runs, and its values are in v1 units (shares, quota -1 for none); the catalogue knows
// where it lies, what is valid, when two texts mean the same and which of two values is looser.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "koord/cgroup_parse.hpp"
#include "koord/root.hpp"

namespace koord::cgroup {

/// What a file holds: how it is read, compared and converted.
enum class Kind {
  kText,
  kInteger,
  kQuota,
  kPeriod,
  kShares,
  kMemoryLimit,
  kCpuList,
  kIds,
  kClassId,
  kBlkioDevice,  ///< one line a device: MAJ:MIN VALUE, in io.max of v2 MAJ:MIN NAME=VALUE ...
  kBlkioQos,
  kBlkioModel,
  kCpuStat,
  kCpuUsage,
  kMemoryStat,
  kPressure,
  kIdlePages,
};

/// When a file counts as there.
enum class Support {
  kNotRegistered,  ///< not in this version
  kAlways,
  kFile,      ///< it exists in the directory asked for
  kKubepods,  ///< it exists in the kubepods directory; a yes is remembered
  kRoot,      ///< it exists in the root of the hierarchy
};

/// Which direction of change must reach parents first. In a leveled write pass 1 applies, top down,
/// what the rule calls looser and pass 2, bottom up, the final values.
enum class Merge {
  kNone,
  kLarger,        ///< a larger number is looser
  kQuotaLarger,   ///< a larger quota is looser, none is loosest
  kCpusetLooser,  ///< the union is looser
  kSmaller,       ///< burst: it must never exceed the quota, so it shrinks first and grows last
};

struct Range {
  std::int64_t min = 0, max = kInt64Max;
};

/// A resource in one cgroup version.
struct FileSpec {
  std::string_view directory;  ///< v1 hierarchy, or where a system file lies; "" on v2
  std::string_view file;       ///< "" when not registered
  Support support = Support::kNotRegistered;
  std::optional<Range> range;
  std::string_view read_file;  ///< where reads go when not to `file`
  std::string_view field{};    ///< which of the names in a line of io.max it is
};

/// Which root a resource lies under.
enum class Base { kCgroup, kProc, kSys };

struct ResourceSpec {
  std::string_view key;  ///< the v1 file name
  Base base = Base::kCgroup;
  Kind kind = Kind::kText;
  bool writable = false;
  Merge merge = Merge::kNone;
  FileSpec v1, v2;
  [[nodiscard]] const FileSpec& in(Version version) const {
    return version == Version::kV1 ? v1 : v2;
  }
};

/// All resources in a fixed order; static storage.
KOORD_API std::span<const ResourceSpec> catalogue();
/// kNotFound when there is no such key.
KOORD_API Result<const ResourceSpec*> find_resource(std::string_view key);

/// The columns that reading a kind gives: integers, then reals. Both empty: the text itself.
KOORD_API std::span<const std::string_view> integer_columns(Kind kind);
KOORD_API std::span<const std::string_view> real_columns(Kind kind);

/// The text to write for a value in v1 units: validated, and converted for v2 (shares to weight, -1
/// to max). kInvalid when the value or the resource cannot be written.
KOORD_API Result<std::string> file_text(const ResourceSpec& resource, Version version,
                                        std::string_view value);
/// Whether a file that holds `current` already says what writing `text` would.
KOORD_API bool says_same(const ResourceSpec& resource, Version version, std::string_view text,
                         std::string_view current);
/// The text to write so that nothing gets narrower on the way from `current` to `text`; nothing
/// when `current` is loose enough. kInvalid when `current` cannot be understood.
KOORD_API Result<std::optional<std::string>> loosened(const ResourceSpec& resource, Version version,
                                                      std::string_view text,
                                                      std::string_view current);

/// One tree of cgroups, or /proc or /sys for the resources based there. Immutable: threads may
/// share.
class KOORD_API Hierarchy {
 public:
  /// Without a version it is v2 iff the file system at `path` is cgroup2. `kubepods` is the
  /// directory that support checks look at; empty picks kubepods.slice if it is there, else
  /// kubepods.
  static Result<std::shared_ptr<const Hierarchy>> open(const std::string& path,
                                                       std::optional<Version> version = {},
                                                       std::string kubepods = {});
  [[nodiscard]] Version version() const noexcept { return version_; }
  [[nodiscard]] const Root& root() const noexcept { return root_; }
  [[nodiscard]] const std::string& kubepods() const noexcept { return kubepods_; }
  /// Directory of a resource beneath the root; `directory` is relative to the hierarchy.
  [[nodiscard]] std::string directory_of(const FileSpec& file, std::string_view directory) const;
  [[nodiscard]] std::string path_of(const FileSpec& file, std::string_view directory) const;

 private:
  Hierarchy(Root root, Version version) : root_(std::move(root)), version_(version) {}
  void read_links();
  [[nodiscard]] std::string_view subsystem(std::string_view name) const;

  Root root_;
  Version version_;
  std::string kubepods_;
  // Distributions mount cpu and cpuacct together and link both names to the one directory.
  std::vector<std::pair<std::string, std::string>> links_;
};

/// One resource for many directories, row by row. `error` is 0, or the errno of what failed: ENOENT
/// or ENODEV for a cgroup that is gone, EOPNOTSUPP for one this version lacks, EINVAL for a
/// directory that leads out of the root, EBADMSG for a text that cannot be parsed; values of such
/// rows are 0 or empty.
struct Table {
  const ResourceSpec* resource = nullptr;
  std::vector<std::int32_t> error;
  std::vector<std::int64_t> integers;  ///< rows x integer_columns
  std::vector<double> reals;           ///< rows x real_columns
  std::vector<std::string> texts;      ///< a row each, only for kinds without columns
  std::vector<std::pair<std::size_t, std::string>> messages;  ///< row and why it failed
};

/// Directories of cgroups, relative to a hierarchy, that are read again and again.
struct Directories {
  std::vector<std::string> paths;
};

/// Reads, and may keep the descriptors it opened. A kept descriptor of a removed cgroup answers
/// ENODEV and is opened anew by path. Calls are serialised by a lock.
class KOORD_API Reader {
 public:
  /// At most `kept_max` descriptors stay open, the most recently used ones; 0 keeps none.
  Reader(std::shared_ptr<const Hierarchy> hierarchy, std::size_t kept_max);
  ~Reader();
  Reader(Reader&&) noexcept;

  /// One table a resource, one row a directory. Never fails as a whole. A file that holds several
  /// resources is read once where they follow each other.
  std::vector<Table> read(std::span<const std::string> directories,
                          std::span<const ResourceSpec* const> resources);
  /// The same; given the same directories again, kept descriptors are not looked up by path.
  std::vector<Table> read(const std::shared_ptr<const Directories>& directories,
                          std::span<const ResourceSpec* const> resources);
  [[nodiscard]] std::size_t kept() const;
  void close_kept();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct WriteRequest {
  const ResourceSpec* resource = nullptr;
  std::string directory;
  std::string value;  ///< in v1 units
};

enum class Outcome {
  kUnchanged = 0,  ///< the file, or the cache, already says so
  kWritten = 1,
  kUnsupported = 2,  ///< this kernel or version has no such file
  kMissing = 3,      ///< the cgroup is gone
  kFailed = 4,       ///< see sys_errno and message
};

struct WriteResult {
  Outcome outcome = Outcome::kUnchanged;
  int sys_errno = 0;
  std::string message;
};

struct WriterOptions {
  double force_after_seconds = 60;    ///< a cached value older than this is compared with the file
  double forget_after_seconds = 120;  ///< entries nobody asked for this long are dropped
};

/// Writes what differs. What it wrote or found equal is cached by path and field, so that a value
/// asked for again costs no system call until force_after_seconds passed. Calls are serialised by a
/// lock.
class KOORD_API Writer {
 public:
  Writer(std::shared_ptr<const Hierarchy> hierarchy, WriterOptions options);
  ~Writer();
  Writer(Writer&&) noexcept;

  /// In order; one failure stops nothing. `now_seconds` is any clock that does not go back.
  std::vector<WriteResult> write(std::span<const WriteRequest> requests, double now_seconds);
  /// Level 0 is the topmost. Values that grow reach parents first, those that shrink children
  /// first.
  std::vector<std::vector<WriteResult>> write_leveled(
      std::span<const std::vector<WriteRequest>> levels, double now_seconds);
  /// Drops what is known of a directory and those beneath it, say because a runtime wrote there.
  void forget(std::string_view directory);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct AddedIds {
  int added = 0;
  int gone = 0;  ///< the thread had ended (ESRCH)
  int failed = 0;
  int first_errno = 0;  ///< of the failed ones
};
/// Moves threads or processes into a group by writing its tasks or procs file, ascending, one write
/// an id as the kernel wants it. Serves resctrl groups too. kSystem when the file cannot be opened.
KOORD_API Result<AddedIds> add_ids(const Root& root, const std::string& path,
                                   std::vector<std::int32_t> ids);

}  // namespace koord::cgroup
