// Attributes of operators: plain structs of fixed capacity and 32-bit members, so that their bytes are the same on every target
// and are what the PLAN section stores. Each struct lists its members once, in visit(); printing, parsing, equality and the files
// follow that list.
//
// visit(self, v) calls v("name", member) for every member in order. Appending a member raises the op's version in PLAN
// (runtime/program.h): a reader fills what an older, shorter record lacks with the defaults below.
#pragma once
#include <stdint.h>

#include "lathe/dtype.h"
#include "lathe/shape.h"

namespace lathe {

// A short list of integers with its count.
struct Ints {
  int32_t count = 0;
  int32_t values[kMaxRank] = {};
  constexpr bool operator==(const Ints&) const = default;
  constexpr int32_t operator[](int32_t i) const { return values[i]; }
};

inline constexpr float kInfinity = __builtin_inff();

struct NoAttrs {
  static constexpr bool kEmpty = true;
  template <class Self, class V> static constexpr void visit(Self&, V&&) {}
  constexpr bool operator==(const NoAttrs&) const = default;
};

// 2-D convolution, NHWC, weights OHWI. Pads: top, left, bottom, right. The result is clamped to [lo, hi] (real values) after the
// residual is added. Depthwise is groups == ic == oc * multiplier.
struct Conv2dAttrs {
  static constexpr bool kEmpty = false;
  int32_t stride[2] = {1, 1};
  int32_t dilation[2] = {1, 1};
  int32_t pad[4] = {0, 0, 0, 0};
  int32_t groups = 1;
  float lo = -kInfinity;
  float hi = kInfinity;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("stride", s.stride); v("dilation", s.dilation); v("pad", s.pad); v("groups", s.groups); v("lo", s.lo); v("hi", s.hi);
  }
  constexpr bool operator==(const Conv2dAttrs&) const = default;
};

// Transposed 2-D convolution, NHWC, weights OHWI: input pixel r adds x[r] w[p] to output pixel r * stride + p * dilation - pad,
// per axis. The result has (in - 1) * stride + dilation * (kernel - 1) + 1 - pads + output_pad pixels; pads are cut off,
// output_pad (below stride or dilation) appends pixels at the bottom and right. Otherwise as Conv2d.
struct ConvTranspose2dAttrs {
  static constexpr bool kEmpty = false;
  int32_t stride[2] = {1, 1};
  int32_t dilation[2] = {1, 1};
  int32_t pad[4] = {0, 0, 0, 0};
  int32_t output_pad[2] = {0, 0};
  int32_t groups = 1;
  float lo = -kInfinity;
  float hi = kInfinity;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("stride", s.stride);
    v("dilation", s.dilation);
    v("pad", s.pad);
    v("output_pad", s.output_pad);
    v("groups", s.groups);
    v("lo", s.lo);
    v("hi", s.hi);
  }
  constexpr bool operator==(const ConvTranspose2dAttrs&) const = default;
};

// y[.., n] = clamp(sum_k x[.., k] * w[n, k] + bias[n] + residual, lo, hi).
struct FullyConnectedAttrs {
  static constexpr bool kEmpty = false;
  float lo = -kInfinity;
  float hi = kInfinity;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("lo", s.lo); v("hi", s.hi); }
  constexpr bool operator==(const FullyConnectedAttrs&) const = default;
};

// FullyConnected on float x with INT8 weights: x is quantized on the fly with z = 0 and a scale from its largest magnitude, per row
// (token) or for the whole tensor.
struct DynamicFullyConnectedAttrs {
  static constexpr bool kEmpty = false;
  int32_t per_token = 1;
  float lo = -kInfinity;
  float hi = kInfinity;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("per_token", s.per_token); v("lo", s.lo); v("hi", s.hi);
  }
  constexpr bool operator==(const DynamicFullyConnectedAttrs&) const = default;
};

