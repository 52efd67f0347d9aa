// MatMulInteger and ConvInteger: exact int32 sums of bytes minus their zero points, which are operands. Portable loops: models
// that fix their scales become convolutions and matrix products on values with parameters, which have kernels.
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

constexpr uint32_t kA = 0, kB = 1, kAZero = 2, kBZero = 3;

struct ProductParams {
  Split split;  // outer: batches, inner: rows
  uint32_t m, n, k;
  uint32_t batch_rank;
  uint32_t batch_dims[kMaxRank], a_batch[kMaxRank], b_batch[kMaxRank];  // steps in matrices, 0 where one serves all
  uint32_t a_signed, b_signed, b_zero_step;
};

bool is_plain_byte(const PrepareInput& in, uint32_t i) {
  return (in.tensor(i).dtype == DType::kS8 || in.tensor(i).dtype == DType::kU8) && is_plain(in, i) && !has_quant(in, i);
}
bool has_operand(const PrepareInput& in, uint32_t i) { return i < in.step->n_in && in.has(i); }

// Types of all operands, and zero points of one element or (b) one per channel.
Status check_operands(const PrepareInput& in, uint32_t channels, uint32_t* b_zero_step) {
  for (uint32_t i = kA; i <= kB; ++i) {
    if (!is_plain_byte(in, i)) return unsupported_operand(in, i);
  }
  if (in.tensor(in.out()).dtype != DType::kS32 || has_quant(in, in.out())) return unsupported_operand(in, in.out());
  *b_zero_step = 0;
  for (uint32_t i = kAZero; i <= kBZero; ++i) {
    if (!has_operand(in, i)) continue;
    if (!is_plain_byte(in, i) || in.tensor(i).dtype != in.tensor(i - 2).dtype) return unsupported_operand(in, i);
    const uint32_t count = elems(in, i);
    if (i == kBZero && count == channels && count != 1) *b_zero_step = 1;
    else if (count != 1) return refuse(in, Code::kInvalidArgument, 1, count);
  }
  return {};
}

int32_t byte_at(const uint8_t* p, uint32_t i, uint32_t is_signed) {
  return is_signed != 0 ? static_cast<int8_t>(p[i]) : static_cast<int32_t>(p[i]);
}

int32_t zero_of(const uint8_t* zeros, uint32_t i, uint32_t is_signed) {
  return zeros == nullptr ? 0 : byte_at(zeros, i, is_signed);
}

// Steps of one operand's matrices along the batch dims; false if they do not broadcast.
bool batch_steps(const Shape& x, const Shape& y, uint32_t* steps) {
  if (x.rank > y.rank) return false;
  const uint32_t missing = y.rank - x.rank;
  uint32_t step = 1;
  for (uint32_t i = y.rank - 2; i-- > 0;) {
    steps[i] = 0;
    if (i < missing) continue;
    const int32_t d = x.dims[i - missing];
    if (d != y.dims[i] && d != 1) return false;
    if (d != 1) steps[i] = step;
    step *= static_cast<uint32_t>(d);
  }
  return true;
}

}  // namespace

Status prepare_MatMulInteger(const PrepareInput& in, Prepared* out) {
  const Shape &a = in.shape(kA), &b = in.shape(kB), &y = in.shape(in.out());
  ProductParams& p = out->make<ProductParams>();
  if (a.rank < 2 || b.rank < 2 || y.rank < 2) return refuse(in, Code::kInvalidArgument, 2, a.rank);
  const auto u = [](int32_t v) { return static_cast<uint32_t>(v); };
  p.m = u(y.dims[y.rank - 2]);
  p.n = u(y.dims[y.rank - 1]);
  p.k = u(a.dims[a.rank - 1]);
  if (u(a.dims[a.rank - 2]) != p.m || u(b.dims[b.rank - 1]) != p.n || u(b.dims[b.rank - 2]) != p.k)
    return refuse(in, Code::kInvalidArgument, p.k, u(b.dims[b.rank - 2]));
  p.batch_rank = y.rank - 2;
  if (!batch_steps(a, y, p.a_batch) || !batch_steps(b, y, p.b_batch))
    return refuse(in, Code::kInvalidArgument, elems(in, kA), elems(in, kB));
  for (uint32_t i = 0; i < p.batch_rank; ++i) p.batch_dims[i] = u(y.dims[i]);
  if (const Status s = check_operands(in, p.n, &p.b_zero_step); !s.ok()) return s;
  p.a_signed = in.tensor(kA).dtype == DType::kS8 ? 1 : 0;
  p.b_signed = in.tensor(kB).dtype == DType::kS8 ? 1 : 0;
  p.split = split_work(y.elems(0, y.rank - 2), p.m, elems(in, in.out()), in.threads, 1);
  return {};
}

