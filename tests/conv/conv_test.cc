#include <doctest/doctest.h>

#include "tests/conv/conv_problem.h"

namespace lathe::test {
namespace {

// Shapes that each exercise one thing; every one runs 8-bit and float, on every ISA, on 1 and 3 threads.
const ConvCase kCases[] = {
    {},
    {.n = 2, .h = 1, .w = 1, .ic = 1, .oc = 1, .kh = 1, .kw = 1, .top = 0, .left = 0, .bottom = 0, .right = 0},
    {.h = 7, .w = 9, .ic = 16, .oc = 17, .kh = 1, .kw = 1, .top = 0, .left = 0, .bottom = 0, .right = 0, .residual = true},
    {.n = 3, .h = 13, .w = 11, .ic = 5, .oc = 64, .kh = 1, .kw = 1, .top = 0, .left = 0, .bottom = 0, .right = 0, .lo = 0},
    {.h = 9,
     .w = 7,
     .ic = 8,
     .oc = 20,
     .kh = 1,
     .kw = 1,
     .stride_h = 2,
     .stride_w = 2,
     .top = 0,
     .left = 0,
     .bottom = 0,
     .right = 0},
    {.n = 2, .h = 16, .w = 16, .ic = 16, .oc = 16, .residual = true, .lo = 0},
    {.h = 17, .w = 15, .ic = 16, .oc = 33, .stride_h = 2, .stride_w = 2},
    {.h = 12,
     .w = 10,
     .ic = 3,
     .oc = 8,
     .kh = 5,
     .kw = 3,
     .stride_h = 2,
     .stride_w = 1,
     .top = 2,
     .left = 0,
     .bottom = 1,
     .right = 2,
     .lo = 0,
     .hi = 6},
    {.h = 14,
     .w = 14,
     .ic = 4,
     .oc = 10,
     .kh = 7,
     .kw = 7,
     .stride_h = 2,
     .stride_w = 2,
     .top = 3,
     .left = 3,
     .bottom = 3,
     .right = 3},
    {.h = 9, .w = 9, .ic = 6, .oc = 7, .dil_h = 2, .dil_w = 2, .top = 2, .left = 2, .bottom = 2, .right = 2},
    {.h = 9, .w = 9, .ic = 6, .oc = 7, .dil_h = 3, .dil_w = 1, .top = 3, .left = 1, .bottom = 3, .right = 1},
    {.h = 20,
     .w = 20,
     .ic = 2,
     .oc = 5,
     .kh = 9,
     .kw = 9,
     .dil_h = 2,
     .dil_w = 2,
     .top = 8,
     .left = 8,
     .bottom = 8,
     .right = 8},  // 81 segments: more than are stored
    {.h = 40, .w = 3, .ic = 2, .oc = 5, .kh = 35, .kw = 3, .dil_w = 2, .top = 0, .left = 2, .bottom = 0, .right = 2},
    {.h = 70, .w = 4, .ic = 1, .oc = 3, .kh = 66, .kw = 2, .top = 0, .left = 0, .bottom = 0, .right = 0},
    {.h = 8, .w = 8, .ic = 12, .oc = 9, .groups = 3},
    {.h = 8, .w = 6, .ic = 40, .oc = 34, .stride_h = 2, .stride_w = 1, .groups = 2, .residual = true},
    {.h = 6, .w = 6, .ic = 8, .oc = 8, .kh = 1, .kw = 1, .top = 0, .left = 0, .bottom = 0, .right = 0, .groups = 4},
    {.n = 2, .h = 8, .w = 8, .ic = 16, .oc = 16, .groups = 16, .lo = 0, .hi = 6},
    {.h = 9, .w = 11, .ic = 24, .oc = 24, .stride_h = 2, .stride_w = 2, .groups = 24, .residual = true},
    {.h = 10, .w = 9, .ic = 70, .oc = 70, .kh = 5, .kw = 5, .top = 2, .left = 2, .bottom = 2, .right = 2, .groups = 70},
    {.h = 9, .w = 9, .ic = 33, .oc = 33, .dil_h = 2, .dil_w = 2, .top = 2, .left = 2, .bottom = 2, .right = 2, .groups = 33},
    {.h = 6, .w = 6, .ic = 5, .oc = 10, .groups = 5, .residual = true},  // channel multiplier 2
    {.h = 7, .w = 5, .ic = 48, .oc = 48, .kh = 1, .kw = 7, .top = 0, .left = 3, .bottom = 0, .right = 3, .groups = 48},
    {.h = 5, .w = 5, .ic = 3, .oc = 4, .top = 4, .left = 3, .bottom = 5, .right = 2},  // whole output rows of padding
    {.h = 24, .w = 24, .ic = 64, .oc = 80, .residual = true},
    {.h = 7, .w = 7, .ic = 96, .oc = 200},
    {.n = 5, .h = 4, .w = 4, .ic = 32, .oc = 48, .bias = false},
    {.h = 7, .w = 7, .ic = 64, .oc = 40, .residual = true},
    {.n = 2, .h = 7, .w = 7, .ic = 35, .oc = 47, .residual = true},  // taps that packed weights cannot be cut between
    {.h = 14, .w = 15, .ic = 5, .oc = 150, .kh = 5, .kw = 5, .stride_w = 2, .top = 2, .left = 1, .bottom = 2, .right = 3},
    {.h = 9, .w = 6, .ic = 4, .oc = 8, .kw = 1, .left = 0, .right = 0},  // padding above and below alone
    {.h = 9, .w = 40, .ic = 5, .oc = 8, .kw = 1, .left = 0, .right = 0},
    {.h = 3, .w = 2, .ic = 3, .oc = 20, .kh = 5, .kw = 5, .top = 2, .left = 2, .bottom = 2, .right = 2},  // no column without
    {.h = 9, .w = 8, .ic = 20, .oc = 24, .kh = 5, .kw = 5, .top = 2, .left = 2, .bottom = 2, .right = 2, .residual = true},
    {.h = 15, .w = 14, .ic = 12, .oc = 72, .stride_h = 2, .stride_w = 2, .top = 0, .left = 0, .bottom = 1, .right = 1},
    {.h = 13, .w = 11, .ic = 17, .oc = 20, .dil_h = 2, .dil_w = 3, .top = 1, .left = 4, .bottom = 3, .right = 2},
    {.h = 9, .w = 9, .ic = 4, .oc = 3, .kh = 7, .kw = 7, .top = 3, .left = 3, .bottom = 3, .right = 3},
    {.h = 5, .w = 6, .ic = 8, .oc = 16, .kh = 1, .kw = 1, .stride_h = 2, .top = 2, .left = 1, .bottom = 3, .right = 0},
    {.h = 9, .w = 40, .ic = 3, .oc = 17, .stride_h = 2, .stride_w = 1, .left = 2, .right = 0},  // wide: edges alone are copied
    {.h = 12, .w = 70, .ic = 20, .oc = 33, .kh = 5, .dil_h = 1, .dil_w = 4, .top = 2, .left = 4, .bottom = 1, .right = 4},
    {.h = 2, .w = 36, .ic = 4, .oc = 8, .residual = true},  // no row without padding
    {.h = 10, .w = 34, .ic = 24, .oc = 12, .groups = 2, .residual = true},
    {.h = 49,
     .w = 10,
     .ic = 1,
     .oc = 64,
     .kh = 10,
     .kw = 4,
     .stride_h = 2,
     .stride_w = 2,
     .top = 4,
     .left = 1,
     .bottom = 5,
     .right = 1,
     .lo = 0},
};

const ConvCase kFullyConnected[] = {
    {.n = 1, .h = 1, .w = 1, .ic = 64, .oc = 10, .kh = 1, .kw = 1, .top = 0, .left = 0, .bottom = 0, .right = 0},
    {.n = 7,
     .h = 1,
     .w = 1,
     .ic = 33,
     .oc = 20,
     .kh = 1,
     .kw = 1,
     .top = 0,
     .left = 0,
     .bottom = 0,
     .right = 0,
     .residual = true,
     .lo = 0},
    {.n = 1, .h = 1, .w = 1, .ic = 1023, .oc = 515, .kh = 1, .kw = 1, .top = 0, .left = 0, .bottom = 0, .right = 0},
    {.n = 65,
     .h = 1,
     .w = 1,
     .ic = 640,
     .oc = 128,
     .kh = 1,
     .kw = 1,
     .top = 0,
     .left = 0,
     .bottom = 0,
     .right = 0,
     .bias = false},
};

void check_quantized(const ConvCase& c, uint32_t seed, bool fully_connected, bool sparse = false) {
  const QuantizedConv problem(c, seed, fully_connected, sparse);
  const auto want = problem.expected();
  for (const Run& run : all_runs()) {
    INFO(c << " isa " << run.isa << " threads " << run.threads);
    REQUIRE(problem.run(run) == want);
  }
}

template <class Real>
void check_real(const ConvCase& c, uint32_t seed, bool fully_connected) {
  const RealConv<Real> problem(c, seed, fully_connected);
  const auto want = problem.expected();
  std::vector<Real> before;
  for (const Run& run : all_runs()) {
    INFO(c << " isa " << run.isa << " threads " << run.threads << " bytes " << sizeof(Real));
    const auto got = problem.run(run);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i)
      REQUIRE(std::fabs(static_cast<double>(kernels::real(got[i])) - want[i]) <= problem.tolerance(want[i]));
    // Runs come in pairs of thread counts: on one ISA they agree bit for bit.
    if (run.threads != 1) REQUIRE(got == before);
    before = got;
  }
}

void check_float(const ConvCase& c, uint32_t seed, bool fully_connected) {
  check_real<float>(c, seed, fully_connected);
  check_real<uint16_t>(c, seed, fully_connected);
}

}  // namespace

