// Quantize and Dequantize of 16 and 32-bit values, which quantize.cc hands on. The first member of their Params tells run so.
#pragma once
#include "runtime/exec/exec.h"

namespace lathe {

inline constexpr uint32_t kWideMark = 0xffffffffu;

// Operand i is such a value.
bool is_wide(const PrepareInput& in, uint32_t i);
Status prepare_wide_quantize(const PrepareInput& in, Prepared* out);
void run_wide_quantize(const RunContext& ctx, const BoundStep& step);
Status prepare_wide_dequantize(const PrepareInput& in, Prepared* out);
void run_wide_dequantize(const RunContext& ctx, const BoundStep& step);

}  // namespace lathe
