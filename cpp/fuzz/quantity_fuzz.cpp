// SPDX-License-Identifier: Apache-2.0
// Quantities as texts, their integers and the sums of two.
#include "fuzz.hpp"
#include "koord/quantity.hpp"

using koord::Quantity;
using koord::Result;
using koord::Rounding;
using koord::Unit;
using koord::fuzz::readable;

namespace {

// False where 64 bits do not hold the count.
bool check_counts(const Quantity& quantity, Unit unit) {
  const Result<std::int64_t> down = quantity.count(unit, Rounding::kDown);
  const Result<std::int64_t> up = quantity.count(unit, Rounding::kUp);
  const Result<std::int64_t> exact = quantity.count(unit, Rounding::kExact);
  FUZZ_CHECK(!up.ok() || down.ok());
  if (!up.ok() || !down.ok()) return false;
  auto near = down;
  auto far = up;
  const bool negative = quantity < Quantity();
  const std::int64_t step = negative ? near.value() - far.value() : far.value() - near.value();
  FUZZ_CHECK(step == 0 || step == 1);
  FUZZ_CHECK(exact.ok() == (step == 0));
  return true;
}

void check_one(const Quantity& quantity, std::string_view text) {
  const std::string written = quantity.to_string();
  FUZZ_CHECK(written.size() <= 1100);
  const Quantity again = Quantity::parse(written).value();
  FUZZ_CHECK(again == quantity && again.to_string() == written);
  FUZZ_CHECK(again.hash() == quantity.hash());
  FUZZ_CHECK(-(-quantity) == quantity);
  FUZZ_CHECK(quantity.sub(quantity).value().is_zero());
  for (const Unit unit : {Unit::kWhole, Unit::kMilli}) {
    check_counts(quantity, unit);
    for (const Rounding rounding : {Rounding::kUp, Rounding::kDown, Rounding::kExact}) {
      Result<std::int64_t> direct = koord::parse_count(text, unit, rounding);
      Result<std::int64_t> slow = quantity.count(unit, rounding);
      FUZZ_CHECK(direct.ok() == slow.ok());
      if (slow.ok()) FUZZ_CHECK(direct.value() == slow.value());
    }
  }
}

void check_pair(const Quantity& a, const Quantity& b) {
  Result<Quantity> sum = a.add(b);
  Result<Quantity> other = b.add(a);
  FUZZ_CHECK(sum.ok() == other.ok());
  FUZZ_CHECK(sum.ok() || readable(sum.error()));
  if (!sum.ok()) return;
  FUZZ_CHECK(sum.value() == other.value());
  FUZZ_CHECK(sum.value().sub(b).value() == a);
  FUZZ_CHECK((a < sum.value()) == (Quantity() < b));
  (void)sum.value().to_string();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = koord::fuzz::text_of(data, size);
  std::vector<Quantity> quantities;
  std::size_t begin = 0;
  while (begin <= text.size() && quantities.size() < 8) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    Result<Quantity> quantity = Quantity::parse(word);
    FUZZ_CHECK(quantity.ok() || readable(quantity.error()));
    if (quantity.ok()) {
      check_one(quantity.value(), word);
      for (const Quantity& other : quantities) check_pair(quantity.value(), other);
      quantities.push_back(quantity.value());
    }
    begin = end + 1;
  }
  return 0;
}
