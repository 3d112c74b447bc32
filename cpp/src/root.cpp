// SPDX-License-Identifier: Apache-2.0
#include "koord/root.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "beneath.hpp"
#include "text.hpp"

namespace koord {
namespace {

constexpr std::string_view kForm = "a relative path without '..'";

std::optional<Error> refuse(std::string_view relative) {
  const bool bad = relative.empty() || relative.front() == '/' ||
                   relative.find("//") != std::string_view::npos ||
                   relative.find('\0') != std::string_view::npos;
  if (bad) return invalid("path", relative, kForm);
  // Most paths hold no dots in a row, and then need no cutting.
  if (relative.find("..") == std::string_view::npos) return std::nullopt;
  for (const auto component : text::split(relative, '/')) {
    if (component == "..") return invalid("path", relative, kForm);
  }
  return std::nullopt;
}

Error open_failed(std::string_view path, int error) {
  Error failure = system_error("open", path, error);
  if (error == ELOOP) failure.expected = "no symbolic link in the path";
  return failure;
}

Result<Descriptor> to_result(int fd, std::string_view path) {
  if (fd < 0) return open_failed(path, -fd);
  return Descriptor(fd);
}

int fd_or_errno(int fd) { return fd >= 0 ? fd : -errno; }

// A FIFO that someone put in a file's place must not block us.
int complete(int flags) { return flags | O_CLOEXEC | ((flags & O_PATH) != 0 ? 0 : O_NONBLOCK); }

bool is_symlink(int directory, const char* name) {
  char target = 0;
  return ::readlinkat(directory, name, &target, 1) >= 0;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int open_with_openat2(int directory, const char* relative, int flags) {
  open_how how{};
  how.flags = static_cast<decltype(how.flags)>(complete(flags));
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  return fd_or_errno(
      static_cast<int>(::syscall(SYS_openat2, directory, relative, &how, sizeof how)));
}

int open_by_walking(int directory, const std::string& relative, int flags) {
  Descriptor held;
  int at = directory;
  std::string_view rest = relative;
  std::string name;
  while (!rest.empty()) {
    name = text::take_until(rest, '/');
    if (name.empty()) continue;
    const bool last = rest.find_first_not_of('/') == std::string_view::npos;
    const int how = last ? flags : O_PATH | O_DIRECTORY;
    Descriptor next(::openat(at, name.c_str(), complete(how) | O_NOFOLLOW));
    const int error = next.open() ? 0 : errno;
    // O_PATH opens a link itself and O_DIRECTORY calls it no directory: neither says ELOOP.
    const bool silent = error == ENOTDIR || (error == 0 && (how & O_PATH) != 0);
    if (silent && is_symlink(at, name.c_str())) return -ELOOP;
    if (error != 0) return -error;
    if (last) return next.release();
    held = std::move(next);
    at = held.get();
  }
  return -ENOENT;
}

int FileBuffer::read(int fd) {
  // Files of the kernel come a page at a time and stop earlier only where the next record does not
  // fit; records are short, so a read below half a page was the last. Others need a read that
  // returns nothing.
  constexpr std::size_t kSurelyLast = 2048;
  constexpr std::size_t kChunk = 16384;
  size_ = 0;
  for (;;) {
    if (size_ > kFileBytesMax) return EFBIG;
    if (room_.size() < size_ + kChunk) room_.resize(2 * (size_ + kChunk));
    const ssize_t got =
        ::pread(fd, room_.data() + size_, room_.size() - size_, static_cast<off_t>(size_));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    size_ += static_cast<std::size_t>(got);
    if (static_cast<std::size_t>(got) < kSurelyLast) return 0;
  }
}

Result<Root> Root::open(const std::string& path) {
  Descriptor directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.open()) return open_failed(path, errno);
  const Descriptor probe(open_with_openat2(directory.get(), ".", O_PATH | O_DIRECTORY));
  return Root(path, std::move(directory), probe.open());
}

Result<Descriptor> Root::open_beneath(const std::string& relative, int flags) const {
  if (auto error = refuse(relative)) return *std::move(error);
  const int fd = has_openat2_ ? open_with_openat2(directory_.get(), relative.c_str(), flags)
                              : open_by_walking(directory_.get(), relative, flags);
  return to_result(fd, relative);
}

Result<Descriptor> Root::open_in(int directory, const std::string& name, int flags) {
  return to_result(fd_or_errno(::openat(directory, name.c_str(), complete(flags) | O_NOFOLLOW)),
                   name);
}

Result<Descriptor> Root::open_directory(const std::string& relative) const {
  return open_beneath(relative, O_PATH | O_DIRECTORY);
}

bool Root::exists(const std::string& relative) const { return open_beneath(relative, O_PATH).ok(); }

Result<std::string> Root::read(const std::string& relative) const {
  auto file = open_beneath(relative, O_RDONLY);
  if (!file) return file.error();
  FileBuffer buffer;
  if (const int error = buffer.read(file.value().get()); error != 0) {
    return system_error("read", relative, error);
  }
  return std::string(buffer.text());
}

}  // namespace koord
