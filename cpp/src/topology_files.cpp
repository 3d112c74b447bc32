// SPDX-License-Identifier: Apache-2.0
#include "topology_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>

namespace koord::detail {
namespace {

constexpr const char* kBlanks = " \t\r\n";

std::optional<int> parse_int(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

bool is_absent(int error) { return error == ENOENT || error == ENOTDIR; }

std::string read_all(int descriptor, const std::string& path) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got == 0) return text;
    if (got > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (errno != EINTR) {
      const int error = errno;
      ::close(descriptor);
      throw Exception(system_error("read", path, error));
    }
  }
}

CpuSet set_or_throw(Result<CpuSet> parsed, const std::string& path) {
  if (parsed) return std::move(parsed).value();
  Error error = parsed.error();
  error.field = path;
  throw Exception(std::move(error));
}

}  // namespace

std::optional<std::string> read_text(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    if (is_absent(errno)) return std::nullopt;
    throw Exception(system_error("open", path, errno));
  }
  std::string text = read_all(descriptor, path);
  ::close(descriptor);
  text.erase(0, std::min(text.find_first_not_of(kBlanks), text.size()));
  text.erase(text.find_last_not_of(kBlanks) + 1);
  return text;
}

std::optional<int> read_int(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return std::nullopt;
  const auto value = parse_int(*text);
  if (!value) throw Exception(invalid(path, *text, "an integer"));
  return value;
}

std::optional<CpuSet> read_set(const std::string& list_path, const std::string& map_path) {
  if (const auto text = read_text(list_path)) return set_or_throw(CpuSet::parse(*text), list_path);
  if (map_path.empty()) return std::nullopt;
  if (const auto text = read_text(map_path)) {
    return set_or_throw(CpuSet::parse_mask(*text), map_path);
  }
  return std::nullopt;
}

std::vector<int> numbered_entries(const std::string& directory, const std::string& prefix) {
  std::error_code error;
  std::vector<int> numbers;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto number = parse_int(std::string_view(name).substr(prefix.size()));
    if (number && *number >= 0) numbers.push_back(*number);
  }
  if (error && !is_absent(error.value())) {
    throw Exception(system_error("read", directory, error.value()));
  }
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace koord::detail
