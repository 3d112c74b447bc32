// SPDX-License-Identifier: Apache-2.0
// JSON cut down by a projection, with marks and without.
#include "fuzz.hpp"
#include "koord/projection.hpp"

using koord::Projection;

namespace {

struct Cuts {
  Projection projection;
  Projection::Node plain = 0;
  Projection::Node marked = 0;

  Cuts() {
    const auto meta = projection.object({"name", "uid"}, {Projection::kWhole, Projection::kWhole});
    const auto taint = projection.unless("effect");
    const auto spec = projection.object({"taints"}, {projection.list(taint)});
    const auto item = projection.object({"metadata", "spec"}, {meta, spec});
    plain = projection.object({"kind", "items"}, {Projection::kWhole, projection.list(item)});
    const auto named = projection.object(
        {"name", "uid"}, {projection.mark(Projection::kWhole, 1), Projection::kWhole});
    const auto noted = projection.object({"metadata", "spec"}, {named, projection.mark(spec, 2)});
    marked = projection.object({"kind", "items"},
                               {projection.mark(Projection::kWhole, 0), projection.list(noted)});
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Cuts kCuts;
  const std::string_view text = koord::fuzz::text_of(data, size);
  std::string out = "before";
  const bool followed = kCuts.projection.cut(text, kCuts.plain, out);
  FUZZ_CHECK(out.starts_with("before"));
  if (!followed) FUZZ_CHECK(out == "before");
  if (followed) {
    FUZZ_CHECK(out.size() <= text.size() + 6);
    std::string again;
    FUZZ_CHECK(kCuts.projection.cut(std::string_view(out).substr(6), kCuts.plain, again));
    FUZZ_CHECK(again == out.substr(6));
  }
  std::string marked = "before";
  std::vector<Projection::Span> rows;
  if (kCuts.projection.cut(text, kCuts.marked, marked, rows)) {
    FUZZ_CHECK(followed && marked == out);
    FUZZ_CHECK(rows.size() % kCuts.projection.columns() == 0);
    for (const auto& span : rows) FUZZ_CHECK(span.begin <= span.end && span.end <= marked.size());
  } else {
    FUZZ_CHECK(marked == "before");
  }
  return 0;
}
