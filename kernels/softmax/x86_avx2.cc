// Softmax for AVX2.
#include "kernels/math/x86_avx2_lanes.h"

#include "kernels/softmax/simd_loops.h"

namespace lathe::kernels {

void softmax_f32_x86_avx2(const SoftmaxF32Args& g) { softmax_f32<Lanes>(g); }
void softmax_s8_x86_avx2(const SoftmaxS8Args& g) { softmax_8<Lanes, false>(g); }
void softmax_u8_x86_avx2(const SoftmaxS8Args& g) { softmax_8<Lanes, true>(g); }

}  // namespace lathe::kernels
