// exp, tanh, sigmoid, erf, square root and functions made of them: the error in units in the last place over floats of every
// size, for the scalar and all vector forms.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/eltwise/eltwise.h"
#include "kernels/math/functions.h"
#include "kernels/math/math.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// |got - exact| in units of the float32 grid at `exact`.
double ulps(float got, long double exact) {
  if (std::isinf(got) && exact > static_cast<long double>(std::numeric_limits<float>::max())) return 0;
  const int exponent = exact == 0 ? -126 : std::max(std::ilogb(exact), -126);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / std::ldexp(1.0L, exponent - 23));
}

// Floats of every exponent and both signs with scattered mantissas, and some where the functions change.
std::vector<float> arguments() {
  std::vector<float> x = {0.0f,    -0.0f,  1.0f,       -1.0f,   88.72283f, 88.72284f, -87.33654f, -103.97f, -103.98f,
                          -104.1f, 0.625f, 0.6249999f, -0.625f, 9.0f,      10.0f,     3.0f,       -3.0f};
  for (uint64_t bits = 0; bits < 0x100000000ull; bits += 9973) {
    const float v = __builtin_bit_cast(float, static_cast<uint32_t>(bits));
    if (std::isfinite(v)) x.push_back(v);
  }
  for (float v = -105.0f; v < 90.0f; v += 0.00173f) x.push_back(v);
  return x;
}

struct Function {
  const char* name;
  UnaryOp op;
  float (*scalar)(float);
  long double (*exact)(long double);
  double limit;  // ulp, as math.h promises
};
const Function kFunctions[] = {
    {"exp", UnaryOp::kExp, [](float v) { return exp_f32(v); }, [](long double v) { return std::exp(v); }, 2},
    {"tanh", UnaryOp::kTanh, [](float v) { return tanh_f32(v); }, [](long double v) { return std::tanh(v); }, 3},
    {"sigmoid", UnaryOp::kSigmoid, [](float v) { return sigmoid_f32(v); },
     [](long double v) { return v < 0 ? std::exp(v) / (1 + std::exp(v)) : 1 / (1 + std::exp(-v)); }, 3},
    {"erf", UnaryOp::kErf, [](float v) { return erf_f32(v); }, [](long double v) { return std::erf(v); }, 3},
    {"sqrt", UnaryOp::kSqrt, [](float v) { return sqrt_f32(v); }, [](long double v) { return std::sqrt(v); }, 0.5},
};

}  // namespace

TEST_CASE("scalar functions keep their promised error everywhere") {
  for (const Function& f : kFunctions) {
    double worst = 0;
    float at = 0;
    for (const float x : arguments()) {
      if (f.op == UnaryOp::kSqrt && x < 0) continue;
      const double error = ulps(f.scalar(x), f.exact(x));
      if (!(error <= worst)) worst = error, at = x;
    }
    MESSAGE(std::string(f.name) << ": " << worst << " ulp at " << at);
    CHECK_MESSAGE(worst <= f.limit, std::string(f.name) << " at " << at);
  }
}