// y = transpose(clamp(scale * matmul(transpose(a, a_perm), transpose(b, b_perm)), lo, hi), y_perm), matmul as ONNX defines it for
// ranks of at least 2. An empty perm moves nothing. a_perm and y_perm leave the last axis where it is: rows of a and y are read
// and written in place, whatever the order of the axes before (the heads of an attention); b is packed when it is read.
struct MatMulAttrs {
  static constexpr bool kEmpty = false;
  Ints a_perm;
  Ints b_perm;
  Ints y_perm;
  float scale = 1.0f;
  float lo = -kInfinity;
  float hi = kInfinity;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("a_perm", s.a_perm); v("b_perm", s.b_perm); v("y_perm", s.y_perm); v("scale", s.scale); v("lo", s.lo); v("hi", s.hi);
  }
  constexpr bool operator==(const MatMulAttrs&) const = default;
};

// y = (x - mean) / sqrt(variance + epsilon) * scale + bias along `axis`.
struct BatchNormAttrs {
  static constexpr bool kEmpty = false;
  float epsilon = 1e-5f;
  int32_t axis = 1;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("epsilon", s.epsilon); v("axis", s.axis); }
  constexpr bool operator==(const BatchNormAttrs&) const = default;
};

// The same by the statistics of the batch; the result is clamped to [lo, hi].
struct BatchNormTrainAttrs {
  static constexpr bool kEmpty = false;
  float epsilon = 1e-5f;
  int32_t axis = 1;
  float lo = -kInfinity;
  float hi = kInfinity;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("epsilon", s.epsilon);
    v("axis", s.axis);
    v("lo", s.lo);
    v("hi", s.hi);
  }
  constexpr bool operator==(const BatchNormTrainAttrs&) const = default;
};

// y = (x - mean) / sqrt(variance + epsilon) * scale + bias over all axes from `axis` on.
struct LayerNormAttrs {
  static constexpr bool kEmpty = false;
  int32_t axis = 1;
  float epsilon = 1e-5f;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("axis", s.axis); v("epsilon", s.epsilon); }
  constexpr bool operator==(const LayerNormAttrs&) const = default;
};

// Pooling over windows of an NHWC tensor. Pads: top, left, bottom, right. count_pad: an average divides by the whole window.
struct Pool2dAttrs {
  static constexpr bool kEmpty = false;
  int32_t kernel[2] = {1, 1};
  int32_t stride[2] = {1, 1};
  int32_t dilation[2] = {1, 1};
  int32_t pad[4] = {0, 0, 0, 0};
  int32_t ceil_mode = 0;
  int32_t count_pad = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("kernel", s.kernel);
    v("stride", s.stride);
    v("dilation", s.dilation);
    v("pad", s.pad);
    v("ceil_mode", s.ceil_mode);
    v("count_pad", s.count_pad);
  }
  constexpr bool operator==(const Pool2dAttrs&) const = default;
};

// Reduction over `axes` (non-negative, ascending).
struct ReduceAttrs {
  static constexpr bool kEmpty = false;
  Ints axes;
  int32_t keep_dims = 1;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("axes", s.axes); v("keep_dims", s.keep_dims); }
  constexpr bool operator==(const ReduceAttrs&) const = default;
};

// The position of the largest or smallest element along `axis`; of equal ones the first, or the last if `last`.
struct ArgAttrs {
  static constexpr bool kEmpty = false;
  int32_t axis = 0;
  int32_t keep_dims = 1;
  int32_t last = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("axis", s.axis); v("keep_dims", s.keep_dims); v("last", s.last);
  }
  constexpr bool operator==(const ArgAttrs&) const = default;
};

// The k largest (else smallest) elements along `axis`, best first; of equal ones the first comes first.
struct TopKAttrs {
  static constexpr bool kEmpty = false;
  int32_t axis = 0;
  int32_t k = 1;
  int32_t largest = 1;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("axis", s.axis); v("k", s.k); v("largest", s.largest);
  }
  constexpr bool operator==(const TopKAttrs&) const = default;
};

