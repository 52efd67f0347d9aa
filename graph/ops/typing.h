// What infer functions share: kinds of element types, dims that must agree, broadcasting. Used by graph/ops/ only.
//
// Errors are complete sentences without the node's name; `what` names an operand: "weight". Requires: operands that infer_node() has checked
// (present where they must be, valid dims, known dtype).
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/op_def.h"

namespace lathe::ops {

using Types = Result<std::vector<Inferred>>;

// The one result of most ops.
Types result(TensorType type, bool quantized, std::optional<std::vector<Dim>> contents = {});

inline bool is_float(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16 || t == DType::kF64; }
// Integers that count or index: shapes, axes.
inline bool is_index(DType t) { return t == DType::kS64 || t == DType::kS32; }
inline bool is_quantized(const OperandView& v) { return v.quant != nullptr && v.quant->has_value(); }
// Stands for real numbers: float, or quantized.
inline bool is_real(const OperandView& v) { return is_float(v.type->dtype) || is_quantized(v); }

Result<void> want_real(const OperandView& v, const char* what);
// A plain value of a type of op_types(op); any float counts as float32, which it becomes to be computed.
Result<void> want_type_of(const OperandView& v, Op op, const char* what);
Result<void> want_rank(const OperandView& v, size_t rank, const char* what);
// Both are float of one type, or both quantized with one dtype, or both plain integers of one type.
Result<void> want_same_kind(const OperandView& a, const OperandView& b, const char* what_b);
// A layer's weight: of the input's kind, or quantized s8 for a quantized s16 input.
Result<void> want_weight(const OperandView& x, const OperandView& w);
// `axis` of the attributes is in [0, rank).
Result<void> want_axis(int32_t axis, size_t rank);

// a and b must agree: the constant one if there is one. Error if they never do: "<what> is <b>, must be <a>".
Result<Dim> agree(DimTable& dims, Dim a, Dim b, const std::string& what);
Result<void> agree_all(DimTable& dims, std::span<const Dim> a, std::span<const Dim> b, const char* what);

// NumPy broadcasting. A constant over 1 wins against a symbol (which must be 1 or the same); of two different expressions the larger
// is the result, since they must be equal or one of them 1 (0 against 1 is refused when it is bound).
Result<std::vector<Dim>> broadcast(DimTable& dims, std::span<const Dim> a, std::span<const Dim> b);

// Bias (operand 2) and residual (operand 3) of ops with weights and result `out`; the bias runs along the last axis, and is
// float32 for half-precision operands.
Result<void> check_epilogue(const InferInput& in, std::span<const Dim> out);

// What Conv2d infers, and every op with its operands: x [n, h, w, ic], w [oc, kh, kw, ic / groups], bias*, residual*. `extent` gives
// the result's size along spatial axis 0 or 1, called `name`. Defined with Conv2d.
using ConvExtent = std::function<Result<Dim>(size_t axis, int64_t kernel, const char* name)>;
Types infer_convolution(const InferInput& in, int64_t groups, const ConvExtent& extent);
// Dims of a Conv2d's result for operands 0 and 1 of any type. Defined with Conv2d.
Result<std::vector<Dim>> convolution_dims(const InferInput& in, const Conv2dAttrs& attrs);

// f applied to the known contents of two operands that broadcast to `out_dims`: one has a single element, or both have the result's
// shape. Nothing where f gives an invalid Dim.
using DimFn = Dim (*)(DimTable& dims, Dim a, Dim b);
std::optional<std::vector<Dim>> binary_contents(const InferInput& in, const std::vector<Dim>& out_dims, DimFn fn);

Dim product(DimTable& dims, std::span<const Dim> factors);
// Number of elements if it is a constant of at most 64: what contents are kept for.
std::optional<size_t> small_count(const DimTable& dims, const std::vector<Dim>& shape);

// Output extent of a window of `kernel` taps: floor((in + pads - (dilation * (kernel - 1) + 1)) / stride) + 1, at least 1. With `ceil_mode` it is
// rounded up, but the last window must start inside the input or its leading pad (ONNX, PyTorch).
struct Window {
  Dim in;
  int64_t kernel;
  int64_t stride;
  int64_t dilation;
  int64_t pad_before, pad_after;
  bool ceil_mode;
};
Result<Dim> window_extent(DimTable& dims, const Window& w, const char* axis_name);

// The same for spatial axis `i` (0: height, 1: width) of a pooling operator with Pool2dAttrs or their like. Error: pads that could
// hold a whole window, which would have no maximum and no average.
template <class PoolAttrs> Result<Dim> pooled_extent(DimTable& dims, const PoolAttrs& a, size_t i, Dim in) {
  const char* name = i == 0 ? "height" : "width";
  const int64_t extent = int64_t{a.dilation[i]} * (int64_t{a.kernel[i]} - 1) + 1;
  if (a.pad[i] >= extent || a.pad[2 + i] >= extent)
    return fail(Code::kInvalidArgument, std::string(name) + ": pads " + std::to_string(a.pad[i]) + " and " +
                                            std::to_string(a.pad[2 + i]) + " must be smaller than the window of " +
                                            std::to_string(extent));
  const Window window{.in = in,
                      .kernel = a.kernel[i],
                      .stride = a.stride[i],
                      .dilation = a.dilation[i],
                      .pad_before = a.pad[i],
                      .pad_after = a.pad[2 + i],
                      .ceil_mode = a.ceil_mode != 0};
  return window_extent(dims, window, name);
}

// The axes of x that `axes` of transpose(x, perm) are, ascending.
Ints permuted_axes(const Ints& axes, const Ints& perm);

}  // namespace lathe::ops
