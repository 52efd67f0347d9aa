// Mutations of bytes that follow from a seed alone, the same on every machine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace lathe::fuzz {

class Mutator {
 public:
  // Requires: at least one seed; none is changed.
  Mutator(const std::vector<std::string>& seeds, uint64_t seed) : seeds_(seeds), random_(seed) {}

  // One of the seeds with one to six changes, few in a short one: bits, bytes and numbers of 1 to 8 bytes replaced, stretches removed, doubled, moved
  // or taken from another seed, the end cut off, digits of text changed.
  std::string next();

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }
  void change(std::string& s);
  void write_number(std::string& s);

  const std::vector<std::string>& seeds_;
  std::mt19937_64 random_;
};

}  // namespace lathe::fuzz