void run_MatMulInteger(const RunContext& ctx, const BoundStep& step) {
  const ProductParams& p = ctx.params<ProductParams>(step);
  const auto *a = ctx.in<uint8_t>(step, kA), *b = ctx.in<uint8_t>(step, kB), *b_zeros = ctx.in<uint8_t>(step, kBZero);
  const int32_t a_zero = zero_of(ctx.in<uint8_t>(step, kAZero), 0, p.a_signed);
  auto* y = ctx.out<uint32_t>(step, 0);
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.split, task);
    for (uint32_t batch = t.outer_begin; batch < t.outer_end; ++batch) {
      uint32_t a_at = 0, b_at = 0, rest = batch;
      for (uint32_t i = p.batch_rank; i-- > 0; rest /= p.batch_dims[i]) {
        a_at += rest % p.batch_dims[i] * p.a_batch[i];
        b_at += rest % p.batch_dims[i] * p.b_batch[i];
      }
      for (uint32_t r = t.inner_begin; r < t.inner_end; ++r) {
        uint32_t* row = y + (batch * p.m + r) * p.n;
        for (uint32_t c = 0; c < p.n; ++c) row[c] = 0;
        for (uint32_t k = 0; k < p.k; ++k) {
          const int32_t av = byte_at(a, (a_at * p.m + r) * p.k + k, p.a_signed) - a_zero;
          for (uint32_t c = 0; c < p.n; ++c) {
            const int32_t bv =
                byte_at(b, (b_at * p.k + k) * p.n + c, p.b_signed) - zero_of(b_zeros, c * p.b_zero_step, p.b_signed);
            row[c] += static_cast<uint32_t>(av * bv);
          }
        }
      }
    }
  });
}

namespace {

struct ConvIntegerParams {
  Split split;  // outer: images, inner: output rows
  uint32_t in_h, in_w, ic, out_h, out_w, oc, kh, kw, group_ic, group_oc;
  uint32_t stride[2], dilation[2], pad[2];
  uint32_t a_signed, b_signed, b_zero_step;
};

// One output axis as the op's shape rule gives it, all in 31 bits.
bool axis_fits(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t before, int64_t after) {
  constexpr int64_t kMost = 1 << 24;
  const int64_t positive[] = {kernel, stride, dilation};
  for (const int64_t v : positive) {
    if (v < 1 || v > kMost) return false;
  }
  if (before < 0 || after < 0 || before > kMost || after > kMost) return false;
  const int64_t left = in + before + after - ((kernel - 1) * dilation + 1);
  return left >= 0 && left / stride + 1 == out && (out - 1) * stride + (kernel - 1) * dilation < INT32_MAX;
}

// The sum of one output element: weights that meet padding are left out.
uint32_t conv_sum(const ConvIntegerParams& p, const uint8_t* x, const uint8_t* w, int32_t x_zero, int32_t w_zero, uint32_t oh,
                  uint32_t ow, uint32_t c) {
  const uint32_t first = c / p.group_oc * p.group_ic;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < p.kh; ++i) {
    const uint32_t h = oh * p.stride[0] + i * p.dilation[0] - p.pad[0];
    if (h >= p.in_h) continue;
    for (uint32_t j = 0; j < p.kw; ++j) {
      const uint32_t v = ow * p.stride[1] + j * p.dilation[1] - p.pad[1];
      if (v >= p.in_w) continue;
      for (uint32_t k = 0; k < p.group_ic; ++k) {
        const int32_t xv = byte_at(x, (h * p.in_w + v) * p.ic + first + k, p.a_signed) - x_zero;
        const int32_t wv = byte_at(w, ((c * p.kh + i) * p.kw + j) * p.group_ic + k, p.b_signed) - w_zero;
        sum += static_cast<uint32_t>(xv * wv);
      }
    }
  }
  return sum;
}

}  // namespace

