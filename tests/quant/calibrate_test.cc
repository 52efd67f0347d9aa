#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "graph/ir.h"
#include "quant/calibrate.h"
#include "tests/graph/graph_run.h"

using namespace lathe;
using lathe::test::parsed;

namespace {

// Ranges after one sample of `values`.
template <class T> RangeTable ranges(const Graph& g, const std::vector<T>& values) {
  SampleSource source;
  source.count = 1;
  source.fill = [&](uint64_t, const std::vector<void*>& inputs) -> Result<void> {
    std::memcpy(inputs[0], values.data(), values.size() * sizeof(T));
    return {};
  };
  const auto c = calibrate(g, source, {});
  REQUIRE_MESSAGE(c, c.error().message);
  return ranges_of(*c);
}

const std::string kMasked = "input %x : f32[N,2,4]\nconstant %mask : f32[4] = [0,0,-1e9,0]\n%m = Add (%x, %mask)\n";
const std::vector<float> kScores = {1, 2, 3, -30, -5, -4, 7, -6};

}  // namespace

TEST_CASE("what a softmax cannot tell from nothing does not widen the range of its operand") {
  const RangeTable r = ranges(parsed(kMasked + "%y = Softmax (%m) {axis=2}\noutput %y\n"), kScores);
  CHECK(r.at("m").max == 2.0);
  CHECK(r.at("m").min == doctest::Approx(-4 - 11.8));  // of the row whose largest is -4
  CHECK(r.at("x").min == -30.0);
}

TEST_CASE("the whole range counts along another axis, for another reader and for the caller") {
  const auto min = [](const std::string& rest) { return ranges(parsed(kMasked + rest), kScores).at("m").min; };
  CHECK(min("%y = Softmax (%m) {axis=1}\noutput %y\n") == -1e9);
  CHECK(min("%y = Softmax (%m) {axis=2}\n%e = Exp (%m)\noutput %y\noutput %e\n") == -1e9);
  CHECK(min("%y = Softmax (%m) {axis=2}\noutput %y\noutput %m\n") == -1e9);
}

TEST_CASE("models of tokens are calibrated with integers") {
  const Graph g = parsed("input %t : s64[N,3]\nconstant %table : f32[4,2] = [1,2,3,4,5,6,7,-8]\n%e = Gather (%table, %t) {axis=0}\n"
                         "output %e\n");
  const RangeTable r = ranges(g, std::vector<int64_t>{0, 3, 1});
  CHECK(r.at("e").min == -8.0);
  CHECK(r.at("e").max == 7.0);
  CHECK_FALSE(r.contains("t"));
}
