#include "graph/file/stored_constant.h"

#include "base/hash.h"

namespace lathe {
namespace {

std::span<const std::byte> as_span(Bytes b) { return {reinterpret_cast<const std::byte*>(b.data), b.size}; }

// Products of the packing's members stay within 31 bits, padding included, so that ConvPacking's own arithmetic cannot overflow.
bool packing_fits(const ConvPacking& p) {
  uint64_t elems = 1;
  for (uint32_t member : {p.groups, p.n, p.segs, p.seg_k, p.kh, p.kw}) {
    if (member == 0 || member > (1u << 24)) return false;
  }
  for (uint64_t factor : {uint64_t{p.groups}, uint64_t{p.padded_n()}, p.depthwise ? uint64_t{p.kh} : uint64_t{p.segs},
                          p.depthwise ? uint64_t{p.kw} : uint64_t{p.seg_k}}) {
    elems *= factor;
    if (elems > 0x7fffffffu / 16) return false;
  }
  return true;
}

template <class T>
Result<Constant> weights(const ConvPacking& p, uint64_t elems, Bytes stored, uint64_t packed_elems,
                         void (ConvPacking::*unpack)(const T*, T*) const) {
  if (p.weight_elems() != elems || packed_elems * sizeof(T) != stored.size)
    return fail(Code::kCorrupt, "packed weights do not fit their dims");
  std::vector<T> out(elems);
  (p.*unpack)(reinterpret_cast<const T*>(stored.data), out.data());
  return Constant::of(out);
}

Result<Constant> sparse_weights(const ConvPacking& p, uint64_t elems, Bytes stored) {
  const auto* packed = reinterpret_cast<const int8_t*>(stored.data);
  if (p.depthwise || p.groups != 1 || p.weight_elems() != elems || p.segs % p.kh != 0 || p.seg_k % p.kw != 0 ||
      !kernels::gemm_sparse_s8_valid(packed, stored.size, p.sparse_shape()))
    return fail(Code::kCorrupt, "block-sparse weights do not fit their dims");
  std::vector<int8_t> out(elems);
  kernels::gemm_sparse_s8_unpack(packed, p.sparse_shape(), out.data());
  return Constant::of(out);
}

template <class T>
Result<Constant> vector(const ConvPacking& p, uint64_t elems, Bytes stored) {
  if (uint64_t{p.groups} * p.n != elems || uint64_t{p.vector_elems()} * sizeof(T) != stored.size)
    return fail(Code::kCorrupt, "a padded vector does not fit its dims");
  std::vector<T> out(elems);
  for (uint32_t c = 0; c < elems; ++c) out[c] = reinterpret_cast<const T*>(stored.data)[p.vector_index(c)];
  return Constant::of(out);
}

}  // namespace

uint64_t constant_hash(Layout layout, Bytes stored) {
  return hash64(as_span(stored)) * 31 + static_cast<uint64_t>(layout);
}

Result<Constant> unpacked(Layout layout, DType dtype, uint64_t elems, const std::optional<ConvPacking>& packing, Bytes stored) {
  if (!packing || !packing_fits(*packing)) return fail(Code::kCorrupt, "a packed constant has no usable packing record");
  const ConvPacking& p = *packing;
  const bool s8 = dtype == DType::kS8, f32 = dtype == DType::kF32, f16 = dtype == DType::kF16;
  switch (layout) {
    case Layout::kGemmS8:
    case Layout::kDwConvS8:
      if (!s8 || p.depthwise != (layout == Layout::kDwConvS8)) break;
      return weights<int8_t>(p, elems, stored, p.packed_s8_bytes(), &ConvPacking::unpack_s8);
    case Layout::kGemmSparseS8:
      if (!s8) break;
      return sparse_weights(p, elems, stored);
    case Layout::kGemmF32:
    case Layout::kDwConvF32:
      if (!f32 || p.depthwise != (layout == Layout::kDwConvF32)) break;
      return weights<float>(p, elems, stored, p.packed_f32_elems(), &ConvPacking::unpack_f32);
    case Layout::kGemmF16:
    case Layout::kDwConvF16:
      if (!f16 || p.depthwise != (layout == Layout::kDwConvF16)) break;
      return weights<uint16_t>(p, elems, stored, p.packed_f32_elems(), &ConvPacking::unpack_f16);
    case Layout::kPadded16:
      if (dtype_bytes(dtype) != 4) break;
      return vector<uint32_t>(p, elems, stored);
    case Layout::kPlain:
      break;
    default:
      return fail(Code::kVersion, "layout " + std::to_string(static_cast<int>(layout)) + " is unknown");
  }
  return fail(Code::kCorrupt, "layout " + std::to_string(static_cast<int>(layout)) + " does not go with " + dtype_name(dtype));
}

}  // namespace lathe