TEST_CASE("functions without a vector form are within 1 ulp everywhere") {
  struct {
    const char* name;
    float (*f)(float);
    long double (*exact)(long double);
  } const functions[] = {
      {"log", log_f32, [](long double v) { return std::log(v); }},
      {"sin", sin_f32, [](long double v) { return std::sin(v); }},
      {"cos", cos_f32, [](long double v) { return std::cos(v); }},
      {"tan", tan_f32, [](long double v) { return std::tan(v); }},
      {"asin", asin_f32, [](long double v) { return std::asin(v); }},
      {"acos", acos_f32, [](long double v) { return std::acos(v); }},
      {"atan", atan_f32, [](long double v) { return std::atan(v); }},
      {"sinh", sinh_f32, [](long double v) { return std::sinh(v); }},
      {"cosh", cosh_f32, [](long double v) { return std::cosh(v); }},
      {"asinh", asinh_f32, [](long double v) { return std::asinh(v); }},
      {"acosh", acosh_f32, [](long double v) { return std::acosh(v); }},
      {"atanh", atanh_f32, [](long double v) { return std::atanh(v); }},
      {"softplus", softplus_f32, [](long double v) { return std::fmax(v, 0.0L) + std::log1p(std::exp(-std::fabs(v))); }},
      {"mish", mish_f32,
       [](long double v) {
         const long double e = std::exp(std::fmin(v, 100.0L)), n = e * (e + 2);
         return v * (n / (n + 2));
       }},
      {"elu", [](float v) { return elu_f32(v, 1.5f, 0.5f, 2.0f); },
       [](long double v) { return v >= 0 ? 2 * v : 3 * std::expm1(v / 2); }},
      {"floor", floor_f32, [](long double v) { return std::floor(v); }},
      {"ceil", ceil_f32, [](long double v) { return std::ceil(v); }},
  };
  for (const auto& f : functions) {
    double worst = 0;
    float at = 0;
    for (const float x : arguments()) {
      const long double exact = f.exact(static_cast<long double>(x));
      const float got = f.f(x);
      if (std::isnan(exact) && std::isnan(got)) continue;
      const double error = got == static_cast<float>(exact) ? 0 : ulps(got, exact);
      if (!(error <= worst)) worst = error, at = x;
    }
    MESSAGE(std::string(f.name) << ": " << worst << " ulp at " << at);
    CHECK_MESSAGE(worst <= 1, std::string(f.name) << " at " << at);
  }
}

TEST_CASE("powers are within 1 ulp and remainders exact over pairs of all magnitudes") {
  std::mt19937 rng(7);
  double worst = 0;
  for (int i = 0; i < 400000; ++i) {
    const float x = i % 2 == 0 ? __builtin_bit_cast(float, static_cast<uint32_t>(rng()))
                               : static_cast<float>(rng() % 100000) / 1000.0f - 50.0f;
    const float y = i % 3 == 0 ? static_cast<float>(rng() % 41) - 20.0f : static_cast<float>(rng() % 4000) / 100.0f - 20.0f;
    const float power = pow_f32(x, y), rest = fmod_f32(x, y);
    const long double exact = std::pow(static_cast<long double>(x), static_cast<long double>(y));
    CHECK_MESSAGE(std::isnan(power) == std::isnan(exact), x << " ^ " << y);
    if (!std::isnan(power) && !std::isinf(static_cast<float>(exact))) worst = std::max(worst, ulps(power, exact));
    const float remainder = std::fmod(x, y);
    CHECK_MESSAGE((rest == remainder || (std::isnan(rest) && std::isnan(remainder))), x << " mod " << y);
  }
  CHECK(worst <= 1);
}

TEST_CASE("vector functions keep their promised error everywhere") {
  const std::vector<float> x = arguments();
  for_each_kernel<UnaryF32Fn>(Family::kUnaryF32, [&](const Kernel& k, UnaryF32Fn fn, UnaryF32Fn) {
    std::vector<float> y(x.size());
    for (const Function& f : kFunctions) {
      fn({x.data(), y.data(), static_cast<uint32_t>(x.size()), f.op, 0, 0});
      double worst = 0;
      float at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        if (f.op == UnaryOp::kSqrt && x[i] < 0) continue;
        const double error = ulps(y[i], f.exact(x[i]));
        if (!(error <= worst)) worst = error, at = x[i];
      }
      MESSAGE(std::string(k.name) << " " << std::string(f.name) << ": " << worst << " ulp at " << at);
      CHECK_MESSAGE(worst <= f.limit, std::string(k.name) << " " << std::string(f.name) << " at " << at);
    }
  });
}

