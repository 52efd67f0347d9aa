// Indices that come as data: read in either integer type, resolved along an axis, checked before anything is touched.
//
// A step cannot fail. An index that is outside reads nothing: the element becomes NaN (floats), the zero point (quantized values)
// or 0; and it writes nothing. Constant indices are checked in prepare. Shared by Gather and its relatives.
#pragma once
#include "runtime/exec/checks.h"

namespace lathe {

inline int64_t load_index(const uint8_t* indices, uint32_t bytes, uint32_t i) {
  if (bytes == 4) return reinterpret_cast<const int32_t*>(indices)[i];
  return reinterpret_cast<const int64_t*>(indices)[i];
}

// Position of an index along an axis, or -1. Negative ones count from the end.
inline int32_t resolve_index(int64_t index, int32_t axis_n) {
  if (index < 0) index += axis_n;
  return index >= 0 && index < axis_n ? static_cast<int32_t>(index) : -1;
}

inline bool is_index_operand(const PrepareInput& in, uint32_t i) {
  const DType t = in.tensor(i).dtype;
  return (t == DType::kS32 || t == DType::kS64) && is_plain(in, i) && !has_quant(in, i);
}

// Operand `i`, if it is a constant: index k must lie in an axis of axis_of(k) elements.
template <class F> Status check_constant_indices(const PrepareInput& in, uint32_t i, const F& axis_of) {
  if (in.tensor(i).kind != TensorKind::kConstant) return {};
  const uint8_t* indices = in.program->constant(in.tensor(i));
  for (uint32_t k = 0; k < elems(in, i); ++k) {
    const int64_t index = load_index(indices, elem_bytes(in, i), k);
    if (resolve_index(index, axis_of(k)) < 0)
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(axis_of(k)), static_cast<uint32_t>(index));
  }
  return {};
}

// The elements of operand 0 that indices (operand 1, of as many axes) name: an index is the position along `axis`, its own place
// that along the others. 32-bit members: part of a step's parameters.
struct IndexedElements {
  uint32_t rank, axis, count, index_bytes;
  int32_t axis_n;
  uint32_t dims[kMaxRank];     // of the indices
  uint32_t strides[kMaxRank];  // of operand 0, elements

  // Element of operand 0 for index `i`, which stands for position `at`. Requires: at >= 0.
  uint32_t element(uint32_t i, int32_t at) const {
    uint32_t place = static_cast<uint32_t>(at) * strides[axis];
    for (uint32_t d = rank, rest = i; d-- > 0; rest /= dims[d])
      if (d != axis) place += rest % dims[d] * strides[d];
    return place;
  }
};

// `like`: the operand with one element per index.
inline Status read_indexed_elements(const PrepareInput& in, int32_t attribute, uint32_t like, IndexedElements* p) {
  const uint32_t axis = static_cast<uint32_t>(attribute);
  const Shape &x = in.shape(0), &at = in.shape(1);
  if (axis >= x.rank || at.rank != x.rank) return refuse(in, Code::kInvalidArgument, x.rank, axis);
  if (!(at == in.shape(like))) return refuse(in, Code::kInvalidArgument, elems(in, 1), elems(in, like));
  for (uint32_t i = 0; i < x.rank; ++i) {
    if (i != axis && at.dims[i] > x.dims[i])
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(x.dims[i]), static_cast<uint32_t>(at.dims[i]));
    p->dims[i] = static_cast<uint32_t>(at.dims[i]);
    p->strides[i] = x.elems(i + 1, x.rank);
  }
  p->rank = x.rank;
  p->axis = axis;
  p->axis_n = x.dims[axis];
  p->count = elems(in, 1);
  p->index_bytes = elem_bytes(in, 1);
  return {};
}

// What an element that is not there reads as, for operand `i`.
inline uint64_t outside_bits(const PrepareInput& in, uint32_t i) {
  switch (in.tensor(i).dtype) {
    case DType::kF32: return 0x7fc00000u;
    case DType::kF64: return 0x7ff8000000000000u;
    case DType::kF16: return 0x7e00u;
    case DType::kBF16: return 0x7fc0u;
    default: return has_quant(in, i) ? static_cast<uint8_t>(in.quant(i).zero_point) : 0u;
  }
}

}  // namespace lathe
