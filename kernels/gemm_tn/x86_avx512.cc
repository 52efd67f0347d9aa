#include "kernels/math/x86_avx512_lanes.h"

#include "kernels/gemm_tn/simd_loops.h"

namespace lathe::kernels {

void gemm_tn_f32_8x32_x86_avx512(const GemmTnF32Args& g) { gemm_tn_f32<Lanes, 8, 2>(g); }

}  // namespace lathe::kernels
