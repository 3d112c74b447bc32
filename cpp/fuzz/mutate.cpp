// SPDX-License-Identifier: Apache-2.0
#include "mutate.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace koord::fuzz {
namespace {

// Where a parser of numbers ends: a digit, an exponent, a word too many.
constexpr const char* kNumbers[] = {"0",
                                    "-1",
                                    "1",
                                    "+1",
                                    "00",
                                    "63",
                                    "64",
                                    "255",
                                    "4095",
                                    "4096",
                                    "8191",
                                    "8192",
                                    "65536",
                                    "2147483647",
                                    "2147483648",
                                    "-2147483648",
                                    "4294967295",
                                    "4294967296",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "-9223372036854775808",
                                    "-9223372036854775809",
                                    "18446744073709551615",
                                    "18446744073709551616",
                                    "99999999999999999999999999999999999999",
                                    "100000000000000000000000000000000000000",
                                    "170141183460469231731687303715884105728",
                                    "0.000000001",
                                    "1e308",
                                    "1e-999"};
constexpr std::size_t kGrown = 256;

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string token_of(const std::string& line) {
  const std::invalid_argument bad("dictionary: got '" + line + "', expected a token in quotes");
  if (line.size() < 3 || line.front() != '"' || line.back() != '"') throw bad;
  std::string token;
  for (std::size_t i = 1; i + 1 < line.size(); ++i) {
    if (line[i] != '\\') {
      token += line[i];
    } else if (line[i + 1] == 'x' && i + 4 < line.size() && hex(line[i + 2]) >= 0 &&
               hex(line[i + 3]) >= 0) {
      token += static_cast<char>(hex(line[i + 2]) * 16 + hex(line[i + 3]));
      i += 3;
    } else if ((line[i + 1] == '"' || line[i + 1] == '\\') && i + 2 < line.size()) {
      token += line[++i];
    } else {
      throw bad;
    }
  }
  return token;
}

}  // namespace

std::vector<std::string> read_tokens(const std::string& text) {
  std::vector<std::string> tokens;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.front() != '#') tokens.push_back(token_of(line));
  }
  return tokens;
}

Mutator::Mutator(std::uint64_t seed, std::vector<std::string> inputs,
                 std::vector<std::string> tokens)
    : random_(seed), inputs_(std::move(inputs)), tokens_(std::move(tokens)) {
  if (inputs_.empty()) inputs_.emplace_back();
  for (std::string& input : inputs_) input.resize(std::min(input.size(), kMaxInput));
  kept_ = inputs_.size();
  tokens_.insert(tokens_.end(), std::begin(kNumbers), std::end(kNumbers));
}

std::string Mutator::next() {
  std::string input = any(inputs_);
  const std::uint64_t changes = std::uint64_t{1} << random_.below(5);
  for (std::uint64_t i = 0; i < changes; ++i) change(input);
  input.resize(std::min(input.size(), kMaxInput));
  // Some inputs go on from here, so that what takes many changes is reached as well.
  if (random_.below(4) == 0) {
    if (inputs_.size() < kept_ + kGrown) {
      inputs_.push_back(input);
    } else {
      inputs_[kept_ + random_.below(kGrown)] = input;
    }
  }
  return input;
}

void Mutator::change(std::string& input) {
  const std::uint64_t what = random_.below(8);
  if (input.empty() || what == 0) return insert(input, any(tokens_));
  const std::size_t at = random_.below(input.size());
  const std::size_t length = 1 + random_.below(std::min<std::size_t>(input.size() - at, 16));
  switch (what) {
    case 1:
      input[at] = static_cast<char>(input[at] ^ static_cast<char>(1U << random_.below(8)));
      break;
    case 2:
      input[at] = static_cast<char>(random_.below(256));
      break;
    case 3:
      input.erase(at, length);
      break;
    case 4:
      insert(input, input.substr(at, length));
      break;
    case 5:
      insert(input, std::string(1, static_cast<char>(random_.below(256))));
      break;
    case 6:
      input.replace(at, length, any(tokens_));
      break;
    default:
      splice(input);
  }
}

void Mutator::splice(std::string& input) {
  const std::string& other = any(inputs_);
  const std::size_t from = place(other);
  const std::size_t length = random_.below(other.size() - from + 1);
  const std::string part = other.substr(from, length);
  if (random_.below(2) == 0) input.resize(place(input));
  insert(input, part);
}

void Mutator::insert(std::string& input, const std::string& what) {
  if (input.size() < kMaxInput) input.insert(place(input), what);
}

}  // namespace koord::fuzz
