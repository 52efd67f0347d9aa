#include "kernels/amax/amax.h"

#include <stddef.h>

#include "lathe/arith.h"

namespace lathe::kernels {

void amax_f32_scalar(const AmaxF32Args& g) {
  for (uint32_t r = 0; r < g.rows; ++r) {
    const float* x = g.x + static_cast<size_t>(r) * g.x_row;
    float most = 0;
    for (uint32_t i = 0; i < g.n; ++i) most = max_f32(x[i] < 0 ? -x[i] : x[i], most);
    g.y[r] = most;
  }
}

}  // namespace lathe::kernels