// Sums or products of all elements before (`reverse`: behind) one along `axis`, and of itself unless `exclusive`.
struct CumulateAttrs {
  static constexpr bool kEmpty = false;
  int32_t axis = 0;
  int32_t exclusive = 0;
  int32_t reverse = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("axis", s.axis); v("exclusive", s.exclusive); v("reverse", s.reverse);
  }
  constexpr bool operator==(const CumulateAttrs&) const = default;
};

// Of the matrices in the last two axes, what lies on and right of (else left of) the k-th diagonal; the rest is 0.
struct TriluAttrs {
  static constexpr bool kEmpty = false;
  int32_t upper = 1;
  int32_t k = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("upper", s.upper); v("k", s.k); }
  constexpr bool operator==(const TriluAttrs&) const = default;
};

// Elementwise with NumPy broadcasting; the result is clamped to [lo, hi].
struct BinaryAttrs {
  static constexpr bool kEmpty = false;
  float lo = -kInfinity;
  float hi = kInfinity;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("lo", s.lo); v("hi", s.hi); }
  constexpr bool operator==(const BinaryAttrs&) const = default;
};

struct ClampAttrs {
  static constexpr bool kEmpty = false;
  float lo = -kInfinity;
  float hi = kInfinity;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("lo", s.lo); v("hi", s.hi); }
  constexpr bool operator==(const ClampAttrs&) const = default;
};

struct LeakyReluAttrs {
  static constexpr bool kEmpty = false;
  float alpha = 0.01f;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("alpha", s.alpha); }
  constexpr bool operator==(const LeakyReluAttrs&) const = default;
};

// x - y floor(x / y), the remainder with the sign of y; truncated 1: x - y trunc(x / y), with the sign of x.
struct ModAttrs {
  static constexpr bool kEmpty = false;
  int32_t truncated = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("truncated", s.truncated); }
  constexpr bool operator==(const ModAttrs&) const = default;
};

// x << y, or x >> y filled with zeros; a count outside the type's bits gives 0.
struct BitShiftAttrs {
  static constexpr bool kEmpty = false;
  int32_t left = 1;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("left", s.left); }
  constexpr bool operator==(const BitShiftAttrs&) const = default;
};

// gamma x for x >= 0, else gamma alpha (exp(beta x) - 1): ELU, and with the right numbers SELU and CELU.
struct EluAttrs {
  static constexpr bool kEmpty = false;
  float alpha = 1.0f;
  float beta = 1.0f;
  float gamma = 1.0f;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("alpha", s.alpha); v("beta", s.beta); v("gamma", s.gamma);
  }
  constexpr bool operator==(const EluAttrs&) const = default;
};

// clamp(alpha x + beta, 0, 1).
struct HardSigmoidAttrs {
  static constexpr bool kEmpty = false;
  float alpha = 0.2f;
  float beta = 0.5f;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("alpha", s.alpha); v("beta", s.beta); }
  constexpr bool operator==(const HardSigmoidAttrs&) const = default;
};

// approximate: 0 is x (1 + erf(x / sqrt 2)) / 2, 1 has tanh(sqrt(2 / pi) (x + 0.044715 x^3)) in place of the error function.
struct GeluAttrs {
  static constexpr bool kEmpty = false;
  int32_t approximate = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("approximate", s.approximate); }
  constexpr bool operator==(const GeluAttrs&) const = default;
};

// axis is non-negative.
struct AxisAttrs {
  static constexpr bool kEmpty = false;
  int32_t axis = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("axis", s.axis); }
  constexpr bool operator==(const AxisAttrs&) const = default;
};

// y.dims[i] = x.dims[perm[i]].
struct PermAttrs {
  static constexpr bool kEmpty = false;
  Ints perm;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("perm", s.perm); }
  constexpr bool operator==(const PermAttrs&) const = default;
};

