#include "kernels/math/arm_neon_lanes.h"

#include "kernels/gemm_tn/simd_loops.h"

namespace lathe::kernels {

void gemm_tn_f32_8x8_arm_neon(const GemmTnF32Args& g) { gemm_tn_f32<Lanes, 8, 1>(g); }

}  // namespace lathe::kernels
