// Operators that move bytes: Reshape, Transpose, Slice, Pad and Assign. Any dtype; quantized values keep their grid.
#include "lathe/float16.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/nd_copy.h"

namespace lathe {
namespace {

using kernels::Family;

struct MoveParams {
  NdCopy copy;
};
struct BytesParams {
  uint32_t bytes;
};
struct PadParams {
  NdCopy copy;
  uint32_t fill;  // whether there is anything to fill
  uint32_t value_low, value_high;
  uint32_t elem_bytes;
  Split split;  // of the fill; inner: elements
};

// Operand 0 to output 0, byte by byte, and not a constant that lies in another storage than the output.
Status check_move(const PrepareInput& in, Prepared* out) {
  if (!same_bytes(in, 0)) return unsupported_operand(in, 0);
  out->exact_input_mask = 1;
  return stored_flip(in, 0) == 0 ? Status{} : unsupported_operand(in, 0);
}

// Copies that go by strides take any.
void take_strides(Prepared* out) {
  out->strided_input_mask = 1;
  out->strided_output = true;
}

Status use_copy(const PrepareInput& in, Family family, Prepared* out) {
  return out->use(kernels::select(family, kernels::Storage::kS8, in.isa)) ? Status{} : refuse(in, Code::kUnsupported);
}

void run_copy(const RunContext& ctx, const BoundStep& step) {
  const MoveParams& p = ctx.params<MoveParams>(step);
  nd_copy_run(ctx, p.copy, ctx.kernel<kernels::AnyFn>(step), ctx.in<uint8_t>(step, 0), ctx.out<uint8_t>(step, 0));
}

}  // namespace

Status prepare_Reshape(const PrepareInput& in, Prepared* out) {
  if (const Status s = check_move(in, out); !s.ok()) return s;
  if (elems(in, 0) != elems(in, in.out())) return refuse(in, Code::kInvalidArgument, elems(in, in.out()), elems(in, 0));
  out->make<BytesParams>().bytes = elems(in, 0) * elem_bytes(in, 0);
  out->share_input_mask = 1;
  out->alias_input0 = true;
  return {};
}

void run_Reshape(const RunContext& ctx, const BoundStep& step) {
  const uint8_t* x = ctx.in<uint8_t>(step, 0);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  const uint32_t bytes = ctx.params<BytesParams>(step).bytes;
  if (x != y && bytes != 0) __builtin_memcpy(y, x, bytes);
}

Status prepare_Transpose(const PrepareInput& in, Prepared* out) {
  if (const Status s = check_move(in, out); !s.ok()) return s;
  take_strides(out);
  const Ints perm = in.program->attrs<PermAttrs>(*in.step).perm;
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  if (x.rank != y.rank || perm.count != static_cast<int32_t>(x.rank))
    return refuse(in, Code::kInvalidArgument, x.rank, static_cast<uint32_t>(perm.count));
  int32_t x_strides[kMaxRank], y_strides[kMaxRank];
  operand_strides(in, 0, x_strides);
  operand_strides(in, in.out(), y_strides);
  CopyDim dims[kMaxRank];
  uint32_t seen = 0;
  for (uint32_t i = 0; i < y.rank; ++i) {
    const uint32_t axis = static_cast<uint32_t>(perm[static_cast<int32_t>(i)]);
    if (axis >= x.rank || (seen >> axis & 1) != 0) return refuse(in, Code::kInvalidArgument, x.rank, axis);
    seen |= 1u << axis;
    if (x.dims[axis] != y.dims[i])
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(x.dims[axis]), static_cast<uint32_t>(y.dims[i]));
    dims[i] = {static_cast<uint32_t>(y.dims[i]), x_strides[axis], y_strides[i]};
  }
  return use_copy(in, nd_copy_prepare(dims, y.rank, elem_bytes(in, 0), in.threads, &out->make<MoveParams>().copy), out);
}

void run_Transpose(const RunContext& ctx, const BoundStep& step) { run_copy(ctx, step); }

namespace {

// ONNX's rule for one axis: negative begin and end count from the end, then both are clamped to where the step can go.
bool slice_axis(int32_t dim, int64_t begin, int64_t end, int64_t step, int64_t* first, int64_t* count) {
  if (step == 0) return false;
  if (begin < 0) begin += dim;
  if (end < 0) end += dim;
  const int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? dim : dim - 1;
  begin = begin < (step > 0 ? 0 : lowest) ? lowest : (begin > highest ? highest : begin);
  end = end < lowest ? lowest : (end > highest ? highest : end);
  const int64_t distance = step > 0 ? end - begin : begin - end, stride = step > 0 ? step : -step;
  *first = begin;
  *count = distance > 0 ? (distance + stride - 1) / stride : 0;
  return true;
}

}  // namespace

