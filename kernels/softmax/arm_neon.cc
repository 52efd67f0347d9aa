// Softmax for NEON.
#include "kernels/math/arm_neon_lanes.h"

#include "kernels/softmax/simd_loops.h"

namespace lathe::kernels {

void softmax_f32_arm_neon(const SoftmaxF32Args& g) { softmax_f32<Lanes>(g); }
void softmax_s8_arm_neon(const SoftmaxS8Args& g) { softmax_8<Lanes, false>(g); }

}  // namespace lathe::kernels
