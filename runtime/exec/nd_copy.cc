#include "runtime/exec/nd_copy.h"

namespace lathe {
namespace {

// Drops dims of size 1 and merges neighbours that are one run on both sides. Returns the new rank.
uint32_t merge_dims(const CopyDim* dims, uint32_t rank, CopyDim* merged) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < rank; ++i) {
    const CopyDim& d = dims[i];
    if (d.size == 1) continue;
    CopyDim* last = count == 0 ? nullptr : &merged[count - 1];
    const int64_t size = d.size;
    if (last != nullptr && last->x_stride == size * d.x_stride && last->y_stride == size * d.y_stride) {
      *last = {last->size * d.size, d.x_stride, d.y_stride};
    } else {
      merged[count++] = d;
    }
  }
  return count;
}

// A dense innermost dim of 2, 4 or 8 bytes is one larger element.
void widen_elements(const CopyDim* dims, uint32_t* rank, uint32_t* elem_bytes) {
  if (*rank < 2) return;
  const CopyDim& d = dims[*rank - 1];
  const int32_t bytes = static_cast<int32_t>(*elem_bytes);
  if (d.x_stride != bytes || d.y_stride != bytes || d.size > 8) return;
  const uint32_t wide = d.size * *elem_bytes;
  if (wide != 2 && wide != 4 && wide != 8) return;
  *elem_bytes = wide;
  --*rank;
}

constexpr uint32_t kNone = 0xffffffffu;

uint32_t find_dense(const CopyDim* dims, uint32_t rank, uint32_t elem_bytes, int32_t CopyDim::*stride) {
  for (uint32_t i = rank; i-- > 0;) {
    if (dims[i].*stride == static_cast<int32_t>(elem_bytes)) return i;
  }
  return kNone;
}

// All dims but a and b become outer ones.
void keep_outer(const CopyDim* dims, uint32_t rank, uint32_t a, uint32_t b, NdCopy* out) {
  for (uint32_t i = 0; i < rank; ++i) {
    if (i != a && i != b) out->outer[out->outer_rank++] = dims[i];
  }
}

}  // namespace

kernels::Family nd_copy_prepare(const CopyDim* given, uint32_t given_rank, uint32_t elem_bytes, uint32_t threads, NdCopy* out) {
  CopyDim dims[kMaxRank + 1];
  uint32_t total = 1;
  for (uint32_t i = 0; i < given_rank; ++i) total *= given[i].size;
  uint32_t rank = merge_dims(given, given_rank, dims);
  widen_elements(dims, &rank, &elem_bytes);
  const int32_t x_base = out->x_base, y_base = out->y_base;
  *out = {};
  out->x_base = x_base;
  out->y_base = y_base;
  out->elem_bytes = elem_bytes;
  out->rows = out->n = 1;
  const uint32_t dense_x = find_dense(dims, rank, elem_bytes, &CopyDim::x_stride);
  const uint32_t dense_y = find_dense(dims, rank, elem_bytes, &CopyDim::y_stride);
  uint32_t outer = 1;
  out->transposed = dense_x != kNone && dense_y != kNone && dense_x != dense_y ? 1 : 0;
  if (out->transposed != 0) {
    keep_outer(dims, rank, dense_x, dense_y, out);
    out->rows = dims[dense_y].size;
    out->n = dims[dense_x].size;
    out->x_row = dims[dense_y].x_stride;
    out->y_row = dims[dense_x].y_stride;
  } else {
    // Rows run along the dim that is dense in y; without any, every element is a row of its own.
    const uint32_t row_dim = dense_y != kNone ? dense_y : kNone;
    uint32_t next = kNone;
    for (uint32_t i = rank; i-- > 0 && next == kNone;) {
      if (i != row_dim) next = i;
    }
    keep_outer(dims, rank, row_dim, next, out);
    out->n = row_dim == kNone ? 1 : dims[row_dim].size;
    out->x_step = row_dim == kNone ? static_cast<int32_t>(elem_bytes) : dims[row_dim].x_stride;
    if (next != kNone) {
      out->rows = dims[next].size;
      out->x_row = dims[next].x_stride;
      out->y_row = dims[next].y_stride;
    }
  }
  for (uint32_t i = 0; i < out->outer_rank; ++i) outer *= out->outer[i].size;
  constexpr uint32_t kUnit = 16;
  out->split = split_work(outer, out->transposed != 0 ? out->n : out->rows, total, threads, out->transposed != 0 ? kUnit : 1);
  return out->transposed != 0 ? kernels::Family::kTranspose : kernels::Family::kCopy;
}

namespace {

// Moves x and y to flattened outer index `index`.
void locate(const NdCopy& c, uint32_t index, const uint8_t** x, uint8_t** y) {
  for (uint32_t i = c.outer_rank; i-- > 0;) {
    const uint32_t at = index % c.outer[i].size;
    index /= c.outer[i].size;
    *x += static_cast<int32_t>(at) * c.outer[i].x_stride;
    *y += static_cast<int32_t>(at) * c.outer[i].y_stride;
  }
}

void run_rows(const NdCopy& c, kernels::CopyFn kernel, const TaskRange& t, const uint8_t* x, uint8_t* y) {
  for (uint32_t o = t.outer_begin; o < t.outer_end; ++o) {
    const uint8_t* from = x + static_cast<int32_t>(t.inner_begin) * c.x_row;
    uint8_t* to = y + static_cast<int32_t>(t.inner_begin) * c.y_row;
    locate(c, o, &from, &to);
    kernel({from, to, t.inner_end - t.inner_begin, c.n, c.x_row, c.y_row, c.x_step, c.elem_bytes});
  }
}

void run_blocks(const NdCopy& c, kernels::TransposeFn kernel, const TaskRange& t, const uint8_t* x, uint8_t* y) {
  for (uint32_t o = t.outer_begin; o < t.outer_end; ++o) {
    const uint8_t* from = x + t.inner_begin * c.elem_bytes;
    uint8_t* to = y + static_cast<int32_t>(t.inner_begin) * c.y_row;
    locate(c, o, &from, &to);
    kernel({from, to, c.rows, t.inner_end - t.inner_begin, c.x_row, c.y_row, c.elem_bytes});
  }
}

}  // namespace

void nd_copy_run(const RunContext& ctx, const NdCopy& c, kernels::AnyFn kernel, const uint8_t* x, uint8_t* y) {
  x += c.x_base;
  y += c.y_base;
  ctx.parallel(c.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(c.split, task);
    if (c.transposed != 0) run_blocks(c, reinterpret_cast<kernels::TransposeFn>(kernel), t, x, y);
    else run_rows(c, reinterpret_cast<kernels::CopyFn>(kernel), t, x, y);
  });
}

void operand_strides(const PrepareInput& in, uint32_t i, int32_t strides[kMaxRank]) {
  const Shape& shape = in.shape(i);
  const uint32_t bytes = dtype_bytes(in.tensor(i).dtype), pixel = in.pixel_stride(i);
  uint32_t stride = bytes;
  for (uint32_t d = shape.rank; d-- > 0;) {
    strides[d] = static_cast<int32_t>(stride);
    const uint32_t step = d + 1 == shape.rank ? pixel : static_cast<uint32_t>(shape.dims[d]);
    stride *= step == 0 ? 1 : step;
  }
}

}  // namespace lathe