Status prepare_ConvInteger(const PrepareInput& in, Prepared* out) {
  const auto a = in.program->attrs<Conv2dAttrs>(*in.step);
  const Shape &x = in.shape(kA), &w = in.shape(kB), &y = in.shape(in.out());
  if (x.rank != 4 || w.rank != 4 || y.rank != 4) return refuse(in, Code::kInvalidArgument, 4, x.rank);
  if (a.groups < 1 || w[0] < 1 || w[0] % a.groups != 0 || int64_t{w[3]} * a.groups != x[3] || y[0] != x[0] || y[3] != w[0])
    return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(w[0]), static_cast<uint32_t>(y[3]));
  ConvIntegerParams& p = out->make<ConvIntegerParams>();
  const auto u = [](int32_t v) { return static_cast<uint32_t>(v); };
  for (uint32_t i = 0; i < 2; ++i) {
    if (!axis_fits(x[1 + i], y[1 + i], w[1 + i], a.stride[i], a.dilation[i], a.pad[i], a.pad[2 + i]))
      return refuse(in, Code::kInvalidArgument, u(x[1 + i]), u(y[1 + i]));
    p.stride[i] = u(a.stride[i]);
    p.dilation[i] = u(a.dilation[i]);
    p.pad[i] = u(a.pad[i]);
  }
  p.in_h = u(x[1]); p.in_w = u(x[2]); p.ic = u(x[3]);
  p.out_h = u(y[1]); p.out_w = u(y[2]); p.oc = u(y[3]);
  p.kh = u(w[1]); p.kw = u(w[2]); p.group_ic = u(w[3]); p.group_oc = p.oc / u(a.groups);
  if (const Status s = check_operands(in, p.oc, &p.b_zero_step); !s.ok()) return s;
  p.a_signed = in.tensor(kA).dtype == DType::kS8 ? 1 : 0;
  p.b_signed = in.tensor(kB).dtype == DType::kS8 ? 1 : 0;
  p.split = split_work(u(x[0]), p.out_h, elems(in, in.out()), in.threads, 1);
  return {};
}

void run_ConvInteger(const RunContext& ctx, const BoundStep& step) {
  const ConvIntegerParams& p = ctx.params<ConvIntegerParams>(step);
  const auto *w = ctx.in<uint8_t>(step, kB), *w_zeros = ctx.in<uint8_t>(step, kBZero);
  const int32_t x_zero = zero_of(ctx.in<uint8_t>(step, kAZero), 0, p.a_signed);
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.split, task);
    for (uint32_t image = t.outer_begin; image < t.outer_end; ++image) {
      const uint8_t* x = ctx.in<uint8_t>(step, kA) + image * p.in_h * p.in_w * p.ic;
      for (uint32_t oh = t.inner_begin; oh < t.inner_end; ++oh) {
        uint32_t* y = ctx.out<uint32_t>(step, 0) + (image * p.out_h + oh) * p.out_w * p.oc;
        for (uint32_t ow = 0; ow < p.out_w; ++ow) {
          for (uint32_t c = 0; c < p.oc; ++c)
            *y++ = conv_sum(p, x, w, x_zero, zero_of(w_zeros, c * p.b_zero_step, p.b_signed), oh, ow, c);
        }
      }
    }
  });
}

}  // namespace lathe
