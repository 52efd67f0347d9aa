#include "kernels/math/x86_avx2_lanes.h"

#include "kernels/gemm_tn/simd_loops.h"

namespace lathe::kernels {

void gemm_tn_f32_6x16_x86_avx2(const GemmTnF32Args& g) { gemm_tn_f32<Lanes, 6, 2>(g); }

}  // namespace lathe::kernels
