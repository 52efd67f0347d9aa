#include "kernels/math/x86_avx2_lanes.h"

#include "kernels/math/simd_math.h"
#include "kernels/winograd/loops.h"

namespace lathe::kernels {
namespace {

constexpr auto kEachVector = [](uint32_t n, const auto& body) __attribute__((always_inline)) { for_each_vector<Lanes>(n, body); };

}  // namespace

void winograd_input_f32_x86_avx2(const WinogradTilesF32Args& g) { to_points<Lanes, InputTransform>(g, kEachVector); }
void winograd_gradient_f32_x86_avx2(const WinogradTilesF32Args& g) { to_points<Lanes, GradientTransform>(g, kEachVector); }
void winograd_output_f32_x86_avx2(const WinogradOutputF32Args& g) { from_points<Lanes>(g, kEachVector); }

}  // namespace lathe::kernels
