// SPDX-License-Identifier: Apache-2.0
#include "koord/error.hpp"

#include "check.hpp"

using koord::Errc;

TEST("error/a message is one line that names field, value and what is right") {
  const auto error = koord::invalid("cpu list", "1-\n2", "ids and ranges such as 0-3,8");
  CHECK_EQ(error.message(),
           std::string("cpu list: got '1-\\x0a2', expected ids and ranges such as 0-3,8"));
}

TEST("error/a long value is cut") {
  const auto error = koord::invalid("mask", std::string(200, 'f'), "hex");
  CHECK_EQ(error.value.size(), 83U);
}

TEST("error/a result throws its error or gives its value") {
  koord::Result<int> good(7);
  CHECK(good.ok());
  CHECK_EQ(good.value(), 7);
  koord::Result<int> bad(koord::not_found("group", "x", "a known group"));
  CHECK(!bad.ok());
  CHECK(bad.error().code == Errc::kNotFound);
  CHECK_THROWS(bad.value(), koord::Exception);
}
