// A small convolutional network as a program, float or 8-bit, with most operators in it: for tests of sessions, threads, storage
// and damaged files.
//
//   x f32 [N, 9, 7, 3] -> (Quantize) -> conv 3x3 -> depthwise 3x3 stride 2 -> conv 1x1 with residual -> Pad -> MaxPool -> Concat
//   with itself -> Transpose and back -> Mean -> FullyConnected -> Reshape -> Softmax -> (Dequantize) -> y f32 [N, 10]
#pragma once
#include <cmath>
#include <random>

#include "runtime/exec/conv_geometry.h"
#include "tests/runtime/program_builder.h"

namespace lathe::test {

class SampleCnn {
 public:
  explicit SampleCnn(bool quantized, uint32_t seed = 1) : s8_(quantized), rng_(seed) {}

  BuiltProgram build() {
    const TestDim n = b_.symbol();
    const uint32_t x = b_.input(DType::kF32, {n, 9, 7, 3});
    uint32_t t = x;
    if (s8_) b_.step(Op::kQuantize, NoAttrs{}, {x}, {t = value({n, 9, 7, 3})});

    Conv2dAttrs conv;
    for (int32_t& p : conv.pad) p = 1;
    conv.lo = 0;
    const uint32_t c1 = value({n, 9, 7, 16});
    convolution(conv, t, 3, 16, 3, c1, kNoTensor);
    Conv2dAttrs depthwise = conv;
    depthwise.stride[0] = depthwise.stride[1] = 2;
    depthwise.groups = 16;
    const uint32_t c2 = value({n, 5, 4, 16});
    convolution(depthwise, c1, 3, 16, 1, c2, kNoTensor);
    const uint32_t c3 = value({n, 5, 4, 16});
    convolution(Conv2dAttrs{}, c2, 1, 16, 16, c3, c2);

    PadAttrs pad;
    pad.before.count = pad.after.count = 4;
    pad.after.values[1] = 1;
    const uint32_t p1 = value({n, 6, 4, 16}), p2 = value({n, 3, 2, 16}), p3 = value({n, 3, 2, 32});
    b_.step(Op::kPad, pad, {c3}, {p1});
    Pool2dAttrs pool;
    pool.kernel[0] = pool.kernel[1] = pool.stride[0] = pool.stride[1] = 2;
    b_.step(Op::kMaxPool2d, pool, {p1}, {p2});
    AxisAttrs axis;
    axis.axis = 3;
    b_.step(Op::kConcat, axis, {p2, p2}, {p3});
    const uint32_t u1 = value({n, 32, 3, 2}), u2 = value({n, 3, 2, 32}), u3 = value({n, 32});
    b_.step(Op::kTranspose, perm({0, 3, 1, 2}), {p3}, {u1});
    b_.step(Op::kTranspose, perm({0, 2, 3, 1}), {u1}, {u2});
    ReduceAttrs mean;
    mean.axes.count = 2, mean.axes.values[0] = 1, mean.axes.values[1] = 2, mean.keep_dims = 0;
    b_.step(Op::kMean, mean, {u2}, {u3});
    const uint32_t f1 = value({n, 10}), f2 = value({n, 2, 5}), f3 = value({n, 10});
    fully_connected(u3, 32, 10, f1);
    b_.step(Op::kReshape, NoAttrs{}, {f1}, {f2});
    b_.step(Op::kReshape, NoAttrs{}, {f2}, {f3});
    finish(f3, n);
    return b_.build();
  }

 private:
  static PermAttrs perm(std::vector<int32_t> p) {
    PermAttrs a;
    a.perm.count = static_cast<int32_t>(p.size());
    for (size_t i = 0; i < p.size(); ++i) a.perm.values[i] = p[i];
    return a;
  }
  int32_t random(int32_t lo, int32_t hi) { return lo + static_cast<int32_t>(rng_() % static_cast<uint32_t>(hi - lo + 1)); }
  uint32_t value(const std::vector<TestDim>& dims) {
    return s8_ ? b_.temp(DType::kS8, dims, kQuant) : b_.temp(DType::kF32, dims);
  }

