// Random numbers that are the same on every machine, with every compiler and standard library.
//
// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014): a counter walks in steps of an odd
// constant, and a value is a mix of the counter. A stream that starts at a hash of some words (seed, epoch, sample) needs no
// state from the streams before it, so that work may be resumed or done in any order. Not for secrets. Not thread-safe.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace lathe {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  // A stream of its own for each seed and list of words.
  Random(uint64_t seed, std::initializer_list<uint64_t> words) : state_(seed) {
    for (const uint64_t word : words) state_ = mix(state_ ^ mix(word + kStep));
  }

  uint64_t next() { return mix(state_ += kStep); }
  // From [0, n). Requires: n >= 1. The bias of the remainder is below n / 2^64.
  uint64_t below(uint64_t n) { return next() % n; }
  // From [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // Mean 0, standard deviation 1 (Marsaglia, Bray 1964, the polar method; one of its two values).
  double normal();
  // Gamma of this shape and scale 1 (Marsaglia, Tsang 2000). Requires: shape > 0 and finite.
  double gamma(double shape);
  // From (0, 1). Requires: a, b > 0 and finite.
  double beta(double a, double b);

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  static constexpr uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }

  uint64_t state_;
};

// 0 ... n-1 in a random order (Fisher, Yates). Requires: n < 2^32.
std::vector<uint32_t> permutation(uint64_t n, Random random);

}  // namespace lathe
