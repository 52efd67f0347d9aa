#include "kernels/gemm_tn/gemm_tn.h"

namespace lathe::kernels {

void gemm_tn_f32_scalar(const GemmTnF32Args& g) {
  for (uint32_t r = 0; r < g.m; ++r) {
    float* y = g.y + static_cast<size_t>(r) * g.y_step;
    if (g.add == 0)
      for (uint32_t c = 0; c < g.n; ++c) y[c] = 0;
    for (uint32_t i = 0; i < g.rows; ++i) {
      const float *a = g.a + static_cast<size_t>(i) * g.a_row_step + r, *b = g.b + static_cast<size_t>(i) * g.b_row_step;
      for (uint32_t j = 0; j < g.cols; ++j, a += g.a_col_step, b += g.b_col_step)
        for (uint32_t c = 0; c < g.n; ++c) y[c] += *a * b[c];
    }
  }
}

}  // namespace lathe::kernels
