// Pools, means, softmax and batch normalization against plain loops in double.
#include <cmath>

#include "tests/runtime/exec/op_run.h"

namespace lathe::test {
namespace {

struct PoolShape {
  std::vector<int> x, y;
  Pool2dAttrs attrs;
};

Pool2dAttrs pool(int kernel, int stride, int pad, int ceil_mode = 0, int count_pad = 0, int dilation = 1) {
  Pool2dAttrs a;
  a.kernel[0] = a.kernel[1] = kernel;
  a.stride[0] = a.stride[1] = stride;
  a.dilation[0] = a.dilation[1] = dilation;
  for (int32_t& p : a.pad) p = pad;
  a.ceil_mode = ceil_mode;
  a.count_pad = count_pad;
  return a;
}

const PoolShape kPools[] = {
    {{1, 4, 4, 16}, {1, 2, 2, 16}, pool(2, 2, 0)},
    {{2, 7, 5, 33}, {2, 4, 3, 33}, pool(3, 2, 1)},
    {{2, 7, 5, 33}, {2, 4, 3, 33}, pool(3, 2, 1, 0, 1)},
    {{1, 6, 6, 5}, {1, 3, 3, 5}, pool(3, 2, 0, 1, 1)},
    {{1, 6, 6, 5}, {1, 3, 3, 5}, pool(3, 2, 0, 1)},
    {{1, 9, 9, 8}, {1, 5, 5, 8}, pool(3, 1, 0, 0, 0, 2)},
    {{1, 60, 60, 17}, {1, 30, 30, 17}, pool(2, 2, 0)},  // cut into tasks
};

// The taps of every output element: fn(output position, values inside, counted taps).
template <class T, class F> void each_window(const PoolShape& p, const T* x, const F& fn) {
  const int h = p.x[1], w = p.x[2], c = p.x[3];
  const Pool2dAttrs& a = p.attrs;
  size_t at = 0;
  for (int n = 0; n < p.x[0]; ++n) {
    for (int oh = 0; oh < p.y[1]; ++oh) {
      for (int ow = 0; ow < p.y[2]; ++ow) {
        for (int k = 0; k < c; ++k, ++at) {
          std::vector<T> inside;
          int counted = 0;
          for (int i = 0; i < a.kernel[0]; ++i) {
            for (int j = 0; j < a.kernel[1]; ++j) {
              const int r = oh * a.stride[0] - a.pad[0] + i * a.dilation[0], s = ow * a.stride[1] - a.pad[1] + j * a.dilation[1];
              const bool in = r >= 0 && r < h && s >= 0 && s < w;
              if (in) inside.push_back(x[((n * h + r) * w + s) * c + k]);
              if (in || (a.count_pad != 0 && r < h + a.pad[2] && s < w + a.pad[3])) ++counted;
            }
          }
          fn(at, inside, counted);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("pools follow ONNX, with padding, ceil mode, dilation and counted padding") {
  const QuantParams qx{0.04f, -9, -128, 127}, qy{0.031f, 12, -128, 127};
  for (const PoolShape& p : kPools) {
    const TestTensor x = random_f32(p.x, 31), q = random_q8(p.x, 32, qx);
    std::vector<float> highest(product(p.y));
    std::vector<double> means(product(p.y));
    each_window(p, x.data<float>(), [&](size_t at, const std::vector<float>& in, int counted) {
      highest[at] = *std::max_element(in.begin(), in.end());
      double sum = 0;
      for (const float v : in) sum += v;
      means[at] = sum / counted;
    });
    check_equal({Op::kMaxPool2d, {x}, like(DType::kF32, p.y)}, p.attrs, highest);
    check_close({Op::kAvgPool2d, {x}, like(DType::kF32, p.y)}, p.attrs, means);
    std::vector<int8_t> q_highest(product(p.y)), q_means(product(p.y));
    each_window(p, q.data<int8_t>(), [&](size_t at, const std::vector<int8_t>& in, int counted) {
      q_highest[at] = *std::max_element(in.begin(), in.end());
      int sum = 0;
      for (const int8_t v : in) sum += v - qx.zero_point;
      q_means[at] = expected_round(
          static_cast<float>(sum) * static_cast<float>(static_cast<double>(qx.scale) / (static_cast<double>(qy.scale) * counted)),
          qy);
    });
    check_equal({Op::kMaxPool2d, {q}, like(DType::kS8, p.y, qx)}, p.attrs, q_highest);
    check_equal({Op::kAvgPool2d, {q}, like(DType::kS8, p.y, qy)}, p.attrs, q_means);
  }
}

TEST_CASE("pools whose shapes and attributes disagree are refused") {
  const TestTensor x = random_f32({1, 8, 8, 3}, 1);
  const auto refused = [&](const std::vector<int>& y, const Pool2dAttrs& a) {
    check_refused({Op::kAvgPool2d, {x}, like(DType::kF32, y)}, a, Code::kInvalidArgument);
  };
  refused({1, 5, 4, 3}, pool(2, 2, 0));
  refused({1, 4, 4, 4}, pool(2, 2, 0));
  refused({2, 4, 4, 3}, pool(2, 2, 0));
  refused({1, 5, 5, 3}, pool(2, 2, 0, 1));
  refused({1, 4, 4, 3}, pool(0, 2, 0));
  refused({1, 4, 4, 3}, pool(2, 0, 0));
  refused({1, 4, 4, 3}, pool(2, 2, 0, 0, 0, 0));
  refused({1, 4, 4, 3}, pool(2, 2, -1));
  refused({1, 1, 1, 3}, pool(9, 1, 0));
  refused({1, 1, 1, 3}, pool(INT32_MAX, 1, INT32_MAX));
  check_refused({Op::kMaxPool2d, {random_f32({8, 8, 3}, 1)}, like(DType::kF32, {4, 4, 3})}, pool(2, 2, 0), Code::kUnsupported);
  const QuantParams a{0.1f, 0, -128, 127}, b{0.2f, 0, -128, 127};
  check_refused({Op::kMaxPool2d, {random_q8({1, 8, 8, 3}, 1, a)}, like(DType::kS8, {1, 4, 4, 3}, b)}, pool(2, 2, 0),
                Code::kUnsupported);
}

TEST_CASE("an average over more distinct window sizes than a plan holds is refused, not approximated") {
  // 100 x 100 windows that hang over every edge count very many different numbers of taps.
  const QuantParams q{0.1f, 0, -128, 127};
  check_refused({Op::kAvgPool2d, {random_q8({1, 100, 100, 1}, 1, q)}, like(DType::kS8, {1, 199, 199, 1}, q)}, pool(100, 1, 99),
                Code::kUnsupported);
}

TEST_CASE("means over any axes, float and quantized") {
  const struct {
    std::vector<int> x;
    std::vector<int> axes;
    std::vector<int> y;
  } cases[] = {
      {{2, 7, 7, 40}, {1, 2}, {2, 1, 1, 40}},
      {{2, 40, 7, 7}, {2, 3}, {2, 40}},
      {{3, 5, 6}, {0, 2}, {5}},
      {{3, 5, 6}, {0, 1, 2}, {}},
      {{4, 3}, {}, {4, 3}},
      {{2, 3, 4, 5, 2}, {1, 3}, {2, 4, 2}},
      {{1, 9, 1}, {0, 2}, {9}},
      {{1, 130, 130, 4}, {1, 2}, {1, 4}},
      {{300, 200}, {1}, {300}},
      {{200, 300}, {0}, {300}},
      {{1, 1}, {0, 1}, {1, 1}},
  };
  const QuantParams qx{0.05f, 31, -128, 127}, qy{0.02f, -60, -128, 127};
  for (const auto& c : cases) {
    ReduceAttrs attrs;
    attrs.axes.count = static_cast<int32_t>(c.axes.size());
    std::copy(c.axes.begin(), c.axes.end(), attrs.axes.values);
    const TestTensor x = random_f32(c.x, 41), q = random_q8(c.x, 42, qx);
    std::vector<double> sums(product(c.y));
    std::vector<int> q_sums(product(c.y));
    for (size_t i = 0; i < x.elems(); ++i) {
      size_t rest = i, at = 0, stride = 1;
      for (size_t d = c.x.size(); d-- > 0;) {
        const size_t coordinate = rest % static_cast<size_t>(c.x[d]);
        rest /= static_cast<size_t>(c.x[d]);
        if (std::find(c.axes.begin(), c.axes.end(), static_cast<int>(d)) != c.axes.end()) continue;
        at += coordinate * stride;
        stride *= static_cast<size_t>(c.x[d]);
      }
      sums[at] += x.data<float>()[i];
      q_sums[at] += q.data<int8_t>()[i] - qx.zero_point;
    }
    const size_t k = x.elems() / product(c.y);
    std::vector<int8_t> q_means(q_sums.size());
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] /= static_cast<double>(k);
      q_means[i] = expected_round(
          static_cast<float>(q_sums[i]) *
              static_cast<float>(static_cast<double>(qx.scale) / (static_cast<double>(qy.scale) * static_cast<double>(k))),
          qy);
    }
    check_close({Op::kMean, {x}, like(DType::kF32, c.y)}, attrs, sums);
    check_equal({Op::kMean, {q}, like(DType::kS8, c.y, qy)}, attrs, q_means);
  }
}

TEST_CASE("means of nothing and over axes that are not there are refused") {
  ReduceAttrs attrs;
  attrs.axes.count = 1;
  check_refused(
      {Op::kMean, {f32({2, 0}, {})}, like(DType::kF32, {2})},
      [&] {
        auto a = attrs;
        a.axes.values[0] = 1;
        return a;
      }(),
      Code::kInvalidArgument);
  attrs.axes.values[0] = 2;
  check_refused({Op::kMean, {random_f32({2, 3}, 1)}, like(DType::kF32, {2})}, attrs, Code::kInvalidArgument);
  attrs.axes.values[0] = -1;
  check_refused({Op::kMean, {random_f32({2, 3}, 1)}, like(DType::kF32, {2})}, attrs, Code::kInvalidArgument);
  attrs.axes.values[0] = 0;
  check_refused({Op::kMean, {random_f32({2, 3}, 1)}, like(DType::kF32, {2})}, attrs, Code::kInvalidArgument);
}

TEST_CASE("softmax along any axis, float and quantized") {
  const QuantParams qx{0.08f, 4, -128, 127}, qy{1.0f / 256, -128, -128, 127};
  std::vector<uint16_t> table(256);
  for (int d = 0; d < 256; ++d)
    table[static_cast<size_t>(d)] = static_cast<uint16_t>(std::nearbyint(65535 * std::exp(-static_cast<double>(qx.scale) * d)));
  const TestTensor t = tensor_of(DType::kU16, {256}, table).as_constant();
  for (const std::vector<int>& dims : {std::vector<int>{10}, std::vector<int>{3, 5, 7}, std::vector<int>{2, 21, 40, 33},
                                       std::vector<int>{4420, 2}, std::vector<int>{200, 200}}) {
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const TestTensor x = random_f32(dims, 51, -5, 5), q = random_q8(dims, 52, qx);
      AxisAttrs attrs;
      attrs.axis = static_cast<int32_t>(axis);
      size_t inner = 1;
      for (size_t d = axis + 1; d < dims.size(); ++d) inner *= static_cast<size_t>(dims[d]);
      const auto n = static_cast<size_t>(dims[axis]);
      std::vector<double> expected(x.elems());
      std::vector<int8_t> q_expected(x.elems());
      for (size_t row = 0; row < x.elems() / n; ++row) {
        const size_t base = row / inner * n * inner + row % inner;
        double sum = 0;
        int highest = -128;
        uint32_t q_sum = 0;
        for (size_t i = 0; i < n; ++i) {
          sum += std::exp(static_cast<double>(x.data<float>()[base + i * inner]));
          highest = std::max(highest, static_cast<int>(q.data<int8_t>()[base + i * inner]));
        }
        for (size_t i = 0; i < n; ++i) q_sum += table[static_cast<size_t>(highest - q.data<int8_t>()[base + i * inner])];
        const float factor = 256.0f / static_cast<float>(q_sum);
        for (size_t i = 0; i < n; ++i) {
          expected[base + i * inner] = std::exp(static_cast<double>(x.data<float>()[base + i * inner])) / sum;
          q_expected[base + i * inner] = expected_round(
              static_cast<float>(table[static_cast<size_t>(highest - q.data<int8_t>()[base + i * inner])]) * factor, qy);
        }
      }
      check_close({Op::kSoftmax, {x}, like(DType::kF32, dims)}, attrs, expected, 1e-6);
      check_equal({Op::kSoftmax, {q, t}, like(DType::kS8, dims, qy)}, attrs, q_expected);
    }
  }
}

TEST_CASE("a quantized softmax with a broken table, grid or length is refused") {
  const QuantParams qx{0.08f, 4, -128, 127}, qy{1.0f / 256, -128, -128, 127};
  AxisAttrs attrs;
  const TestTensor x = random_q8({10}, 1, qx), zeros = tensor_of(DType::kU16, {256}, std::vector<uint16_t>(256)).as_constant();
  const TestTensor table = tensor_of(DType::kU16, {256}, std::vector<uint16_t>(256, 65535)).as_constant();
  check_refused({Op::kSoftmax, {x, zeros}, like(DType::kS8, {10}, qy)}, attrs, Code::kCorrupt);
  check_refused({Op::kSoftmax, {x, table}, like(DType::kS8, {10}, qx)}, attrs, Code::kUnsupported);
  check_refused({Op::kSoftmax, {x}, like(DType::kS8, {10}, qy)}, attrs, Code::kCorrupt);
  check_refused({Op::kSoftmax, {random_q8({65537}, 1, qx), table}, like(DType::kS8, {65537}, qy)}, attrs, Code::kUnsupported);
  attrs.axis = 1;
  check_refused({Op::kSoftmax, {x, table}, like(DType::kS8, {10}, qy)}, attrs, Code::kInvalidArgument);
}

TEST_CASE("layer normalization over the last axes, float and quantized") {
  const QuantParams qx{0.05f, -20, -128, 127}, qy{0.03f, 11, -128, 127};
  for (const std::vector<int>& dims : {std::vector<int>{2, 5, 24}, std::vector<int>{150, 384}, std::vector<int>{7}}) {
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const std::vector<int> row(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end());
      const size_t n = product(row);
      const TestTensor x = random_f32(dims, 71, -3, 5), scale = random_f32(row, 72).as_constant(),
                       bias = random_f32(row, 73).as_constant(), q = random_q8(dims, 74, qx);
      const LayerNormAttrs attrs{static_cast<int32_t>(axis), 0.01f};
      std::vector<double> expected(x.elems());
      std::vector<int8_t> q_expected(x.elems());
      const auto c = static_cast<float>(static_cast<double>(n * n) * static_cast<double>(0.01f) /
                                        (static_cast<double>(qx.scale) * static_cast<double>(qx.scale)));
      for (size_t first = 0; first < x.elems(); first += n) {
        double mean = 0, variance = 0;
        int64_t sum = 0, squares = 0;
        for (size_t i = 0; i < n; ++i) {
          mean += static_cast<double>(x.data<float>()[first + i]) / static_cast<double>(n);
          const int64_t v = q.data<int8_t>()[first + i];
          sum += v, squares += v * v;
        }
        for (size_t i = 0; i < n; ++i)
          variance += std::pow(static_cast<double>(x.data<float>()[first + i]) - mean, 2) / static_cast<double>(n);
        const int64_t count = static_cast<int64_t>(n);
        const float r = 1.0f / std::sqrt(static_cast<float>(count * squares - sum * sum) + c);
        for (size_t i = 0; i < n; ++i) {
          const auto g = static_cast<double>(scale.data<float>()[i]), b = static_cast<double>(bias.data<float>()[i]);
          expected[first + i] = (static_cast<double>(x.data<float>()[first + i]) - mean) / std::sqrt(variance + 0.01) * g + b;
          const auto d = static_cast<float>(count * q.data<int8_t>()[first + i] - sum);
          const float scaled = d * r * scale.data<float>()[i];
          q_expected[first + i] = expected_round(scaled + bias.data<float>()[i], qy);
        }
      }
      check_close({Op::kLayerNorm, {x, scale, bias}, like(DType::kF32, dims)}, attrs, expected);
      const TestTensor g = f32({static_cast<int>(n)}, {scale.data<float>(), scale.data<float>() + n}).as_constant();
      const TestTensor b = f32({static_cast<int>(n)}, {bias.data<float>(), bias.data<float>() + n}).as_constant();
      check_equal({Op::kLayerNorm, {q, g, b}, like(DType::kS8, dims, qy)}, attrs, q_expected);
    }
  }
}

TEST_CASE("layer normalization refuses what does not fit") {
  const QuantParams q{0.1f, 3, -128, 127};
  const TestTensor x = random_f32({2, 3}, 1), three = random_f32({3}, 2), two = random_f32({2}, 3), xq = random_q8({2, 3}, 4, q);
  const TestTensor y = like(DType::kF32, {2, 3}), yq = like(DType::kS8, {2, 3}, q);
  check_refused({Op::kLayerNorm, {x, two}, y}, LayerNormAttrs{1, 1e-5f}, Code::kInvalidArgument);
  check_refused({Op::kLayerNorm, {x, three, two}, y}, LayerNormAttrs{1, 1e-5f}, Code::kInvalidArgument);
  check_refused({Op::kLayerNorm, {x, three}, y}, LayerNormAttrs{2, 1e-5f}, Code::kInvalidArgument);
  check_refused({Op::kLayerNorm, {x, three}, y}, LayerNormAttrs{1, -1.0f}, Code::kInvalidArgument);
  check_refused({Op::kLayerNorm, {x, three}, like(DType::kF32, {3, 2})}, LayerNormAttrs{1, 1e-5f}, Code::kInvalidArgument);
  check_refused({Op::kLayerNorm, {x, three, three}, yq}, LayerNormAttrs{1, 1e-5f}, Code::kUnsupported);
  check_refused({Op::kLayerNorm, {xq, three}, yq}, LayerNormAttrs{1, 1e-5f}, Code::kCorrupt);
  check_refused({Op::kLayerNorm, {xq, three, three}, yq}, LayerNormAttrs{1, 0.0f}, Code::kInvalidArgument);
  const TestTensor row = random_f32({65537}, 5);
  check_refused({Op::kLayerNorm, {random_q8({65537}, 6, q), row, row}, like(DType::kS8, {65537}, q)}, LayerNormAttrs{0, 1e-5f},
                Code::kUnsupported);
}

TEST_CASE("batch normalization along any axis") {
  for (const std::vector<int>& dims : {std::vector<int>{2, 9, 5, 4}, std::vector<int>{3, 17}, std::vector<int>{1, 40, 40, 33}}) {
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const int c = dims[axis];
      const TestTensor x = random_f32(dims, 61), scale = random_f32({c}, 62).as_constant(),
                       bias = random_f32({c}, 63).as_constant();
      const TestTensor mean = random_f32({c}, 64).as_constant(), variance = random_f32({c}, 65, 0, 3).as_constant();
      BatchNormAttrs attrs;
      attrs.axis = static_cast<int32_t>(axis);
      attrs.epsilon = 0.01f;
      size_t inner = 1;
      for (size_t d = axis + 1; d < dims.size(); ++d) inner *= static_cast<size_t>(dims[d]);
      std::vector<double> expected(x.elems());
      for (size_t i = 0; i < expected.size(); ++i) {
        const size_t k = i / inner % static_cast<size_t>(c);
        expected[i] = (x.data<float>()[i] - mean.data<float>()[k]) /
                          std::sqrt(static_cast<double>(variance.data<float>()[k]) + 0.01) * scale.data<float>()[k] +
                      bias.data<float>()[k];
      }
      check_close({Op::kBatchNorm, {x, scale, bias, mean, variance}, like(DType::kF32, dims)}, attrs, expected);
    }
  }
  const TestTensor x = random_f32({2, 3}, 1), three = random_f32({3}, 2), two = random_f32({2}, 3);
  check_refused({Op::kBatchNorm, {x, three, three, two, three}, like(DType::kF32, {2, 3})}, BatchNormAttrs{},
                Code::kInvalidArgument);
}

}  // namespace lathe::test
