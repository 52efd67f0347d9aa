// Shape, Cast and BitCast. Shape subgraphs run through the same executor when they are folded, so all take every plain dtype that
// they meet there.
#include "kernels/eltwise/eltwise.h"
#include "lathe/float16.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

struct ShapeParams {
  uint32_t rank;
  int32_t dims[kMaxRank];
};

struct CastParams {
  uint32_t from, to;  // DType numbers
  Split split;        // inner: elements
};

bool is_floating(DType t) { return t == DType::kF32 || t == DType::kF64 || t == DType::kF16 || t == DType::kBF16; }

template <class T> T load(const uint8_t* p, uint32_t i) { return reinterpret_cast<const T*>(p)[i]; }
template <class T> void store(uint8_t* p, uint32_t i, T v) { reinterpret_cast<T*>(p)[i] = v; }

int64_t load_integer(DType t, const uint8_t* p, uint32_t i) {
  switch (t) {
    case DType::kBool: return load<uint8_t>(p, i) != 0;
    case DType::kU8: return load<uint8_t>(p, i);
    case DType::kS8: return load<int8_t>(p, i);
    case DType::kU16: return load<uint16_t>(p, i);
    case DType::kS16: return load<int16_t>(p, i);
    case DType::kS32: return load<int32_t>(p, i);
    case DType::kU32: return load<uint32_t>(p, i);
    default: return load<int64_t>(p, i);  // u64: the same bits
  }
}

double load_real(DType t, const uint8_t* p, uint32_t i) {
  switch (t) {
    case DType::kF32: return static_cast<double>(load<float>(p, i));
    case DType::kF16: return static_cast<double>(half_to_float(load<uint16_t>(p, i)));
    case DType::kBF16: return static_cast<double>(bfloat_to_float(load<uint16_t>(p, i)));
    case DType::kU64: return static_cast<double>(load<uint64_t>(p, i));
    case DType::kF64: return load<double>(p, i);
    default: return static_cast<double>(load_integer(t, p, i));
  }
}

// Narrower integers keep the low bits; to bool, everything but 0 is true.
void store_integer(DType t, uint8_t* p, uint32_t i, int64_t v) {
  switch (t) {
    case DType::kBool: return store<uint8_t>(p, i, v != 0 ? 1 : 0);
    case DType::kU8: return store(p, i, static_cast<uint8_t>(v));
    case DType::kS8: return store(p, i, static_cast<int8_t>(v));
    case DType::kU16: return store(p, i, static_cast<uint16_t>(v));
    case DType::kS16: return store(p, i, static_cast<int16_t>(v));
    case DType::kS32: return store(p, i, static_cast<int32_t>(v));
    case DType::kU32: return store(p, i, static_cast<uint32_t>(v));
    default: return store(p, i, v);  // u64: the same bits
  }
}

int64_t saturated(double v, double lo, double hi) {
  if (v != v) return 0;
  return static_cast<int64_t>(v < lo ? lo : (v > hi ? hi : v));
}

// To integers: toward zero, values out of range become the nearest one that fits, NaN becomes 0.
void store_real(DType t, uint8_t* p, uint32_t i, double v) {
  switch (t) {
    case DType::kF32: return store(p, i, static_cast<float>(v));
    case DType::kF64: return store(p, i, v);
    case DType::kF16: return store(p, i, float_to_half(static_cast<float>(v)));
    case DType::kBF16: return store(p, i, float_to_bfloat(static_cast<float>(v)));
    case DType::kBool: return store<uint8_t>(p, i, v != 0 ? 1 : 0);
    case DType::kU8: return store_integer(t, p, i, saturated(v, 0, 255));
    case DType::kS8: return store_integer(t, p, i, saturated(v, -128, 127));
    case DType::kU16: return store_integer(t, p, i, saturated(v, 0, 65535));
    case DType::kS16: return store_integer(t, p, i, saturated(v, -32768, 32767));
    case DType::kS32: return store_integer(t, p, i, saturated(v, -2147483648.0, 2147483647.0));
    case DType::kU32: return store_integer(t, p, i, saturated(v, 0, 4294967295.0));
    case DType::kU64: {
      constexpr double kTwo64 = 18446744073709551616.0;
      return store(p, i, v >= kTwo64 ? UINT64_MAX : (v > 0 ? static_cast<uint64_t>(v) : 0));
    }
    default: {
      constexpr double kTwo63 = 9223372036854775808.0;
      if (v >= kTwo63) return store<int64_t>(p, i, INT64_MAX);
      return store_integer(t, p, i, saturated(v, -kTwo63, kTwo63));
    }
  }
}

struct BitCastParams {
  uint32_t bytes;
};

}  // namespace

