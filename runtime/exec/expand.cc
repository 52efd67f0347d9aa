// Expand and Tile: strided copies that read elements several times.
#include "runtime/exec/checks.h"
#include "runtime/exec/nd_copy.h"

namespace lathe {
namespace {

struct RepeatParams {
  NdCopy copy;
};

Status prepare_copy(const PrepareInput& in, const CopyDim* dims, uint32_t rank, Prepared* out) {
  out->exact_input_mask = 1;
  NdCopy* copy = &out->make<RepeatParams>().copy;
  const kernels::Family family = nd_copy_prepare(dims, rank, elem_bytes(in, 0), in.threads, copy);
  return out->use(kernels::select(family, kernels::Storage::kS8, in.isa)) ? Status{} : refuse(in, Code::kUnsupported);
}

void run_copy(const RunContext& ctx, const BoundStep& step) {
  nd_copy_run(ctx, ctx.params<RepeatParams>(step).copy, ctx.kernel<kernels::AnyFn>(step), ctx.in<uint8_t>(step, 0),
              ctx.out<uint8_t>(step, 0));
}

}  // namespace

// Every dim of x is the result's or 1, from the last one on.
Status prepare_Expand(const PrepareInput& in, Prepared* out) {
  if (!same_bytes(in, 0) || stored_flip(in, 0) != 0) return unsupported_operand(in, 0);
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  if (x.rank > y.rank) return refuse(in, Code::kInvalidArgument, y.rank, x.rank);
  int32_t x_strides[kMaxRank], y_strides[kMaxRank];
  operand_strides(in, 0, x_strides);
  operand_strides(in, in.out(), y_strides);
  CopyDim dims[kMaxRank];
  for (uint32_t i = 0; i < y.rank; ++i) {
    const uint32_t skipped = y.rank - x.rank;
    const int32_t n = i < skipped ? 1 : x.dims[i - skipped];
    if (n != 1 && n != y.dims[i]) return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(y.dims[i]), static_cast<uint32_t>(n));
    dims[i] = {static_cast<uint32_t>(y.dims[i]), n == 1 ? 0 : x_strides[i - skipped], y_strides[i]};
  }
  return prepare_copy(in, dims, y.rank, out);
}

void run_Expand(const RunContext& ctx, const BoundStep& step) { run_copy(ctx, step); }

// A repeated axis is two dims of the copy: its copies, and its elements.
Status prepare_Tile(const PrepareInput& in, Prepared* out) {
  if (!same_bytes(in, 0) || stored_flip(in, 0) != 0) return unsupported_operand(in, 0);
  const Ints repeats = in.program->attrs<TileAttrs>(*in.step).repeats;
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  if (x.rank != y.rank || repeats.count != static_cast<int32_t>(x.rank))
    return refuse(in, Code::kInvalidArgument, x.rank, static_cast<uint32_t>(repeats.count));
  int32_t x_strides[kMaxRank], y_strides[kMaxRank];
  operand_strides(in, 0, x_strides);
  operand_strides(in, in.out(), y_strides);
  CopyDim dims[2 * kMaxRank];
  uint32_t rank = 0;
  for (uint32_t i = 0; i < x.rank; ++i) {
    const int64_t times = repeats[static_cast<int32_t>(i)];
    if (times < 1 || times * x.dims[i] != y.dims[i])
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(x.dims[i]), static_cast<uint32_t>(y.dims[i]));
    const int32_t n = x.dims[i];
    if (times > 1) dims[rank++] = {static_cast<uint32_t>(times), 0, n * y_strides[i]};
    if (n != 1) dims[rank++] = {static_cast<uint32_t>(n), x_strides[i], y_strides[i]};
  }
  if (rank > kMaxRank) return refuse(in, Code::kUnsupported, kMaxRank, rank);
  return prepare_copy(in, dims, rank, out);
}

void run_Tile(const RunContext& ctx, const BoundStep& step) { run_copy(ctx, step); }

}  // namespace lathe
