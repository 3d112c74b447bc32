// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <list>
#include <unordered_map>

#include "cgroup_decode.hpp"
#include "koord/cgroup.hpp"

namespace koord::cgroup {
namespace {

std::string_view name_of(const FileSpec& file) {
  return file.read_file.empty() ? file.file : file.read_file;
}

// Cgroup v2 has several resources in one file.
bool same_file(const FileSpec& one, const FileSpec& other) {
  return one.directory == other.directory && name_of(one) == name_of(other);
}

// Descriptors by directory and file, the most recently used first. A directory of a container is
// some two hundred bytes long and has several files: its name is kept once for all of them.
class Kept {
 public:
  explicit Kept(std::size_t max) : max_(max) {}

  [[nodiscard]] bool keeps_any() const { return max_ > 0; }
  /// Another number whenever a descriptor was closed: those that were found before may be stale.
  [[nodiscard]] std::uint64_t closed() const { return closed_; }

  // The descriptor, which stays owned here, or -1. The most recently used is the one found last.
  int find(const std::string& directory, const FileSpec& file) {
    const auto held = by_directory_.find(directory);
    if (held == by_directory_.end()) return -1;
    const auto found = place_of(held->second, file);
    if (found == held->second.end()) return -1;
    entries_.splice(entries_.begin(), entries_, *found);
    return entries_.front().opened.get();
  }

  // Of a file that is not there yet.
  void keep(const std::string& directory, const FileSpec& file, Descriptor opened) {
    if (entries_.size() == max_) drop(std::prev(entries_.end()));
    auto& held = *by_directory_.try_emplace(directory).first;
    entries_.push_front({&held, &file, std::move(opened)});
    held.second.push_back(entries_.begin());
  }

  // Of the file that was found last.
  void drop_newest() { drop(entries_.begin()); }

  void clear() {
    by_directory_.clear();
    entries_.clear();
    ++closed_;
  }

