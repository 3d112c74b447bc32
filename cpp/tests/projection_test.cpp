// SPDX-License-Identifier: Apache-2.0
#include "koord/projection.hpp"

#include <string>
#include <vector>

#include "check.hpp"

using koord::Projection;

namespace {

// Keeps "a", and of "b", a list of objects, the members "c".
struct Made {
  Projection projection;
  Projection::Node root = 0;

  Made() {
    const auto item = projection.object({"c"}, {Projection::kWhole});
    root = projection.object({"a", "b"}, {Projection::kWhole, projection.list(item)});
  }

  std::string cut(const std::string& text) const {
    std::string out = "x";
    return projection.cut(text, root, out) ? out.substr(1) : "no" + out.substr(1);
  }
};

}  // namespace

TEST("projection/only what a plan names is kept, byte for byte") {
  const Made made;
  CHECK_EQ(made.cut(R"({"z":{"y":[1,"}"]},"a": {"q": 1} ,"b":[{"c":1,"d":2},{"d":3},7]})"),
           std::string(R"({"a":{"q": 1},"b":[{"c":1},{},7]})"));
  CHECK_EQ(made.cut("{}"), std::string("{}"));
  CHECK_EQ(made.cut(" null "), std::string("null"));
  CHECK_EQ(made.cut(R"({"b":null,"a":-1.5e3})"), std::string(R"({"b":null,"a":-1.5e3})"));
}

TEST("projection/quotes, escapes and brackets in texts, over the ends of blocks") {
  const Made made;
  for (int length = 0; length < 140; ++length) {
    const std::string filler(static_cast<std::size_t>(length), 'x');
    const std::string skipped = R"({"n":[")" + filler + R"(\\","\"}]{[","]"]})";
    CHECK_EQ(made.cut(R"({"z":)" + skipped + R"(,"a":1})"), std::string(R"({"a":1})"));
    CHECK_EQ(made.cut(R"({"a":)" + skipped + "}"), R"({"a":)" + skipped + "}");
  }
}

TEST("projection/what cannot be followed is left to others") {
  const Made made;
  for (const char* text :
       {"", " ", "{", R"({"a")", R"({"a":)", R"({"a":1)", R"({"a":1,})", R"({"a":1}x)",
        R"({"\u0061":1})", R"({"b":[1,]})", R"({"a":"1})", R"({"z":[[1]})"}) {
    CHECK_EQ(made.cut(text), std::string("no"));
  }
}

TEST("projection/items with a member are left out") {
  Projection projection;
  const auto root = projection.list(projection.unless("p"));
  std::string out;
  CHECK(projection.cut(R"([{"p":1},{"q":{"p":2}},{"r":1,"p":2},"p",{}])", root, out));
  CHECK_EQ(out, std::string(R"([{"q":{"p":2}},"p",{}])"));
}

TEST("projection/marked values by row and column") {
  Projection projection;
  const auto item = projection.object({"c"}, {projection.mark(Projection::kWhole, 1)});
  const auto items = projection.mark(projection.list(item), 2);
  const auto root = projection.object({"a", "b"}, {projection.mark(Projection::kWhole, 0), items});
  std::string out;
  std::vector<Projection::Span> rows;
  CHECK(projection.cut(R"({"b":[{"d":0,"c":"x"},{}],"a":7})", root, out, rows));
  CHECK_EQ(out, std::string(R"({"b":[{"c":"x"},{}],"a":7})"));
  CHECK_EQ(projection.columns(), std::size_t{3});
  std::string found;
  for (const auto& span : rows) found += out.substr(span.begin, span.end - span.begin) + ";";
  CHECK_EQ(found, std::string(R"(7;;[{"c":"x"},{}];;"x";;;;;)"));
  CHECK(!projection.cut(R"({"a":1,"a":2})", root, out, rows));
  CHECK(!projection.cut(R"({"b":7})", root, out, rows));
}

TEST("projection/plans that cannot be") {
  Projection projection;
  const std::vector<std::string> one{"a"};
  const std::vector<std::string> quoted{"a\""};
  const std::vector<Projection::Node> whole{Projection::kWhole};
  CHECK_THROWS(projection.list(7), koord::Exception);
  CHECK_THROWS(projection.object(one, {}), koord::Exception);
  CHECK_THROWS(projection.object(quoted, whole), koord::Exception);
  CHECK_THROWS(projection.mark(Projection::kWhole, Projection::kMaxColumns), koord::Exception);
  std::string out;
  CHECK_THROWS((void)projection.cut("1", 9, out), koord::Exception);
}