namespace {

// A slice with step 1 of one axis, all others whole, is a part of the input.
void find_piece(const PrepareInput& in, const SliceAttrs& a, uint32_t first_bytes, Prepared* out) {
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  uint32_t cut = kMaxRank;
  for (uint32_t i = 0; i < x.rank; ++i) {
    if (x.dims[i] == y.dims[i]) continue;
    if (cut != kMaxRank) return;
    cut = i;
  }
  for (int32_t k = 0; k < a.axes.count; ++k) {
    if (a.steps[k] != 1 && y.dims[a.axes[k]] > 1) return;
  }
  if (cut != kMaxRank) out->pieces = {Piecing::kCut, 0, x.elems(0, cut), first_bytes / elem_bytes(in, 0)};
}

}  // namespace

Status prepare_Slice(const PrepareInput& in, Prepared* out) {
  if (const Status s = check_move(in, out); !s.ok()) return s;
  const SliceAttrs a = in.program->attrs<SliceAttrs>(*in.step);
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  if (x.rank != y.rank) return refuse(in, Code::kInvalidArgument, x.rank, y.rank);
  if (a.begins.count != a.axes.count || a.ends.count != a.axes.count || a.steps.count != a.axes.count)
    return refuse(in, Code::kInvalidArgument);
  int32_t x_strides[kMaxRank], y_strides[kMaxRank];
  operand_strides(in, 0, x_strides);
  operand_strides(in, in.out(), y_strides);
  CopyDim dims[kMaxRank];
  for (uint32_t i = 0; i < x.rank; ++i) dims[i] = {static_cast<uint32_t>(x.dims[i]), x_strides[i], y_strides[i]};
  MoveParams& p = out->make<MoveParams>();
  uint32_t seen = 0;
  for (int32_t k = 0; k < a.axes.count; ++k) {
    const uint32_t axis = static_cast<uint32_t>(a.axes[k]);
    if (axis >= x.rank || (seen >> axis & 1) != 0) return refuse(in, Code::kInvalidArgument, x.rank, axis);
    seen |= 1u << axis;
    int64_t first = 0, count = 0;
    if (!slice_axis(x.dims[axis], a.begins[k], a.ends[k], a.steps[k], &first, &count)) return refuse(in, Code::kInvalidArgument);
    // With at most one element the step is never taken and may not fit the stride.
    const int64_t stride = count > 1 ? static_cast<int64_t>(a.steps[k]) * x_strides[axis] : x_strides[axis];
    if (count > 0) p.copy.x_base += static_cast<int32_t>(first) * x_strides[axis];
    dims[axis] = {static_cast<uint32_t>(count), static_cast<int32_t>(stride), y_strides[axis]};
  }
  for (uint32_t i = 0; i < y.rank; ++i) {
    if (dims[i].size != static_cast<uint32_t>(y.dims[i]))
      return refuse(in, Code::kInvalidArgument, dims[i].size, static_cast<uint32_t>(y.dims[i]));
  }
  take_strides(out);
  if (in.is_placed(in.out(), 0)) {
    out->elided = true;
    p = {};
    return use_copy(in, Family::kCopy, out);
  }
  find_piece(in, a, static_cast<uint32_t>(p.copy.x_base), out);
  return use_copy(in, nd_copy_prepare(dims, y.rank, elem_bytes(in, 0), in.threads, &p.copy), out);
}

void run_Slice(const RunContext& ctx, const BoundStep& step) { run_copy(ctx, step); }

namespace {

// The little-endian bytes of the real `value` as an element of output 0. False if that dtype cannot hold it.
bool fill_bits(const PrepareInput& in, float value, uint64_t* bits) {
  if (is_q8(in, in.out())) {
    const QuantParams q = in.quant(in.out());
    *bits = static_cast<uint8_t>(quantize(value, q.scale, q.zero_point, q.qmin, q.qmax));
    return true;
  }
  switch (in.tensor(in.out()).dtype) {
    case DType::kF32: *bits = __builtin_bit_cast(uint32_t, value); return true;
    case DType::kF64: *bits = __builtin_bit_cast(uint64_t, static_cast<double>(value)); return true;
    case DType::kF16: *bits = float_to_half(value); return true;
    case DType::kBF16: *bits = 0; return value == 0;
    default: break;
  }
  // Integers: the value must be one, and small enough for every width (s8 is the narrowest).
  if (!(value >= -128 && value <= 127) || rne_f32(value) != value) return false;
  *bits = static_cast<uint64_t>(static_cast<int64_t>(value));
  return true;
}

}  // namespace