// Python-style slice of `axes`: begin, end (may be negative or past the end, as ONNX defines), step != 0.
struct SliceAttrs {
  static constexpr bool kEmpty = false;
  Ints axes;
  Ints begins;
  Ints ends;
  Ints steps;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("axes", s.axes); v("begins", s.begins); v("ends", s.ends); v("steps", s.steps);
  }
  constexpr bool operator==(const SliceAttrs&) const = default;
};

// Constant padding: `before` and `after` have one entry per axis and may be negative (crop). `value` is a real value.
struct PadAttrs {
  static constexpr bool kEmpty = false;
  Ints before;
  Ints after;
  float value = 0.0f;
  template <class Self, class V>
  static constexpr void visit(Self& s, V&& v) {
    v("before", s.before);
    v("after", s.after);
    v("value", s.value);
  }
  constexpr bool operator==(const PadAttrs&) const = default;
};

struct CastAttrs {
  static constexpr bool kEmpty = false;
  int32_t to = static_cast<int32_t>(DType::kF32);  // a DType number
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("to", s.to); }
  constexpr bool operator==(const CastAttrs&) const = default;
};

// y = saturate(rne(x / scale) + zero_point) in the integer type `to` (a DType number), without parameters. scale and zero_point have
// one element, or one per index of `axis`, or with block > 0 one per `block` indices of it and x's dims otherwise.
struct QuantizeLinearAttrs {
  static constexpr bool kEmpty = false;
  int32_t axis = 0;
  int32_t block = 0;
  int32_t to = static_cast<int32_t>(DType::kU8);
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("axis", s.axis);
    v("block", s.block);
    v("to", s.to);
  }
  constexpr bool operator==(const QuantizeLinearAttrs&) const = default;
};

// y = (x - zero_point) * scale; otherwise as QuantizeLinear.
struct DequantizeLinearAttrs {
  static constexpr bool kEmpty = false;
  int32_t axis = 0;
  int32_t block = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("axis", s.axis); v("block", s.block); }
  constexpr bool operator==(const DequantizeLinearAttrs&) const = default;
};

// Functions inside recurrent layers; a and b are their parameters.
enum class CellFunction : int32_t {
  kSigmoid = 0,
  kTanh = 1,
  kRelu = 2,
  kAffine = 3,           // a x + b
  kLeakyRelu = 4,        // x, below 0 a x
  kThresholdedRelu = 5,  // x, up to a 0
  kScaledTanh = 6,       // a tanh(b x)
  kHardSigmoid = 7,      // a x + b between 0 and 1
  kElu = 8,              // x, below 0 a (exp(x) - 1)
  kSoftsign = 9,         // x / (1 + |x|)
};
inline constexpr int32_t kCellFunctions = 10;

// One direction of a recurrent layer. functions: the gates' (Rnn: the only one), the candidate's, LSTM's on the cell state. clip:
// what goes into the gates' and the candidate's function is kept within [-clip, clip]; 0: no clip.
struct RecurrentAttrs {
  static constexpr bool kEmpty = false;
  int32_t reverse = 0;  // from the last step of each sequence to the first
  int32_t functions[3] = {0, 1, 1};  // CellFunction, called f, g and h below
  float f_a = 0;
  float f_b = 0;
  float g_a = 0;
  float g_b = 0;
  float h_a = 0;
  float h_b = 0;
  float clip = 0;
  int32_t reset_after = 0;   // GRU: the reset gate scales the candidate's recurrent product, not the state before it
  int32_t coupled_gates = 0;  // LSTM: the forget gate is 1 minus the input gate
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("reverse", s.reverse);
    v("functions", s.functions);
    v("f_a", s.f_a);
    v("f_b", s.f_b);
    v("g_a", s.g_a);
    v("g_b", s.g_b);
    v("h_a", s.h_a);
    v("h_b", s.h_b);
    v("clip", s.clip);
    v("reset_after", s.reset_after);
    v("coupled_gates", s.coupled_gates);
  }
  constexpr bool operator==(const RecurrentAttrs&) const = default;
};