TEST_CASE("8-bit convolutions equal the definition bit for bit on every ISA and thread count") {
  // A zero point that is stored as 0 (-128 as u8, 0 as s8) lets padding be left out, any other has it copied.
  uint32_t seed = 100;
  for (ConvCase c : kCases) {
    for (const int zero : {-5, -128, 0}) {
      c.x_zero = zero;
      check_quantized(c, seed++, false);
    }
  }
}

TEST_CASE("8-bit convolutions and fully connected layers of block-sparse weights equal the definition") {
  uint32_t seed = 150;
  for (ConvCase c : kCases) {
    if (c.groups != 1) continue;
    for (const int zero : {-5, -128, 0}) {
      c.x_zero = zero;
      check_quantized(c, seed++, false, true);
    }
  }
  for (const ConvCase& c : kFullyConnected) check_quantized(c, seed++, true, true);
}

TEST_CASE(
    "float and half-precision convolutions are within tolerance of the definition on every ISA, and equal on every thread "
    "count") {
  uint32_t seed = 200;
  for (const ConvCase& c : kCases) check_float(c, seed++, false);
}

TEST_CASE("fully connected layers equal the definition") {
  uint32_t seed = 300;
  for (const ConvCase& c : kFullyConnected) {
    check_quantized(c, seed, true);
    check_float(c, seed++, true);
  }
}

