// SPDX-License-Identifier: Apache-2.0
#include "json_skip.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace koord {
namespace {

constexpr std::ptrdiff_t kBlock = 64;

// Which of 64 bytes are quotes, backslashes, and brackets of either kind; bit 0 is the first byte.
struct Masks {
  std::uint64_t quotes = 0;
  std::uint64_t backslashes = 0;
  std::uint64_t opening = 0;
  std::uint64_t closing = 0;
};

// '[' and '{' differ in one bit, and so do ']' and '}'.
constexpr char kOtherBracket = 0x20;

#if defined(__SSE2__)
std::uint64_t equal(__m128i bytes, char wanted) {
  const __m128i found = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(wanted));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(found));
}

Masks masks_of(const char* at) {
  Masks masks;
  for (std::ptrdiff_t part = 0; part < 4; ++part) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 16 * part));
    const __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(kOtherBracket));
    masks.quotes |= equal(bytes, '"') << (16 * part);
    masks.backslashes |= equal(bytes, '\\') << (16 * part);
    masks.opening |= equal(folded, '{') << (16 * part);
    masks.closing |= equal(folded, '}') << (16 * part);
  }
  return masks;
}
#else
Masks masks_of(const char* at) {
  Masks masks;
  for (int index = 0; index < kBlock; ++index) {
    const std::uint64_t bit = std::uint64_t{1} << index;
    const char folded = static_cast<char>(at[index] | kOtherBracket);
    if (at[index] == '"') masks.quotes |= bit;
    if (at[index] == '\\') masks.backslashes |= bit;
    if (folded == '{') masks.opening |= bit;
    if (folded == '}') masks.closing |= bit;
  }
  return masks;
}
#endif

// Follows a text block by block.
class Brackets {
 public:
  // The index of the bracket that ends the value, -1 if it does not end in this block.
  int take(const char* block) {
    Masks masks = masks_of(block);
    masks.quotes &= ~escaped(masks.backslashes);
    const std::uint64_t text = within_text(masks.quotes);
    const std::uint64_t opening = masks.opening & ~text;
    const std::uint64_t closing = masks.closing & ~text;
    const int closes = std::popcount(closing);
    if (depth_ > closes) {
      depth_ += std::popcount(opening) - closes;
      return -1;
    }
    return one_by_one(opening, closing);
  }

 private:
  // The bytes that a backslash before them makes plain characters.
  std::uint64_t escaped(std::uint64_t backslashes) {
    std::uint64_t found = escapes_next_ ? 1 : 0;
    std::uint64_t left = backslashes & ~found;
    escapes_next_ = false;
    while (left != 0) {
      const int at = std::countr_zero(left);
      if (at == kBlock - 1) {
        escapes_next_ = true;
        break;
      }
      found |= std::uint64_t{2} << at;
      left &= ~(std::uint64_t{3} << at);
    }
    return found;
  }

  // The bytes from an opening quote up to the closing one.
  std::uint64_t within_text(std::uint64_t quotes) {
    std::uint64_t parity = quotes;
    for (int step = 1; step < kBlock; step *= 2) parity ^= parity << step;
    parity ^= in_text_;
    in_text_ = (parity >> (kBlock - 1)) != 0 ? ~std::uint64_t{0} : 0;
    return parity;
  }

  int one_by_one(std::uint64_t opening, std::uint64_t closing) {
    for (std::uint64_t left = opening | closing; left != 0; left &= left - 1) {
      const int at = std::countr_zero(left);
      depth_ += ((opening >> at) & 1) != 0 ? 1 : -1;
      if (depth_ == 0) return at;
    }
    return -1;
  }

  int depth_ = 0;
  bool escapes_next_ = false;
  std::uint64_t in_text_ = 0;
};

const char* skip_brackets(const char* at, const char* end) {
  Brackets brackets;
  for (; end - at >= kBlock; at += kBlock) {
    const int last = brackets.take(at);
    if (last >= 0) return at + last + 1;
  }
  char rest[kBlock];
  std::memset(rest, ' ', sizeof rest);
  std::memcpy(rest, at, static_cast<std::size_t>(end - at));
  const int last = brackets.take(rest);
  return last >= 0 ? at + last + 1 : nullptr;
}

#if defined(__SSE2__)
// The first quote or backslash, or one of the last 15 bytes if none comes before them.
const char* plain_end(const char* at, const char* end) {
  for (; end - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const std::uint64_t found = equal(bytes, '"') | equal(bytes, '\\');
    if (found != 0) return at + std::countr_zero(found);
  }
  return at;
}
#else
const char* plain_end(const char* at, const char*) { return at; }
#endif

}  // namespace

const char* string_end(const char* at, const char* end, bool& escaped) {
  for (at = plain_end(at, end); at < end; ++at) {
    if (*at == '"') return at;
    if (*at != '\\') continue;
    escaped = true;
    at = plain_end(at + 2, end) - 1;
  }
  return nullptr;
}

const char* skip_value(const char* at, const char* end) {
  if (at == end) return nullptr;
  if (*at == '{' || *at == '[') return skip_brackets(at, end);
  if (*at == '"') {
    bool escaped = false;
    const char* quote = string_end(at + 1, end, escaped);
    return quote != nullptr ? quote + 1 : nullptr;
  }
  const char* last = std::find_if(
      at, end, [](char each) { return each == ',' || each == '}' || each == ']' || each <= ' '; });
  return last > at ? last : nullptr;
}

}  // namespace koord