// Softmax along the last axis of scores [.., m, n] of queries against keys, some of which are masked. Query i stands at key
// offset + i, or, where the lengths of the key sequences are an operand, at length - m + i; it sees key j if
// j >= that - left (left >= 0) and j <= that + right (right >= 0), and j is below the length. Causal is right == 0.
struct MaskedSoftmaxAttrs {
  static constexpr bool kEmpty = false;
  int32_t offset = 0;
  int32_t left = -1;
  int32_t right = -1;
  int32_t normalize = 1;  // 0: the masked scores themselves, -infinity where nothing is seen
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("offset", s.offset); v("left", s.left); v("right", s.right); v("normalize", s.normalize);
  }
  constexpr bool operator==(const MaskedSoftmaxAttrs&) const = default;
};

// Boxes are y0 x0 y1 x1 in any order of corners; center: middle x and y, width, height.
struct NmsAttrs {
  static constexpr bool kEmpty = false;
  int32_t center = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("center", s.center); }
  constexpr bool operator==(const NmsAttrs&) const = default;
};

// How weights, or a vector over output channels, that are made when the program runs are packed: the members of ConvPacking
// (runtime/exec/conv_geometry.h). Lowering emits it for layers whose weights are no constants. winograd: 0 no, 1 the weights of a
// convolution, 2 of a transposed one (kernels/winograd/winograd.h).
struct PackAttrs {
  static constexpr bool kEmpty = false;
  int32_t vector = 0;
  int32_t winograd = 0;
  int32_t depthwise = 0;
  int32_t groups = 1;
  int32_t n = 1;
  int32_t segs = 1;
  int32_t seg_k = 1;
  int32_t kernel[2] = {1, 1};
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("vector", s.vector);
    v("winograd", s.winograd);
    v("depthwise", s.depthwise);
    v("groups", s.groups);
    v("n", s.n);
    v("segs", s.segs);
    v("seg_k", s.seg_k);
    v("kernel", s.kernel);
  }
  constexpr bool operator==(const PackAttrs&) const = default;
};

// The convolution whose weights the gradient is of: its attributes, and the size of its kernel, which x and dy do not tell.
struct Conv2dWeightGradAttrs {
  static constexpr bool kEmpty = false;
  int32_t kernel[2] = {1, 1};
  int32_t stride[2] = {1, 1};
  int32_t dilation[2] = {1, 1};
  int32_t pad[4] = {0, 0, 0, 0};
  int32_t groups = 1;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("kernel", s.kernel);
    v("stride", s.stride);
    v("dilation", s.dilation);
    v("pad", s.pad);
    v("groups", s.groups);
  }
  constexpr bool operator==(const Conv2dWeightGradAttrs&) const = default;
};

// The grid of y = (clamp(rne(x / s) + zero_point, qmin, qmax) - zero_point) * s, whose scales s are an operand: one, or with `axis` >= 0
// one per index of that axis of x.
struct FakeQuantAttrs {
  static constexpr bool kEmpty = false;
  int32_t axis = -1;
  int32_t zero_point = 0;
  int32_t qmin = -128;
  int32_t qmax = 127;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("axis", s.axis);
    v("zero_point", s.zero_point);
    v("qmin", s.qmin);
    v("qmax", s.qmax);
  }
  constexpr bool operator==(const FakeQuantAttrs&) const = default;
};

// Linear attention with a carried state (graph/ops/attention.cc): y = scale * state^T q.
struct LinearAttentionAttrs {
  static constexpr bool kEmpty = false;
  int32_t q_heads = 1;
  int32_t kv_heads = 1;
  float scale = 1.0f;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("q_heads", s.q_heads); v("kv_heads", s.kv_heads); v("scale", s.scale);
  }
  constexpr bool operator==(const LinearAttentionAttrs&) const = default;
};

}  // namespace lathe