TEST_CASE("gelu and silu stay within 2^-22 |x| of the exact value, scalar and vector") {
  struct {
    const char* name;
    UnaryOp op;
    long double (*factor)(long double);
  } const functions[] = {
      {"gelu", UnaryOp::kGelu, [](long double v) { return std::erfc(-v / std::sqrt(2.0L)) / 2; }},
      {"gelu by tanh", UnaryOp::kGeluTanh,
       [](long double v) { return 1 / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0L)) * (v + 0.044715L * v * v * v))); }},
      {"silu", UnaryOp::kSilu, [](long double v) { return 1 / (1 + std::exp(-v)); }},
  };
  std::vector<float> x = arguments();
  std::erase_if(x, [](float v) { return std::fabs(v) > 1e12f; });
  for_each_kernel<UnaryF32Fn>(Family::kUnaryF32, [&](const Kernel& k, UnaryF32Fn fn, UnaryF32Fn) {
    std::vector<float> y(x.size());
    for (const auto& f : functions) {
      fn({x.data(), y.data(), static_cast<uint32_t>(x.size()), f.op, 0, 0});
      double worst = 0;
      float at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const long double v = static_cast<long double>(x[i]);
        // Products of denormal numbers lose digits that no bound relative to x has.
        const long double bound = std::max(std::fabs(v), 0x1p-120L) * 0x1p-22L;
        const auto error = static_cast<double>(std::fabs(static_cast<long double>(y[i]) - v * f.factor(v)) / bound);
        if (!(error <= worst)) worst = error, at = x[i];
      }
      MESSAGE(std::string(k.name) << " " << std::string(f.name) << ": " << worst << " of 2^-22 |x| at " << at);
      CHECK(worst <= 1);
    }
  });
}

TEST_CASE("functions of infinities, NaN and negative numbers are what IEEE 754 says, on every ISA") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {kInf, -kInf, nan, -1.0f, -0.0f};
  for_each_kernel<UnaryF32Fn>(Family::kUnaryF32, [&](const Kernel& k, UnaryF32Fn fn, UnaryF32Fn) {
    CAPTURE(std::string(k.name));
    const auto run = [&](UnaryOp op, float a = 0, float b = 0) {
      std::vector<float> y(x.size());
      fn({x.data(), y.data(), static_cast<uint32_t>(x.size()), op, a, b});
      return y;
    };
    std::vector<float> y = run(UnaryOp::kExp);
    CHECK(y[0] == kInf);
    CHECK(y[1] == 0);
    CHECK(std::isnan(y[2]));
    y = run(UnaryOp::kSigmoid);
    CHECK(y[0] == 1);
    CHECK(y[1] == 0);
    CHECK(std::isnan(y[2]));
    y = run(UnaryOp::kTanh);
    CHECK(y[0] == 1);
    CHECK(y[1] == -1);
    CHECK(std::isnan(y[2]));
    y = run(UnaryOp::kErf);
    CHECK(y[0] == 1);
    CHECK(y[1] == -1);
    CHECK(std::isnan(y[2]));
    for (const UnaryOp op : {UnaryOp::kGelu, UnaryOp::kGeluTanh, UnaryOp::kSilu}) {
      y = run(op);
      CHECK(y[0] == kInf);
      CHECK(std::isnan(y[2]));
      CHECK(y[4] == 0);
    }
    y = run(UnaryOp::kSqrt);
    CHECK(y[0] == kInf);
    CHECK(std::isnan(y[1]));
    CHECK(std::isnan(y[3]));
    CHECK((y[4] == 0 && std::signbit(y[4])));
    y = run(UnaryOp::kClamp, 0, 6);
    CHECK(y[0] == 6);
    CHECK(y[1] == 0);
    CHECK(std::isnan(y[2]));
    y = run(UnaryOp::kLeakyRelu, 0.5f);
    CHECK(y[3] == -0.5f);
    CHECK(std::isnan(y[2]));
  });
}

}  // namespace lathe::kernels
