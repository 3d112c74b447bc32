// SPDX-License-Identifier: Apache-2.0
#include "koord/error.hpp"

#include <array>
#include <cstring>

namespace koord {
namespace {

constexpr std::size_t kShownBytes = 80;

// Control and non-ASCII bytes are escaped so that a message stays one readable line whatever was
// read.
std::string escaped(std::string_view value) {
  static constexpr std::array<char, 17> kHex = {"0123456789abcdef"};
  std::string out;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 0xf];
    }
  }
  return out;
}

std::string shown(std::string_view value) {
  return escaped(value.substr(0, kShownBytes)) + (value.size() > kShownBytes ? "..." : "");
}

}  // namespace

std::string Error::message() const {
  if (code == Errc::kSystem) return field + " " + escaped(value) + ": " + expected;
  return field + ": got '" + value + "', expected " + expected;
}

Error invalid(std::string_view field, std::string_view value, std::string_view expected) {
  return {Errc::kInvalid, std::string(field), shown(value), std::string(expected), 0};
}

Error not_found(std::string_view field, std::string_view value, std::string_view expected) {
  return {Errc::kNotFound, std::string(field), shown(value), std::string(expected), 0};
}

Error system_error(std::string_view operation, std::string_view path, int sys_errno) {
  return {Errc::kSystem, std::string(operation), std::string(path), std::strerror(sys_errno),
          sys_errno};
}

Exception::Exception(Error error) : std::runtime_error(error.message()), error_(std::move(error)) {}

}  // namespace koord
