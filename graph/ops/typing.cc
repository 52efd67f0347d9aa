#include "graph/ops/typing.h"

#include <algorithm>

#include "runtime/element_types.h"

namespace lathe::ops {
namespace {

constexpr int64_t kMaxContents = 64;

std::string kind_name(const OperandView& v) {
  return (is_quantized(v) ? "quantized " : "") + std::string(dtype_name(v.type->dtype));
}

}  // namespace

Types result(TensorType type, bool quantized, std::optional<std::vector<Dim>> contents) {
  for (const Dim d : type.dims)
    if (!d.valid()) return fail(Code::kInvalidArgument, "result dimension overflows");
  std::vector<Inferred> out;
  out.push_back({.type = std::move(type), .contents = std::move(contents), .quantized = quantized});
  return out;
}

Result<void> want_real(const OperandView& v, const char* what) {
  if (is_real(v)) return {};
  return fail(Code::kInvalidArgument,
              std::string(what) + " is " + dtype_name(v.type->dtype) + " without quantization parameters, must be real");
}

Result<void> want_type_of(const OperandView& v, Op op, const char* what) {
  if (!is_quantized(v) && has_type(op_types(op), is_float(v.type->dtype) ? DType::kF32 : v.type->dtype)) return {};
  return fail(Code::kInvalidArgument, std::string(what) + " is " + kind_name(v) + ", which " + op_name(op) + " does not take");
}

Result<void> want_rank(const OperandView& v, size_t rank, const char* what) {
  if (v.type->dims.size() == rank) return {};
  return fail(Code::kInvalidArgument,
              std::string(what) + " has rank " + std::to_string(v.type->dims.size()) + ", must have " + std::to_string(rank));
}

Result<void> want_same_kind(const OperandView& a, const OperandView& b, const char* what_b) {
  if (a.type->dtype == b.type->dtype && is_quantized(a) == is_quantized(b)) return {};
  return fail(Code::kInvalidArgument, std::string(what_b) + " is " + kind_name(b) + ", must be " + kind_name(a));
}

Result<void> want_weight(const OperandView& x, const OperandView& w) {
  if (is_quantized(x) && x.type->dtype == DType::kS16 && is_quantized(w) && w.type->dtype == DType::kS8) return {};
  return want_same_kind(x, w, "weight");
}

Result<void> want_axis(int32_t axis, size_t rank) {
  if (axis >= 0 && static_cast<size_t>(axis) < rank) return {};
  return fail(Code::kInvalidArgument, "axis is " + std::to_string(axis) + ", input has rank " + std::to_string(rank));
}

Result<Dim> agree(DimTable& dims, Dim a, Dim b, const std::string& what) {
  if (a == b) return a;
  if (dims.never_equal(a, b)) return fail(Code::kInvalidArgument, what + " is " + dims.text(b) + ", must be " + dims.text(a));
  return dims.value(b) ? b : a;
}

Result<void> agree_all(DimTable& dims, std::span<const Dim> a, std::span<const Dim> b, const char* what) {
  if (a.size() != b.size())
    return fail(Code::kInvalidArgument,
                std::string(what) + " has rank " + std::to_string(b.size()) + ", must have " + std::to_string(a.size()));
  for (size_t i = 0; i < a.size(); ++i)
    LATHE_CHECK_OK(agree(dims, a[i], b[i], std::string(what) + " dimension " + std::to_string(i)));
  return {};
}

namespace {

Result<Dim> broadcast_dim(DimTable& dims, Dim a, Dim b) {
  if (a == b || dims.is(b, 1)) return a;
  if (dims.is(a, 1)) return b;
  const auto va = dims.value(a), vb = dims.value(b);
  if (va && vb) return fail(Code::kInvalidArgument, "dimensions " + dims.text(a) + " and " + dims.text(b) + " do not broadcast");
  if (va || vb) {
    const Dim fixed = va ? a : b, open = va ? b : a;
    if (dims.never_equal(fixed, open) && dims.never_equal(open, dims.constant(1)))
      return fail(Code::kInvalidArgument, "dimensions " + dims.text(a) + " and " + dims.text(b) + " do not broadcast");
    return fixed;
  }
  return dims.max(a, b);
}

}  // namespace

Result<std::vector<Dim>> broadcast(DimTable& dims, std::span<const Dim> a, std::span<const Dim> b) {
  if (a.size() < b.size()) std::swap(a, b);
  std::vector<Dim> out(a.begin(), a.end());
  const size_t shift = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    LATHE_TRY(out[shift + i], broadcast_dim(dims, a[shift + i], b[i]));
  }
  return out;
}

