// SPDX-License-Identifier: Apache-2.0
// JSON taken apart: what comes out is all of the text, in its order.
#include "fuzz.hpp"
#include "koord/splitter.hpp"

using koord::Splitter;

namespace {

std::string put_together(const Splitter::Object& object) {
  std::string text;
  std::size_t at = 0;
  for (const Splitter::Part& part : object.parts) {
    FUZZ_CHECK(at <= part.place && part.place <= object.frame.size());
    text.append(object.frame, at, part.place - at).append(part.text);
    at = part.place;
  }
  return text.append(object.frame, at);
}

std::string joined(const std::vector<std::string_view>& items) {
  std::string text = "[";
  for (const std::string_view item : items) text.append(text.size() > 1 ? "," : "").append(item);
  return text + "]";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Splitter kSplitter({"args", "env"}, {"name", "args"});
  const std::string_view text = koord::fuzz::text_of(data, size);
  Splitter::Object object;
  if (kSplitter.split(text, object)) {
    FUZZ_CHECK(put_together(object) == text);
    FUZZ_CHECK(object.parts.size() <= 2 && object.noted < 4);
    for (const Splitter::Part& part : object.parts) {
      FUZZ_CHECK(part.name < 2 && !part.text.empty());
      FUZZ_CHECK(part.name != 0 || (object.noted & 2U) != 0);
    }
  }
  std::vector<std::string_view> items;
  if (Splitter::items(text, items)) {
    FUZZ_CHECK(joined(items) == text);
    for (const std::string_view item : items) FUZZ_CHECK(!item.empty());
  }
  return 0;
}
