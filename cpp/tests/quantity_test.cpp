// SPDX-License-Identifier: Apache-2.0
#include "koord/quantity.hpp"

#include <cstdint>
#include <limits>

#include "check.hpp"

using koord::Quantity;
using koord::Rounding;
using koord::Unit;

namespace {

Quantity read(std::string_view text) { return Quantity::parse(text).value(); }
std::string canonical(std::string_view text) { return read(text).to_string(); }

}  // namespace

TEST("quantity/canonical texts") {
  const struct {
    const char* text;
    const char* want;
  } cases[] = {
      {"1.5Gi", "1536Mi"},
      {"0.5", "500m"},
      {"1e3", "1e3"},
      {"1E3", "1e3"},
      {"12e4", "120e3"},
      {"1000", "1k"},
      {"1234567", "1234567"},
      {"1500m", "1500m"},
      {"2000m", "2"},
      {"0Ki", "0"},
      {"-0", "0"},
      {"+5", "5"},
      {"1.", "1"},
      {".001", "1m"},
      {"1.G", "1G"},
      {"0.1Ki", "102400m"},
      {"512", "512"},
      {"1Ki", "1Ki"},
      {"0.5Ki", "512"},
      {"2048Ki", "2Mi"},
      {"-1.5Gi", "-1536Mi"},
      {"3.001n", "4n"},
      {"-3.001n", "-4n"},
      {"0.0000000001", "1n"},
      {"1e-400", "1e-9"},
      {"12E", "12E"},
      {"1000E", "1000E"},
      {"12e21", "12e21"},
      {"0.000000000001Ki", "2n"},
      {"1.3E+6", "1300e3"},
      {"9Ei", "9223372036854775807"},
      {"-9Ei", "-9223372036854775807"},
  };
  for (const auto& [text, want] : cases) CHECK_EQ(canonical(text), std::string(want));
}

TEST("quantity/what is not a quantity") {
  for (const char* bad :
       {"",      "+",    "-",   ".",  "m",       "Gi",   "1.1.M", "1+1.0M", "0.1mi",
        "0.1am", "aoeu", ".5i", "1i", "-3.01e-", " 1",   "1 ",    "1e",     "1e+-3",
        "1e+",   "1ee3", "0x1", "1K", "1g",      "1KiB", "1e3m",  "1\n",    "1e99999999999",
        "1e1001"}) {
    CHECK(!Quantity::parse(bad).ok());
  }
  CHECK(!Quantity::parse(std::string(39, '9')).ok());
  CHECK(Quantity::parse(std::string(38, '9')).ok());
  CHECK(Quantity::parse(std::string(38, '9') + std::string(900, '0')).ok());
  CHECK(Quantity::parse("0." + std::string(500, '9')).ok());
  CHECK(Quantity::parse(std::string(5000, '9') + "Ki").ok());
}

TEST("quantity/an error shows the text") {
  CHECK_EQ(Quantity::parse("lots").error().message(),
           std::string("quantity: got 'lots', expected a number such as 2, 500m, 1.5Gi or 1e3"));
}

TEST("quantity/named roundings") {
  CHECK_EQ(read("1500u").milli(Rounding::kUp).value(), 2);
  CHECK_EQ(read("-1500u").milli(Rounding::kUp).value(), -2);
  CHECK_EQ(read("1500u").milli(Rounding::kDown).value(), 1);
  CHECK_EQ(read("-1500u").milli(Rounding::kDown).value(), -1);
  CHECK(!read("1500u").milli(Rounding::kExact).ok());
  CHECK_EQ(read("1n").value(Rounding::kUp).value(), 1);
  CHECK_EQ(read("2Gi").value(Rounding::kExact).value(), std::int64_t{2} << 30);
  CHECK_EQ(koord::parse_count("0.1", Unit::kMilli, Rounding::kExact).value(), 100);
}

TEST("quantity/64 bits are the limit of a count, not of a quantity") {
  CHECK_EQ(read("9223372036854775807").value(Rounding::kExact).value(),
           std::numeric_limits<std::int64_t>::max());
  CHECK_EQ(read("-9223372036854775808").value(Rounding::kExact).value(),
           std::numeric_limits<std::int64_t>::min());
  CHECK(!read("9223372036854775808").value(Rounding::kUp).ok());
  CHECK(!read("9223372036854775807").milli(Rounding::kUp).ok());
  CHECK(!read("1e1000").value(Rounding::kUp).ok());
  const auto sum = read("9E").add(read("9E")).value().add(read("1n")).value();
  CHECK_EQ(sum.to_string(), std::string("18000000000000000000000000001n"));
}

TEST("quantity/order and equality go by value") {
  CHECK(read("1Ki") == read("1024"));
  CHECK(read("1Ki").hash() == read("1.024k").hash());
  CHECK(read("100m") < read("0.11"));
  CHECK(read("-1e900") < read("-1n"));
  CHECK(read("1e900") > read("99999999999999999999999999999999999999"));
  CHECK(read("1n") < read("1e900"));
  CHECK(read("-0") == Quantity());
}

TEST("quantity/sums keep the left format unless it is zero") {
  CHECK_EQ(read("1Gi").add(read("1k")).value().to_string(), std::string("1073742824"));
  CHECK_EQ(read("0").add(read("1Gi")).value().to_string(), std::string("1Gi"));
  CHECK_EQ(read("1Gi").add(read("0")).value().to_string(), std::string("1Gi"));
  CHECK_EQ(read("0").sub(read("1Gi")).value().to_string(), std::string("-1Gi"));
  CHECK_EQ(read("1").sub(read("1m")).value().to_string(), std::string("999m"));
  CHECK(!read("1e900").add(read("1")).ok());
  const auto most = read("99999999999999999999999999999999999999");
  CHECK(most.add(read("1")).value() == read("1e38"));
  CHECK(!most.add(most).ok());
  // Either side alone may need a 39th digit while they are lined up.
  CHECK(read("1n").sub(read("1e29")).value() == -read("99999999999999999999999999999999999999n"));
  CHECK(read("18e37").sub(most).value() == read("80000000000000000000000000000000000001"));
  const auto fives = read("99999999999999999999999999999999999995");
  CHECK(fives.add(fives).value() == read("19999999999999999999999999999999999999e1"));
  CHECK(!read("2e38").add(read("1")).ok());
}

TEST("quantity/from integers") {
  CHECK_EQ(Quantity::from_integer(1500, Unit::kMilli).to_string(), std::string("1500m"));
  CHECK_EQ(Quantity::from_integer(1 << 20, Unit::kWhole, Quantity::Format::kBinarySi).to_string(),
           std::string("1Mi"));
  CHECK_EQ(
      Quantity::from_integer(std::numeric_limits<std::int64_t>::min(), Unit::kWhole).to_string(),
      std::string("-9223372036854775808"));
}
