#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cstring>

namespace lathe::fuzz {
namespace {

// Where readers of numbers go wrong.
constexpr uint64_t kNumbers[] = {0, 1, 2, 3, 7, 8, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000,
                                 0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff,
                                 0xfffffffffffffffe, 0x7f800000, 0x7fc00000, 0x00800000};
constexpr const char* kTexts[] = {"-1", "0", "999999999999", "2147483648", "1e39", "nan", "-0.0", "[]", "\"\"", "%", "8", ","};

}  // namespace

void Mutator::write_number(std::string& s) {
  const uint64_t v = below(2) == 0 ? kNumbers[below(std::size(kNumbers))] : random_() >> below(64);
  char bytes[10];
  size_t n = size_t{1} << below(4);
  std::memcpy(bytes, &v, 8);
  if (below(3) == 0) {  // a varint of protocol buffers
    n = 0;
    uint64_t rest = v;
    do bytes[n++] = static_cast<char>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    while ((rest >>= 7) != 0);
  }
  s.replace(below(s.size()), n, bytes, n);
}

void Mutator::change(std::string& s) {
  if (s.empty()) s.push_back(static_cast<char>(random_()));
  const size_t at = below(s.size()), length = 1 + below(std::min<size_t>(s.size() - at, size_t{1} << below(8)));
  switch (below(9)) {
    case 0: s[at] = static_cast<char>(s[at] ^ (1 << below(8))); break;
    case 1: s[at] = static_cast<char>(random_()); break;
    case 2:
    case 3: write_number(s); break;
    case 4: s.erase(at, length); break;
    case 5: s.insert(at, s.substr(at, length)); break;
    case 6: s.insert(below(s.size()), s.substr(at, length)); break;
    case 7: {
      const std::string& other = seeds_[below(seeds_.size())];
      const size_t from = other.empty() ? 0 : below(other.size());
      s.replace(at, length, other.substr(from, 1 + below(64)));
      break;
    }
    default:
      if (below(8) == 0) s.resize(at);
      else s.replace(at, below(3), kTexts[below(std::size(kTexts))]);
  }
}

std::string Mutator::next() {
  std::string s = seeds_[below(seeds_.size())];
  const size_t most = std::clamp<size_t>(s.size() / 128, 1, 6);  // a short file with many changes is rarely one of its format
  for (size_t n = 1 + below(most); n > 0; --n) change(s);
  if (s.size() > (1u << 20)) s.resize(1u << 20);
  return s;
}

}  // namespace lathe::fuzz
