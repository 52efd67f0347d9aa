#include "runtime/exec/elementwise.h"

namespace lathe {
namespace {

// Dim i from the right of a shape padded with ones on the left.
int32_t dim_from_right(const Shape& s, uint32_t i) { return i < s.rank ? s.dims[s.rank - 1 - i] : 1; }

constexpr uint32_t kUnit = 64;  // inner cuts on whole cache lines

// Which operands vary along dim i from the right of a result with `d` there, one bit each. False if one does not broadcast.
bool varying(const PrepareInput& in, uint32_t operands, uint32_t i, int32_t d, uint32_t* mask) {
  *mask = 0;
  for (uint32_t k = 0; k < operands; ++k) {
    const int32_t dk = dim_from_right(in.shape(k), i);
    if (dk != d && dk != 1) return false;
    *mask |= dk == d ? 1u << k : 0;
  }
  return *mask != 0 || d == 1;
}

}  // namespace

bool make_elementwise_shape(const PrepareInput& in, uint32_t operands, ElementwiseShape* out) {
  const Shape& y = in.shape(in.out());
  uint32_t sizes[kMaxRank] = {}, masks[kMaxRank] = {}, count = 0;  // innermost first, merged
  for (uint32_t k = 0; k < operands; ++k) {
    if (in.shape(k).rank > y.rank) return false;
  }
  for (uint32_t i = 0; i < y.rank; ++i) {
    const int32_t d = dim_from_right(y, i);
    uint32_t mask = 0;
    if (!varying(in, operands, i, d, &mask)) return false;
    if (d == 1) continue;
    if (count > 0 && masks[count - 1] == mask) {
      sizes[count - 1] *= static_cast<uint32_t>(d);
    } else {
      sizes[count] = static_cast<uint32_t>(d);
      masks[count++] = mask;
    }
  }
  *out = {};
  out->n = count == 0 ? 1 : sizes[0];
  out->rank = count == 0 ? 0 : count - 1;
  uint32_t rows = 1;
  for (uint32_t k = 0; k < operands; ++k) {
    out->steps[k] = count == 0 || (masks[0] >> k & 1) != 0 ? 1 : 0;
    uint32_t stride = out->steps[k] != 0 ? out->n : 1;
    for (uint32_t i = 1; i < count; ++i) {
      const bool varies = (masks[i] >> k & 1) != 0;
      out->strides[k][out->rank - i] = varies ? stride : 0;
      stride *= varies ? sizes[i] : 1;
    }
  }
  for (uint32_t i = 1; i < count; ++i) {
    out->dims[out->rank - i] = sizes[i];
    rows *= sizes[i];
  }
  out->split = split_work(rows, out->n, rows * out->n, in.threads, kUnit);
  return true;
}

void elementwise_row(const ElementwiseShape& s, uint32_t row, uint32_t (&at)[kMaxElementwiseOperands]) {
  for (uint32_t& a : at) a = 0;
  for (uint32_t i = s.rank; i-- > 0;) {
    const uint32_t coordinate = row % s.dims[i];
    row /= s.dims[i];
    for (uint32_t k = 0; k < kMaxElementwiseOperands; ++k) at[k] += coordinate * s.strides[k][i];
  }
}

uint32_t elementwise_shares(const PrepareInput& in, uint32_t operands) {
  uint32_t mask = 0;
  for (uint32_t k = 0; k < operands; ++k) {
    const bool same = elems(in, k) == elems(in, in.out()) && elem_bytes(in, k) == elem_bytes(in, in.out());
    mask |= same ? 1u << k : 0;
  }
  return mask;
}

Status check_elementwise(const PrepareInput& in, Op op, uint32_t operands) {
  const DType t = in.tensor(0).dtype;
  for (uint32_t k = 0; k < operands; ++k) {
    if (in.tensor(k).dtype != t || !has_type(op_types(op), t) || !is_plain(in, k) || has_quant(in, k))
      return unsupported_operand(in, k);
  }
  const DType wanted = op_compares(op) ? DType::kBool : t;
  if (in.tensor(in.out()).dtype != wanted || has_quant(in, in.out())) return unsupported_operand(in, in.out());
  return {};
}

}  // namespace lathe