  [[nodiscard]] int newest() const { return entries_.front().opened.get(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry;
  using Place = std::list<Entry>::iterator;
  using Files = std::vector<Place>;  // of one directory: a handful
  struct Entry {
    std::pair<const std::string, Files>* directory;  // in the map, where it does not move
    const FileSpec* file;                            // in the catalogue
    Descriptor opened;
  };

  static Files::iterator place_of(Files& files, const FileSpec& file) {
    return std::find_if(files.begin(), files.end(),
                        [&file](Place place) { return same_file(*place->file, file); });
  }

  void drop(Place place) {
    auto& [directory, files] = *place->directory;
    files.erase(std::find(files.begin(), files.end(), place));
    if (files.empty()) by_directory_.erase(by_directory_.find(directory));
    entries_.erase(place);
    ++closed_;
  }

  std::size_t max_;
  std::uint64_t closed_ = 0;
  std::list<Entry> entries_;
  std::unordered_map<std::string, Files> by_directory_;
};

// Where the descriptors of one resource lie for the directories that were read last: those who read
// the same ones every second are spared a look-up by path for each file.
struct Remembered {
  std::weak_ptr<const Directories> of{};
  std::vector<int> files{};  // -1 where nothing is known
  std::uint64_t closed = 0;  // nothing here counts once the number of those kept is another
};

// The directories of one cgroup that have been opened, one a v1 hierarchy. Opening a file in a held
// directory spares the kernel the walk down to it.
class OpenDirectories {
 public:
  OpenDirectories(const Hierarchy& hierarchy, const std::string& directory)
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
  std::unordered_map<const ResourceSpec*, Remembered> remembered{};
  FileBuffer buffer{};

  std::vector<Table> read(std::span<const std::string> directories,
                          std::span<const ResourceSpec* const> resources,
                          std::span<Remembered* const> memories);
  Remembered& recall(const std::shared_ptr<const Directories>& directories,
                     const ResourceSpec* resource);
  std::optional<Error> read_known(const FileSpec& file, const std::string& directory,
                                  OpenDirectories& directories, Remembered& memory,
                                  std::size_t row);
  std::optional<Error> read_file(const FileSpec& file, const std::string& directory,
                                 OpenDirectories& directories);
  std::optional<Error> read_fresh(const FileSpec& file, std::string_view name,
                                  const std::string& directory, OpenDirectories& directories);
};

// What is known of a resource in these directories, emptied if it is of others or out of date.
Remembered& Reader::State::recall(const std::shared_ptr<const Directories>& directories,
                                  const ResourceSpec* resource) {
  Remembered& memory = remembered[resource];
  if (memory.of.lock() != directories || memory.closed != kept.closed()) {
    memory.of = directories;
    memory.files.assign(directories->paths.size(), -1);
    memory.closed = kept.closed();
  }
  return memory;
}

std::optional<Error> Reader::State::read_known(const FileSpec& file, const std::string& directory,
                                               OpenDirectories& directories, Remembered& memory,
                                               std::size_t row) {
  // A descriptor that was closed since may be another file's by now.
  const bool counts = memory.closed == kept.closed();
  if (counts && memory.files[row] >= 0 && buffer.read(memory.files[row]) == 0) return std::nullopt;
  auto error = read_file(file, directory, directories);
  if (!error) memory.files[row] = kept.newest();
  return error;
}

std::optional<Error> Reader::State::read_file(const FileSpec& file, const std::string& directory,
                                              OpenDirectories& directories) {
  const std::string_view name = name_of(file);
  if (!kept.keeps_any()) return read_fresh(file, name, directory, directories);
  if (const int fd = kept.find(directory, file); fd >= 0) {
    if (buffer.read(fd) == 0) return std::nullopt;
    // The cgroup behind it is gone; another of the same name may have come since.
    kept.drop_newest();
  }
  auto error = read_fresh(file, name, directory, directories);
  if (error && (error->sys_errno == EMFILE || error->sys_errno == ENFILE) && kept.size() > 0) {
    kept.clear();
    error = read_fresh(file, name, directory, directories);
  }
  return error;
}

std::optional<Error> Reader::State::read_fresh(const FileSpec& file, std::string_view name,
                                               const std::string& directory,
                                               OpenDirectories& directories) {
  auto opened = directories.open(file, name);
  if (!opened) return opened.error();
  if (const int error = buffer.read(opened.value().get()); error != 0) {
    return system_error("read", name, error);
  }
  if (kept.keeps_any()) kept.keep(directory, file, std::move(opened).value());
  return std::nullopt;
}

Reader::Reader(std::shared_ptr<const Hierarchy> hierarchy, std::size_t kept_max)
    : state_(new State{std::move(hierarchy), Kept(kept_max), {}}) {}
Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;

// `memories` has one for each resource, or is empty where nothing is remembered.
std::vector<Table> Reader::State::read(std::span<const std::string> directories,
                                       std::span<const ResourceSpec* const> resources,
                                       std::span<Remembered* const> memories) {
  const Version version = hierarchy->version();
  std::vector<Table> tables;
  for (const auto* resource : resources) tables.push_back(table_for(*resource, directories.size()));
  for (std::size_t row = 0; row < directories.size(); ++row) {
    OpenDirectories open(*hierarchy, directories[row]);
    const FileSpec* in_buffer = nullptr;
    for (std::size_t at = 0; at < tables.size(); ++at) {
      Table& table = tables[at];
      const FileSpec& file = table.resource->in(version);
      if (file.support == Support::kNotRegistered) {
        fail(table, row, system_error("read", table.resource->key, EOPNOTSUPP), 0);
        continue;
      }
      if (in_buffer == nullptr || !same_file(*in_buffer, file)) {
        auto refused = memories.empty()
                           ? read_file(file, directories[row], open)
                           : read_known(file, directories[row], open, *memories[at], row);
        in_buffer = refused ? nullptr : &file;
        if (refused) {
          fail(table, row, *refused, EINVAL);
          continue;
        }
      }
      if (auto bad = decode(buffer.text(), version, row, table)) fail(table, row, *bad, EBADMSG);
    }
  }
  return tables;
}

std::vector<Table> Reader::read(std::span<const std::string> directories,
                                std::span<const ResourceSpec* const> resources) {
  const std::scoped_lock held(state_->lock);
  return state_->read(directories, resources, {});
}

std::vector<Table> Reader::read(const std::shared_ptr<const Directories>& directories,
                                std::span<const ResourceSpec* const> resources) {
  const std::scoped_lock held(state_->lock);
  std::vector<Remembered*> memories;
  for (const auto* resource : resources) {
    if (state_->kept.keeps_any()) memories.push_back(&state_->recall(directories, resource));
  }
  return state_->read(directories->paths, resources, memories);
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
