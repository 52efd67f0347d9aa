#include "kernels/math/x86_avx512_lanes.h"

#include "kernels/batch_norm/simd_loops.h"

namespace lathe::kernels {

void channel_sums_f32_x86_avx512(const ChannelSumsF32Args& g) { channel_sums_f32<Lanes>(g); }
void normalize_f32_x86_avx512(const NormalizeF32Args& g) { normalize_f32<Lanes>(g); }
void normalize_sums_f32_x86_avx512(const NormalizeSumsF32Args& g) { normalize_sums_f32<Lanes>(g); }
void normalize_grad_f32_x86_avx512(const NormalizeGradF32Args& g) { normalize_grad_f32<Lanes>(g); }

}  // namespace lathe::kernels
