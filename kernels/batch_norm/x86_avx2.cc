#include "kernels/math/x86_avx2_lanes.h"

#include "kernels/batch_norm/simd_loops.h"

namespace lathe::kernels {

void channel_sums_f32_x86_avx2(const ChannelSumsF32Args& g) { channel_sums_f32<Lanes>(g); }
void normalize_f32_x86_avx2(const NormalizeF32Args& g) { normalize_f32<Lanes>(g); }
void normalize_sums_f32_x86_avx2(const NormalizeSumsF32Args& g) { normalize_sums_f32<Lanes>(g); }
void normalize_grad_f32_x86_avx2(const NormalizeGradF32Args& g) { normalize_grad_f32<Lanes>(g); }

}  // namespace lathe::kernels