TEST_CASE("padding takes the zero point, whatever it is") {
  for (const int zero : {-128, -1, 0, 77, 127}) {
    check_quantized({.h = 6, .w = 6, .ic = 4, .oc = 17, .x_zero = zero}, 400, false);
    check_quantized({.h = 6, .w = 6, .ic = 20, .oc = 20, .groups = 20, .x_zero = zero}, 401, false);
  }
}

TEST_CASE("a fused clamp is rounded to the output's steps") {
  for (const float hi : {0.02f, 0.031f, 0.032f, 1.5f, 6.0f})
    check_quantized({.h = 6, .w = 6, .ic = 8, .oc = 18, .lo = 0, .hi = hi}, 500, false);
  check_quantized({.h = 6, .w = 6, .ic = 8, .oc = 18, .lo = -1.0f, .hi = -0.5f}, 501, false);
}

TEST_CASE("the result of an image does not depend on the batch it is in") {
  for (const ConvCase& c :
       {ConvCase{.h = 12, .w = 12, .ic = 16, .oc = 24},
        ConvCase{.h = 7, .w = 3, .ic = 20, .oc = 40, .kh = 1, .kw = 1, .top = 0, .left = 0, .bottom = 0, .right = 0},
        ConvCase{.h = 12, .w = 12, .ic = 16, .oc = 16, .groups = 16}}) {
    ConvCase batch = c;
    batch.n = 4;
    for (const Run& run : all_runs()) {
      INFO(c << " isa " << run.isa << " threads " << run.threads);
      const auto alone = FloatConv(c, 7).run(run);
      auto first = FloatConv(batch, 7).run(run);
      first.resize(alone.size());
      REQUIRE(alone == first);
      const auto alone_q = QuantizedConv(c, 7).run(run);
      auto first_q = QuantizedConv(batch, 7).run(run);
      first_q.resize(alone_q.size());
      REQUIRE(alone_q == first_q);
    }
  }
}

}  // namespace lathe::test
