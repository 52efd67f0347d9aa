// Rules of convolutions, fully connected layers and products of matrices.
#include "graph/grad/rule.h"

namespace lathe::grad {
namespace {

// Weights [oc, kh, kw, ic / groups] as the transposed convolution of the same taps has them: [ic, kh, kw, oc / groups].
ValueId swap_channels(Backward& b, ValueId w, int32_t groups) {
  const int64_t oc = b.extent(w, 0), kh = b.extent(w, 1), kw = b.extent(w, 2), icg = b.extent(w, 3), ocg = oc / groups;
  if (groups == 1) return b.transpose(w, {4, {3, 1, 2, 0}});
  const ValueId split = b.reshape(w, {groups, ocg, kh, kw, icg});
  return b.reshape(b.transpose(split, {5, {0, 4, 2, 3, 1}}), {groups * icg, kh, kw, ocg});
}

// Bias (2) and residual (3), and what all of these ops have after the sum.
void set_epilogue(Backward& b, ValueId g) {
  if (b.wants(2)) b.set(2, b.sum_to(g, b.x(2)));
  if (b.wants(3)) b.set(3, g);
}

Conv2dWeightGradAttrs weight_attrs(Backward& b, const auto& a) {
  Conv2dWeightGradAttrs w{.kernel = {static_cast<int32_t>(b.extent(b.x(1), 1)), static_cast<int32_t>(b.extent(b.x(1), 2))},
                          .stride = {a.stride[0], a.stride[1]},
                          .dilation = {a.dilation[0], a.dilation[1]},
                          .pad = {a.pad[0], a.pad[1], a.pad[2], a.pad[3]},
                          .groups = a.groups};
  return w;
}

// The pixels at the end of an axis that no window reaches, which the transposed convolution must append.
int32_t unread(Backward& b, const Conv2dAttrs& a, size_t i) {
  const int64_t padded = b.extent(b.x(0), 1 + i) + a.pad[i] + a.pad[2 + i];
  return static_cast<int32_t>((padded - a.dilation[i] * (b.extent(b.x(1), 1 + i) - 1) - 1) % a.stride[i]);
}

// Rows of a [.., k] as a matrix.
ValueId rows(Backward& b, ValueId a) { return b.rank(a) == 2 ? a : b.reshape(a, {-1, b.extent(a, b.rank(a) - 1)}); }

ValueId ordered(Backward& b, ValueId a, const Ints& perm) { return perm.count == 0 ? a : b.transpose(a, perm); }

ValueId product(Backward& b, ValueId a, ValueId c) { return b.node(Op::kMatMul, MatMulAttrs{}, {a, c}); }

}  // namespace

void grad_conv2d(Backward& b) {
  const auto a = b.attrs<Conv2dAttrs>();
  const ValueId g = b.before_clamp(a.lo, a.hi);
  set_epilogue(b, g);
  if (b.wants(1)) b.set(1, b.node(Op::kConv2dWeightGrad, weight_attrs(b, a), {b.x(0), g}));
  if (!b.wants(0)) return;
  const ConvTranspose2dAttrs back{.stride = {a.stride[0], a.stride[1]},
                                  .dilation = {a.dilation[0], a.dilation[1]},
                                  .pad = {a.pad[0], a.pad[1], a.pad[2], a.pad[3]},
                                  .output_pad = {unread(b, a, 0), unread(b, a, 1)},
                                  .groups = a.groups};
  b.set(0, b.node(Op::kConvTranspose2d, back, {g, swap_channels(b, b.x(1), a.groups)}));
}

// Its input's gradient is the convolution; its weights' that of the convolution from y to x.
void grad_conv_transpose2d(Backward& b) {
  const auto a = b.attrs<ConvTranspose2dAttrs>();
  if (a.output_pad[0] >= a.stride[0] || a.output_pad[1] >= a.stride[1])
    return b.fail(Code::kUnsupported, "its gradient needs an output_pad below the stride");
  const ValueId g = b.before_clamp(a.lo, a.hi);
  set_epilogue(b, g);
  if (b.wants(1)) {
    const ValueId swapped = b.node(Op::kConv2dWeightGrad, weight_attrs(b, a), {g, b.x(0)});
    b.set(1, swap_channels(b, swapped, a.groups));
  }
  if (!b.wants(0)) return;
  const Conv2dAttrs forward{.stride = {a.stride[0], a.stride[1]},
                            .dilation = {a.dilation[0], a.dilation[1]},
                            .pad = {a.pad[0], a.pad[1], a.pad[2], a.pad[3]},
                            .groups = a.groups};
  b.set(0, b.node(Op::kConv2d, forward, {g, swap_channels(b, b.x(1), a.groups)}));
}

// y = x w^T: dx = dy w, dw = dy^T x over all rows.
void grad_fully_connected(Backward& b) {
  const auto& a = b.attrs<FullyConnectedAttrs>();
  const ValueId g = b.before_clamp(a.lo, a.hi);
  set_epilogue(b, g);
  if (b.wants(0)) b.set(0, b.node(Op::kFullyConnected, FullyConnectedAttrs{}, {g, b.swap_last(b.x(1))}));
  if (b.wants(1)) b.set(1, product(b, b.swap_last(rows(b, g)), rows(b, b.x(0))));
}

void grad_matmul(Backward& b) {
  const auto a = b.attrs<MatMulAttrs>();
  ValueId g = b.before_clamp(a.lo, a.hi);
  if (a.scale != 1.0f) g = b.mul(g, a.scale);
  g = ordered(b, g, inverse(a.y_perm));
  const ValueId left = ordered(b, b.x(0), a.a_perm), right = ordered(b, b.x(1), a.b_perm);
  if (b.wants(0)) b.set(0, ordered(b, b.sum_to(product(b, g, b.swap_last(right)), left), inverse(a.a_perm)));
  if (b.wants(1)) b.set(1, ordered(b, b.sum_to(product(b, b.swap_last(left), g), right), inverse(a.b_perm)));
}

}  // namespace lathe::grad
