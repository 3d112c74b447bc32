// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <cerrno>
#include <list>
#include <unordered_map>

#include "cgroup_decode.hpp"
#include "koord/cgroup.hpp"

namespace koord::cgroup {
namespace {

// Descriptors by path, the most recently used first.
class Kept {
 public:
  explicit Kept(std::size_t max) : max_(max) {}

  [[nodiscard]] bool keeps_any() const { return max_ > 0; }

  // The descriptor, which stays owned here, or -1.
  int find(std::string_view path) {
    const auto found = by_path_.find(path);
    if (found == by_path_.end()) return -1;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->file.get();
  }

  void keep(const std::string& path, Descriptor file) {
    if (entries_.size() == max_) drop(entries_.back().path);
    entries_.push_front({path, std::move(file)});
    by_path_.emplace(entries_.front().path, entries_.begin());
  }

  void drop(std::string_view path) {
    const auto found = by_path_.find(path);
    const auto entry = found->second;
    by_path_.erase(found);
    entries_.erase(entry);
  }

  void clear() {
    by_path_.clear();
    entries_.clear();
  }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string path;
    Descriptor file;
  };
  std::size_t max_;
  std::list<Entry> entries_;
  // Keys point into the entries, whose addresses do not change.
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_path_;
};

// The directories of one cgroup that have been opened, one a v1 hierarchy. Opening a file in a held
// directory spares the kernel the walk down to it.
class Directories {
 public:
  Directories(const Hierarchy& hierarchy, const std::string& directory)
      : hierarchy_(hierarchy), directory_(directory) {}

  Result<Descriptor> open(const FileSpec& file, std::string_view name) {
    auto held = at(file);
    if (!held) return held.error();
    return Root::open_in(held.value(), std::string(name), O_RDONLY);
  }

 private:
  Result<int> at(const FileSpec& file) {
    for (const auto& [subsystem, held] : open_) {
      if (subsystem == file.directory) return held.get();
    }
    std::string path = hierarchy_.directory_of(file, directory_);
    auto opened = hierarchy_.root().open_directory(path.empty() ? "." : path);
    if (!opened) return opened.error();
    open_.emplace_back(file.directory, std::move(opened).value());
    return open_.back().second.get();
  }

  const Hierarchy& hierarchy_;
  const std::string& directory_;
  std::vector<std::pair<std::string_view, Descriptor>> open_;
};

// `if_invalid` stands for errors that no system call made.
void fail(Table& table, std::size_t row, const Error& error, int if_invalid) {
  table.error[row] = error.code == Errc::kSystem ? error.sys_errno : if_invalid;
  table.messages.emplace_back(row, error.message());
}

Table table_for(const ResourceSpec& resource, std::size_t rows) {
  Table table;
  table.resource = &resource;
  table.error.resize(rows);
  table.integers.resize(rows * integer_columns(resource.kind).size());
  table.reals.resize(rows * real_columns(resource.kind).size());
  if (integer_columns(resource.kind).empty()) table.texts.resize(rows);
  return table;
}

}  // namespace

struct Reader::State {
  std::shared_ptr<const Hierarchy> hierarchy;
  Kept kept;
  std::mutex lock;
  std::string path{};
  FileBuffer buffer{};

  std::optional<Error> read_file(const FileSpec& file, const std::string& directory,
                                 Directories& directories);
  std::optional<Error> read_fresh(const FileSpec& file, std::string_view name,
                                  Directories& directories);
};

std::optional<Error> Reader::State::read_file(const FileSpec& file, const std::string& directory,
                                              Directories& directories) {
  const std::string_view name = file.read_file.empty() ? file.file : file.read_file;
  if (!kept.keeps_any()) return read_fresh(file, name, directories);
  path.assign(file.directory).append("/").append(directory).append("/").append(name);
  if (const int fd = kept.find(path); fd >= 0) {
    if (buffer.read(fd) == 0) return std::nullopt;
    // The cgroup behind it is gone; another of the same name may have come since.
    kept.drop(path);
  }
  auto error = read_fresh(file, name, directories);
  if (error && (error->sys_errno == EMFILE || error->sys_errno == ENFILE) && kept.size() > 0) {
    kept.clear();
    error = read_fresh(file, name, directories);
  }
  return error;
}

std::optional<Error> Reader::State::read_fresh(const FileSpec& file, std::string_view name,
                                               Directories& directories) {
  auto opened = directories.open(file, name);
  if (!opened) return opened.error();
  if (const int error = buffer.read(opened.value().get()); error != 0) {
    return system_error("read", name, error);
  }
  if (kept.keeps_any()) kept.keep(path, std::move(opened).value());
  return std::nullopt;
}

Reader::Reader(std::shared_ptr<const Hierarchy> hierarchy, std::size_t kept_max)
    : state_(new State{std::move(hierarchy), Kept(kept_max), {}}) {}
Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;

std::vector<Table> Reader::read(std::span<const std::string> directories,
                                std::span<const ResourceSpec* const> resources) {
  const std::scoped_lock held(state_->lock);
  const Hierarchy& hierarchy = *state_->hierarchy;
  std::vector<Table> tables;
  for (const auto* resource : resources) tables.push_back(table_for(*resource, directories.size()));
  for (std::size_t row = 0; row < directories.size(); ++row) {
    Directories open_directories(hierarchy, directories[row]);
    for (Table& table : tables) {
      const FileSpec& file = table.resource->in(hierarchy.version());
      if (file.support == Support::kNotRegistered) {
        fail(table, row, system_error("read", table.resource->key, EOPNOTSUPP), 0);
        continue;
      }
      if (auto refused = state_->read_file(file, directories[row], open_directories)) {
        fail(table, row, *refused, EINVAL);
      } else if (auto bad = decode(state_->buffer.text(), hierarchy.version(), row, table)) {
        fail(table, row, *bad, EBADMSG);
      }
    }
  }
  return tables;
}

std::size_t Reader::kept() const {
  const std::scoped_lock held(state_->lock);
  return state_->kept.size();
}

void Reader::close_kept() {
  const std::scoped_lock held(state_->lock);
  state_->kept.clear();
}

}  // namespace koord::cgroup
