#include "kernels/math/arm_neon_lanes.h"

#include "kernels/batch_norm/simd_loops.h"

namespace lathe::kernels {

void channel_sums_f32_arm_neon(const ChannelSumsF32Args& g) { channel_sums_f32<Lanes>(g); }
void normalize_f32_arm_neon(const NormalizeF32Args& g) { normalize_f32<Lanes>(g); }
void normalize_sums_f32_arm_neon(const NormalizeSumsF32Args& g) { normalize_sums_f32<Lanes>(g); }
void normalize_grad_f32_arm_neon(const NormalizeGradF32Args& g) { normalize_grad_f32<Lanes>(g); }

}  // namespace lathe::kernels