Status prepare_Pad(const PrepareInput& in, Prepared* out) {
  if (const Status s = check_move(in, out); !s.ok()) return s;
  const PadAttrs a = in.program->attrs<PadAttrs>(*in.step);
  out->strided_input_mask = 1;
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  const int32_t rank = static_cast<int32_t>(x.rank);
  if (x.rank != y.rank || a.before.count != rank || a.after.count != rank)
    return refuse(in, Code::kInvalidArgument, x.rank, y.rank);
  const uint32_t bytes = elem_bytes(in, 0);
  int32_t x_strides[kMaxRank], y_strides[kMaxRank];
  operand_strides(in, 0, x_strides);
  operand_strides(in, in.out(), y_strides);
  PadParams& p = out->make<PadParams>();
  CopyDim dims[kMaxRank];
  for (int32_t i = 0; i < rank; ++i) {
    const int64_t before = a.before[i], after = a.after[i], dim = x.dims[i];
    if (dim + before + after != y.dims[i])
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(dim), static_cast<uint32_t>(y.dims[i]));
    const int64_t skip = before < 0 ? -before : 0, cut = after < 0 ? -after : 0;
    const int64_t kept = dim - skip - cut > 0 ? dim - skip - cut : 0;
    if (kept > 0) {
      p.copy.x_base += static_cast<int32_t>(skip) * x_strides[i];
      p.copy.y_base += static_cast<int32_t>(before > 0 ? before : 0) * y_strides[i];
    }
    dims[i] = {static_cast<uint32_t>(kept), x_strides[i], y_strides[i]};
    if (kept != y.dims[i]) p.fill = 1;
  }
  uint64_t value = 0;
  if (p.fill != 0 && !fill_bits(in, a.value, &value)) return unsupported_operand(in, in.out());
  p.value_low = static_cast<uint32_t>(value);
  p.value_high = static_cast<uint32_t>(value >> 32);
  p.elem_bytes = bytes;
  const uint32_t n = elems(in, in.out());
  p.split = split_work(1, n, n, in.threads, 64);
  return use_copy(in, nd_copy_prepare(dims, x.rank, bytes, in.threads, &p.copy), out);
}

void run_Pad(const RunContext& ctx, const BoundStep& step) {
  const PadParams& p = ctx.params<PadParams>(step);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  const uint64_t value = static_cast<uint64_t>(p.value_high) << 32 | p.value_low;
  if (p.fill != 0) {
    ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
      const TaskRange r = task_range(p.split, task);
      kernels::fill(y + r.inner_begin * p.elem_bytes, r.inner_end - r.inner_begin, p.elem_bytes, value);
    });
  }
  nd_copy_run(ctx, p.copy, ctx.kernel<kernels::AnyFn>(step), ctx.in<uint8_t>(step, 0), y);
}

// Operands: variable, value. The one writer of variables.
Status prepare_Assign(const PrepareInput& in, Prepared* out) {
  const ProgramTensor &to = in.tensor(0), &from = in.tensor(1);
  if (to.dtype != from.dtype || !is_plain(in, 1) || has_quant(in, 0) != has_quant(in, 1) || stored_flip(in, 1) != 0)
    return unsupported_operand(in, 1);
  if (has_quant(in, 0) && !(to.quant == from.quant)) return unsupported_operand(in, 1);
  if (!(in.shape(0) == in.shape(1))) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, 1));
  out->make<BytesParams>().bytes = elems(in, 0) * elem_bytes(in, 0);
  out->exact_input_mask = 2;
  return {};
}

void run_Assign(const RunContext& ctx, const BoundStep& step) {
  uint8_t* to = ctx.operand(step, 0);
  const uint8_t* from = ctx.in<uint8_t>(step, 1);
  const uint32_t bytes = ctx.params<BytesParams>(step).bytes;
  if (to != from && bytes != 0) __builtin_memcpy(to, from, bytes);
}

}  // namespace lathe