Result<void> check_epilogue(const InferInput& in, std::span<const Dim> out) {
  const OperandView& x = in.in[0];
  if (in.in.size() > 2 && in.in[2]) {
    const OperandView& bias = in.in[2];
    const DType integer = x.type->dtype == DType::kS16 ? DType::kS64 : DType::kS32;
    const DType wanted = is_quantized(x) ? integer : x.type->dtype == DType::kF16 ? DType::kF32 : x.type->dtype;
    if (bias.type->dtype != wanted)
      return fail(Code::kInvalidArgument,
                  std::string("bias is ") + dtype_name(bias.type->dtype) + ", must be " + dtype_name(wanted));
    LATHE_CHECK_OK(agree_all(in.dims, out.last(1), bias.type->dims, "bias"));
  }
  if (in.in.size() > 3 && in.in[3]) {
    LATHE_CHECK_OK(want_same_kind(x, in.in[3], "residual"));
    LATHE_CHECK_OK(agree_all(in.dims, out, in.in[3].type->dims, "residual"));
  }
  return {};
}

std::optional<std::vector<Dim>> binary_contents(const InferInput& in, const std::vector<Dim>& out_dims, DimFn fn) {
  const OperandView &a = in.in[0], &b = in.in[1];
  const auto count = small_count(in.dims, out_dims);
  if (!a.contents || !b.contents || !count) return std::nullopt;
  const auto fits = [&](const OperandView& v) {
    return v.contents->size() == 1 || (v.type->dims == out_dims && v.contents->size() == *count);
  };
  if (!fits(a) || !fits(b)) return std::nullopt;
  std::vector<Dim> out(*count);
  for (size_t i = 0; i < *count; ++i) {
    out[i] = fn(in.dims, (*a.contents)[a.contents->size() == 1 ? 0 : i], (*b.contents)[b.contents->size() == 1 ? 0 : i]);
    if (!out[i].valid()) return std::nullopt;
  }
  return out;
}

Dim product(DimTable& dims, std::span<const Dim> factors) {
  Dim p = dims.constant(1);
  for (const Dim d : factors) p = dims.mul(p, d);
  return p;
}

std::optional<size_t> small_count(const DimTable& dims, const std::vector<Dim>& shape) {
  int64_t n = 1;
  for (const Dim d : shape) {
    const auto v = dims.value(d);
    if (!v || *v < 0 || *v > kMaxContents) return std::nullopt;
    n *= *v;
    if (n > kMaxContents) return std::nullopt;
  }
  return static_cast<size_t>(n);
}

Result<Dim> window_extent(DimTable& dims, const Window& w, const char* axis_name) {
  if (w.stride < 1 || w.dilation < 1 || w.kernel < 1)
    return fail(Code::kInvalidArgument, std::string(axis_name) + ": kernel " + std::to_string(w.kernel) + ", stride " +
                                            std::to_string(w.stride) + " and dilation " + std::to_string(w.dilation) +
                                            " must be at least 1");
  if (w.pad_before < 0 || w.pad_after < 0) return fail(Code::kInvalidArgument, std::string(axis_name) + ": pad is negative");
  const int64_t extent = w.dilation * (w.kernel - 1) + 1;  // 32-bit attributes and dims: fits
  const Dim padded = dims.add(w.in, dims.constant(w.pad_before + w.pad_after));
  const Dim room = dims.sub(padded, dims.constant(extent));
  const Dim stride = dims.constant(w.stride), one = dims.constant(1);
  Dim out = dims.add(w.ceil_mode ? dims.ceildiv(room, stride) : dims.floordiv(room, stride), one);
  if (w.ceil_mode) out = dims.min(out, dims.ceildiv(dims.add(w.in, dims.constant(w.pad_before)), stride));
  if (const auto high = dims.upper_bound(out); !out.valid() || (high && *high < 1))
    return fail(Code::kInvalidArgument, std::string(axis_name) + ": window of " + std::to_string(extent) +
                                            " is larger than the padded input of " + dims.text(padded));
  return out;
}

Ints permuted_axes(const Ints& axes, const Ints& perm) {
  Ints out = axes;
  for (int32_t i = 0; i < axes.count; ++i) out.values[i] = perm[axes[i]];
  std::sort(out.values, out.values + out.count);
  return out;
}

}  // namespace lathe::ops
