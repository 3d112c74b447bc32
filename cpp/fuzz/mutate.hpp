// SPDX-License-Identifier: Apache-2.0
// New inputs out of old ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "koord/random.hpp"

namespace koord::fuzz {

/// No input is longer.
inline constexpr std::size_t kMaxInput = 384;

/// The tokens of a text in libFuzzer's form of dictionaries: a line each, "..." with \xNN, \" and
/// \\ for what cannot stand there; lines that begin with # are skipped. Throws
/// std::invalid_argument with the line.
std::vector<std::string> read_tokens(const std::string& text);

/// Makes inputs from those it was given and from those that it made of them. The same seed and
/// inputs give the same sequence.
class Mutator {
 public:
  Mutator(std::uint64_t seed, std::vector<std::string> inputs, std::vector<std::string> tokens);
  std::string next();

 private:
  void change(std::string& input);
  void splice(std::string& input);
  void insert(std::string& input, const std::string& what);
  std::size_t place(const std::string& input) { return random_.below(input.size() + 1); }
  const std::string& any(const std::vector<std::string>& from) {
    return from[random_.below(from.size())];
  }

  SplitMix64 random_;
  std::vector<std::string> inputs_;
  std::size_t kept_;  // the first inputs, which stay; later ones give way to newer ones
  std::vector<std::string> tokens_;
};

}  // namespace koord::fuzz
