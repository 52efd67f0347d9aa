#include "kernels/winograd/loops.h"

namespace lathe::kernels {
namespace {

// The transformations one float at a time.
struct One {
  using F = float;
  struct Whole {};
  static float load(const float* p, Whole) { return *p; }
  static void store(float* p, float v, Whole) { *p = v; }
  static float mul_add(float a, float b, float c) { return a * b + c; }
  static float neg_mul_add(float a, float b, float c) { return c - a * b; }
  // A NaN in the second operand passes.
  static float min(float v, float a) { return v < a ? v : a; }
  static float max(float v, float a) { return v > a ? v : a; }
};

constexpr auto kEachOne = [](uint32_t n, const auto& body) {
  for (uint32_t c = 0; c < n; ++c) body(c, One::Whole{});
};

}  // namespace

void winograd_input_f32_scalar(const WinogradTilesF32Args& g) { to_points<One, InputTransform>(g, kEachOne); }
void winograd_gradient_f32_scalar(const WinogradTilesF32Args& g) { to_points<One, GradientTransform>(g, kEachOne); }
void winograd_output_f32_scalar(const WinogradOutputF32Args& g) { from_points<One>(g, kEachOne); }

}  // namespace lathe::kernels
