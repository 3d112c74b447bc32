// SPDX-License-Identifier: Apache-2.0
#include "koord/splitter.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"

using koord::Splitter;

namespace {

// Frame, parts with their places, and noted names of a text; "no" where it is not split.
std::string split(const std::string& text) {
  const Splitter splitter({"args", "env"}, {"tty", "env"});
  Splitter::Object object;
  if (!splitter.split(text, object)) return "no";
  std::string found = object.frame;
  for (const Splitter::Part& part : object.parts) {
    found.append(" ").append(std::to_string(part.name)).append("@");
    found.append(std::to_string(part.place)).append("=").append(part.text);
  }
  return found.append(" ").append(std::to_string(object.noted));
}

std::string items(const std::string& text) {
  std::vector<std::string_view> found;
  if (!Splitter::items(text, found)) return "no";
  std::string joined;
  for (const std::string_view item : found) joined.append(item).append(" ");
  return joined;
}

}  // namespace

TEST("splitter/parts are taken out of the frame") {
  CHECK_EQ(split(R"({"name":"a","args":["1"],"tty":true,"env":{}})"),
           std::string(R"({"name":"a","args":,"tty":true,"env":} 0@19=["1"] 1@37={} 3)"));
  CHECK_EQ(split(R"({"a":{"args":1}})"), std::string(R"({"a":{"args":1}} 0)"));
  CHECK_EQ(split(R"({"env":-1.5e3})"), std::string(R"({"env":} 1@7=-1.5e3 2)"));
}

TEST("splitter/quotes, escapes and brackets in texts, over the ends of blocks") {
  for (int length = 0; length < 140; ++length) {
    const std::string filler(static_cast<std::size_t>(length), 'x');
    const std::string value = R"({"n":[")" + filler + R"(\\","\"}]{[","]"]})";
    CHECK_EQ(split(R"({"args":)" + value + "}"), R"({"args":} 0@8=)" + value + " 0");
    CHECK_EQ(items("[" + value + "," + value + "]"), value + " " + value + " ");
  }
}

TEST("splitter/what says more than its members is not split") {
  for (const char* text :
       {"", "{}", "[]", " {\"a\":1}", R"({"a": 1})", R"({"a":1 })", R"({"a":1} )",
        R"({"a":1,"a":2})", R"({"\u0061":1})", "{\"\xc3\xa9\":1}", R"({"a":1,})", R"({"a":})",
        R"({"a"})", R"({"a":"})", R"({"a":[1})", R"({"a":1)", R"({"a":1]}x)"}) {
    CHECK_EQ(split(text), std::string("no"));
  }
  for (const char* text : {"", "{}", "[", "[1", "[1,]", "[ 1]", "[1 ]", "[1] ", "[,1]", "[1]]"}) {
    CHECK_EQ(items(text), std::string("no"));
  }
  CHECK_EQ(items("[]"), std::string());
}

TEST("splitter/members are bounded") {
  std::string text = "{";
  for (std::size_t number = 0; number < Splitter::kMaxMembers; ++number) {
    text.append(number == 0 ? "\"" : ",\"").append(std::to_string(number)).append("\":0");
  }
  CHECK_EQ(split(text + "}"), text + "} 0");
  CHECK_EQ(split(text + ",\"args\":0}"), std::string("no"));
  const std::vector<std::string> many(Splitter::kMaxNoted + 1, "a");
  CHECK_THROWS(Splitter({}, many), koord::Exception);
}
