// SPDX-License-Identifier: Apache-2.0
// How libkoord says that something is wrong. Functions that parse or look up return Result<T>,
// which carries a code and the offending value; value() turns it into an exception for callers that
// want one. The library never prints and never aborts.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#define KOORD_API __attribute__((visibility("default")))

namespace koord {

/// The kind of failure. The numbers are part of the C ABI and never change meaning.
enum class Errc : int {
  kInvalid = 1,   ///< a value is malformed or out of range (Python: ValueError)
  kNotFound = 2,  ///< a name or id is unknown (Python: KeyError)
  kSystem = 3,    ///< the kernel refused; sys_errno says why (Python: OSError)
};

/// One failure: which field, what was found there, what would have been right.
struct KOORD_API Error {
  Errc code = Errc::kInvalid;
  std::string field;     ///< what was being read, e.g. "cpu list"
  std::string value;     ///< the offending text, cut to a readable length
  std::string expected;  ///< what would be right, as a noun phrase
  int sys_errno = 0;     ///< errno for kSystem, else 0

  /// "FIELD: got 'VALUE', expected EXPECTED", always one line.
  [[nodiscard]] std::string message() const;
};

/// Builds a kInvalid error; `value` is cut to 80 bytes and control bytes are escaped.
KOORD_API Error invalid(std::string_view field, std::string_view value, std::string_view expected);
/// Builds a kNotFound error.
KOORD_API Error not_found(std::string_view field, std::string_view value,
                          std::string_view expected);
/// Builds a kSystem error for `path` from an errno.
KOORD_API Error system_error(std::string_view operation, std::string_view path, int sys_errno);

/// What value() and the throwing entry points raise.
class KOORD_API Exception : public std::runtime_error {
 public:
  explicit Exception(Error error);
  [[nodiscard]] const Error& error() const noexcept { return error_; }

 private:
  Error error_;
};

/// Either a T or an Error. Cheap to move; not copied by the library.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }
  /// The error; only when !ok().
  [[nodiscard]] const Error& error() const& { return std::get<1>(state_); }
  /// The value, or throws Exception.
  [[nodiscard]] T& value() & {
    raise_if_error();
    return std::get<0>(state_);
  }
  [[nodiscard]] T value() && {
    raise_if_error();
    return std::get<0>(std::move(state_));
  }

 private:
  void raise_if_error() const {
    if (!ok()) throw Exception(std::get<1>(state_));
  }
  std::variant<T, Error> state_;
};

}  // namespace koord