  void convolution(const Conv2dAttrs& attrs, uint32_t x, int kernel, int oc, int ic, uint32_t y, uint32_t residual) {
    const auto k = static_cast<uint32_t>(kernel);
    const ConvPacking packing = conv_packing(attrs, static_cast<uint32_t>(oc), k, k, static_cast<uint32_t>(ic));
    b_.step(Op::kConv2d, attrs, weights(packing, x, {oc, kernel, kernel, ic}, residual), {y});
  }
  void fully_connected(uint32_t x, int k, int n, uint32_t y) {
    const ConvPacking packing = fully_connected_packing(static_cast<uint32_t>(n), static_cast<uint32_t>(k));
    b_.step(Op::kFullyConnected, FullyConnectedAttrs{}, weights(packing, x, {n, k}, kNoTensor), {y});
  }

  // Operands x, w, biases, multipliers, residual as runtime/exec/exec.h lists them.
  std::vector<uint32_t> weights(const ConvPacking& packing, uint32_t x, const std::vector<TestDim>& dims, uint32_t residual) {
    const uint32_t channels = packing.groups * packing.n, per_channel = packing.weight_elems() / channels;
    const int oc = static_cast<int>(channels);
    if (!s8_) {
      std::vector<float> w(packing.weight_elems()), packed(packing.packed_f32_elems()), bias(channels, 0.25f),
          padded(packing.vector_elems());
      for (float& v : w) v = static_cast<float>(random(-100, 100)) / 100.0f / std::sqrt(static_cast<float>(per_channel));
      packing.pack_f32(w.data(), packed.data());
      packing.pad_vector(bias.data(), padded.data());
      return {x, b_.constant(DType::kF32, dims, packed, packing.depthwise ? Layout::kDwConvF32 : Layout::kGemmF32),
              b_.constant(DType::kF32, {oc}, padded, Layout::kPadded16), residual};
    }
    std::vector<int8_t> w(packing.weight_elems()), packed(packing.packed_s8_bytes());
    for (int8_t& v : w) v = static_cast<int8_t>(random(-127, 127));
    packing.pack_s8(w.data(), packed.data());
    std::vector<int32_t> s8(channels), u8(channels), padded(packing.vector_elems());
    std::vector<float> m(channels), padded_m(packing.vector_elems());
    for (uint32_t c = 0; c < channels; ++c) {
      int32_t sum = 0;
      for (uint32_t i = 0; i < per_channel; ++i) sum += w[c * per_channel + i];
      const int32_t bias = random(-2000, 2000);
      s8[c] = bias - kQuant.zero_point * sum;
      u8[c] = bias - (kQuant.zero_point + 128) * sum;
      m[c] = static_cast<float>(random(50, 150)) / 100.0f / 74.0f / std::sqrt(static_cast<float>(per_channel));
    }
    std::vector<uint32_t> out = {x,
                                 b_.constant(DType::kS8, dims, packed, packing.depthwise ? Layout::kDwConvS8 : Layout::kGemmS8)};
    for (const auto& bias : {s8, u8}) {
      packing.pad_vector(bias.data(), padded.data());
      out.push_back(b_.constant(DType::kS32, {oc}, padded, Layout::kPadded16));
    }
    packing.pad_vector(m.data(), padded_m.data());
    out.push_back(b_.constant(DType::kF32, {oc}, padded_m, Layout::kPadded16));
    out.push_back(residual);
    return out;
  }

  void finish(uint32_t x, TestDim n) {
    AxisAttrs axis;
    axis.axis = 1;
    const uint32_t y = b_.output(DType::kF32, {n, 10});
    if (!s8_) {
      b_.step(Op::kSoftmax, axis, {x}, {y});
      return;
    }
    std::vector<uint16_t> table(256);
    for (int d = 0; d < 256; ++d)
      table[static_cast<size_t>(d)] = static_cast<uint16_t>(std::lrint(65535 * std::exp(-kQuant.scale * d)));
    const uint32_t t = b_.temp(DType::kS8, {n, 10}, QuantParams{1.0f / 256, -128, -128, 127});
    b_.step(Op::kSoftmax, axis, {x, b_.constant(DType::kU16, {256}, table)}, {t});
    b_.step(Op::kDequantize, NoAttrs{}, {t}, {y});
  }

  static constexpr QuantParams kQuant{0.04f, -9, -128, 127};
  bool s8_;
  std::mt19937 rng_;
  ProgramBuilder b_;
};

// Input data for `batch` samples, the same for the same sample number.
inline std::vector<float> sample_input(uint32_t batch) {
  std::vector<float> x(static_cast<size_t>(batch) * 9 * 7 * 3);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i % 1000) * 0.37f) * 4;
  return x;
}
inline Shape sample_shape(uint32_t batch) { return Shape{{static_cast<int32_t>(batch), 9, 7, 3}, 4}; }

}  // namespace lathe::test
