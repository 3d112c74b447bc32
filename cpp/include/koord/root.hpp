// SPDX-License-Identifier: Apache-2.0
// A directory that is held open and beneath which every path is opened: no "..", no absolute path
// and no symbolic link leads out of it, whatever a name that came from elsewhere holds.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "koord/error.hpp"

namespace koord {

/// Owns one file descriptor and closes it.
class KOORD_API Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool open() const noexcept { return fd_ >= 0; }
  /// Gives the descriptor away: the caller closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// A file is never read beyond this size: no file of the kernel comes near it.
inline constexpr std::size_t kFileBytesMax = std::size_t{16} << 20;

/// Room for one file after the other. It grows and never shrinks, so that reading many small files
/// neither allocates nor clears memory.
class KOORD_API FileBuffer {
 public:
  /// Reads an open file from its start. Returns 0 or an errno (EFBIG beyond kFileBytesMax).
  int read(int fd);
  /// What the last read() gave; valid until the next one.
  [[nodiscard]] std::string_view text() const& noexcept { return {room_.data(), size_}; }
  std::string_view text() && = delete;

 private:
  std::vector<char> room_;
  std::size_t size_ = 0;
};

/// A held directory. Immutable after open(): any number of threads may use one.
class KOORD_API Root {
 public:
  /// kSystem error when `path` is not a directory that can be opened. The path itself may hold
  /// symbolic links: it is the operator's.
  static Result<Root> open(const std::string& path);

  /// Opens a file beneath with open(2) flags (O_CLOEXEC is added). kInvalid error when the path is
  /// empty, absolute, or holds "..", "//" or a NUL; kSystem error when a component is a symbolic
  /// link (ELOOP) or open fails.
  [[nodiscard]] Result<Descriptor> open_beneath(const std::string& relative, int flags) const;
  /// The same beneath a directory of this root that is already open, for many files of one
  /// directory. `name` is one component; the caller vouches for it.
  [[nodiscard]] static Result<Descriptor> open_in(int directory, const std::string& name,
                                                  int flags);
  /// Opens a directory so that open_in() can be used; it cannot be read itself.
  [[nodiscard]] Result<Descriptor> open_directory(const std::string& relative) const;
  [[nodiscard]] bool exists(const std::string& relative) const;
  /// The whole text of a file.
  [[nodiscard]] Result<std::string> read(const std::string& relative) const;
  /// The path it was opened with.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  Root(std::string path, Descriptor directory, bool has_openat2)
      : path_(std::move(path)), directory_(std::move(directory)), has_openat2_(has_openat2) {}

  std::string path_;
  Descriptor directory_;
  bool has_openat2_;
};

}  // namespace koord
