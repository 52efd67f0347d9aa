// Elementwise work on halves: tiles of them are widened to floats on the stack, computed by the op's float kernel, and narrowed,
// so that nothing but halves goes through memory. Other operators widen and narrow blocks of rows in scratch. A step's last two
// kernels convert.
#pragma once
#include "kernels/eltwise/eltwise.h"
#include "runtime/exec/exec.h"

namespace lathe {

inline constexpr uint32_t kHalfTile = 512;

// Adds the two kernels behind those that compute.
inline bool use_half_kernels(const PrepareInput& in, Prepared* out) {
  return out->use(kernels::select(kernels::Family::kWidenF16, kernels::Storage::kS8, in.isa)) &&
         out->use(kernels::select(kernels::Family::kNarrowF16, kernels::Storage::kS8, in.isa));
}

struct HalfKernels {
  kernels::WidenF16Fn widen;
  kernels::NarrowF16Fn narrow;
  // first: how many kernels compute.
  HalfKernels(const RunContext& ctx, const BoundStep& step, uint32_t first = 1)
      : widen(ctx.kernel<kernels::WidenF16Fn>(step, first)), narrow(ctx.kernel<kernels::NarrowF16Fn>(step, first + 1)) {}
};

// Calls f(first element, elements) for the tiles of a run of n.
template <class F> void for_each_half_tile(uint32_t n, const F& f) {
  for (uint32_t i = 0; i < n; i += kHalfTile) f(i, n - i < kHalfTile ? n - i : kHalfTile);
}

}  // namespace lathe