// The bytes stay; only what they mean changes.
Status prepare_BitCast(const PrepareInput& in, Prepared* out) {
  if (!is_plain(in, 0) || has_quant(in, 0)) return unsupported_operand(in, 0);
  const DType to = in.tensor(in.out()).dtype;
  if (has_quant(in, in.out()) || in.program->attrs<CastAttrs>(*in.step).to != static_cast<int32_t>(to))
    return unsupported_operand(in, in.out());
  const uint32_t bytes = elems(in, 0) * elem_bytes(in, 0);
  if (elem_bytes(in, 0) != dtype_bytes(to) || elems(in, 0) != elems(in, in.out()))
    return refuse(in, Code::kInvalidArgument, bytes, elems(in, in.out()) * dtype_bytes(to));
  out->make<BitCastParams>().bytes = bytes;
  out->exact_input_mask = out->share_input_mask = 1;
  out->alias_input0 = true;
  return {};
}

void run_BitCast(const RunContext& ctx, const BoundStep& step) {
  const uint8_t* x = ctx.in<uint8_t>(step, 0);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  if (x != y) __builtin_memcpy(y, x, ctx.params<BitCastParams>(step).bytes);
}

Status prepare_Shape(const PrepareInput& in, Prepared* out) {
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  if (in.tensor(in.out()).dtype != DType::kS64) return unsupported_operand(in, in.out());
  if (y.rank != 1 || y.dims[0] != static_cast<int32_t>(x.rank))
    return refuse(in, Code::kInvalidArgument, x.rank, elems(in, in.out()));
  ShapeParams& p = out->make<ShapeParams>();
  out->exact_input_mask = 1;
  p.rank = x.rank;
  for (uint32_t i = 0; i < x.rank; ++i) p.dims[i] = x.dims[i];
  return {};
}

void run_Shape(const RunContext& ctx, const BoundStep& step) {
  const ShapeParams& p = ctx.params<ShapeParams>(step);
  int64_t* y = ctx.out<int64_t>(step, 0);
  for (uint32_t i = 0; i < p.rank; ++i) y[i] = p.dims[i];
}

Status prepare_Cast(const PrepareInput& in, Prepared* out) {
  const DType from = in.tensor(0).dtype, to = in.tensor(in.out()).dtype;
  const bool widens = from == DType::kF16 && to == DType::kF32, narrows = from == DType::kF32 && to == DType::kF16;
  if (!is_plain(in, 0) || has_quant(in, 0)) return unsupported_operand(in, 0);
  if (has_quant(in, in.out())) return unsupported_operand(in, in.out());
  if (in.program->attrs<CastAttrs>(*in.step).to != static_cast<int32_t>(to))
    return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(to));
  const uint32_t n = elems(in, 0);
  if (n != elems(in, in.out())) return refuse(in, Code::kInvalidArgument, elems(in, in.out()), n);
  CastParams& p = out->make<CastParams>();
  p.from = static_cast<uint32_t>(from);
  p.to = static_cast<uint32_t>(to);
  p.split = split_work(1, n, n, in.threads, 64);
  out->exact_input_mask = 1;
  if (!widens && !narrows) return {};
  const kernels::Family family = widens ? kernels::Family::kWidenF16 : kernels::Family::kNarrowF16;
  return out->use(kernels::select(family, kernels::Storage::kS8, in.isa)) ? Status{} : refuse(in, Code::kUnsupported);
}

void run_Cast(const RunContext& ctx, const BoundStep& step) {
  const CastParams& p = ctx.params<CastParams>(step);
  const DType from = static_cast<DType>(p.from), to = static_cast<DType>(p.to);
  const uint8_t* x = ctx.in<uint8_t>(step, 0);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange r = task_range(p.split, task);
    const uint32_t n = r.inner_end - r.inner_begin;
    if (from == DType::kF16 && to == DType::kF32) {
      const auto *halves = reinterpret_cast<const uint16_t*>(x) + r.inner_begin;
      return ctx.kernel<kernels::WidenF16Fn>(step)({halves, reinterpret_cast<float*>(y) + r.inner_begin, n});
    }
    if (from == DType::kF32 && to == DType::kF16) {
      const auto *floats = reinterpret_cast<const float*>(x) + r.inner_begin;
      return ctx.kernel<kernels::NarrowF16Fn>(step)({floats, reinterpret_cast<uint16_t*>(y) + r.inner_begin, n});
    }
    for (uint32_t i = r.inner_begin; i < r.inner_end; ++i) {
      if (is_floating(from) || is_floating(to)) store_real(to, y, i, load_real(from, x, i));
      else store_integer(to, y, i, load_integer(from, x, i));
    }
  });
}

}  // namespace lathe
