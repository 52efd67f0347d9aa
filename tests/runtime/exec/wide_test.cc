// Layers of 16-bit activations against a scatter written the other way round, and the borders of 16 and 32-bit values.
#include <cmath>

#include "tests/runtime/exec/op_run.h"

namespace lathe::test {
namespace {

constexpr QuantParams kX{0.001f, 0, -32768, 32767}, kY{0.5f, 0, -32768, 32767};

template <class T> std::vector<T> random_ints(size_t n, uint32_t seed, int lo, int hi) {
  std::mt19937 rng(seed);
  std::vector<T> v(n);
  for (T& x : v) x = static_cast<T>(std::uniform_int_distribution<int>(lo, hi)(rng));
  v[0] = static_cast<T>(lo);
  return v;
}

struct Layer {
  int h, w, ic, oc, kh, kw, stride, pad, groups, oh, ow;
};

// Operands, and sums that every pair of an input element and a tap is added to.
struct WideCase {
  Layer l;
  std::vector<int16_t> x;
  std::vector<int8_t> weights;
  std::vector<int64_t> bias;
  std::vector<float> m;

  explicit WideCase(const Layer& layer) : l(layer) {
    x = random_ints<int16_t>(static_cast<size_t>(2 * l.h * l.w * l.ic), 1, -32768, 32767);
    weights = random_ints<int8_t>(static_cast<size_t>(l.oc * l.kh * l.kw * (l.ic / l.groups)), 2, -128, 127);
    for (int c = 0; c < l.oc; ++c) {
      bias.push_back(c % 2 == 0 ? int64_t{1} << 40 : -12345678901LL * c);
      m.push_back(c % 2 == 0 ? 1e-9f : 3e-4f / static_cast<float>(c + 1));
    }
  }

  std::vector<int16_t> expected(bool transposed, float lo) const {
    const int icg = l.ic / l.groups, ocg = l.oc / l.groups;
    std::vector<int64_t> sums(static_cast<size_t>(2 * l.oh * l.ow * l.oc));
    for (int n = 0; n < 2; ++n)
      for (int i = 0; i < l.h; ++i)
        for (int j = 0; j < l.w; ++j)
          for (int r = 0; r < l.kh; ++r)
            for (int s = 0; s < l.kw; ++s) {
              int oy = i * l.stride + r - l.pad, ox = j * l.stride + s - l.pad;
              if (!transposed) {
                const int ty = i - r + l.pad, tx = j - s + l.pad;
                if (ty < 0 || tx < 0 || ty % l.stride != 0 || tx % l.stride != 0) continue;
                oy = ty / l.stride, ox = tx / l.stride;
              }
              if (oy < 0 || ox < 0 || oy >= l.oh || ox >= l.ow) continue;
              for (int c = 0; c < l.oc; ++c)
                for (int k = 0; k < icg; ++k)
                  sums[static_cast<size_t>(((n * l.oh + oy) * l.ow + ox) * l.oc + c)] +=
                      int64_t{x[static_cast<size_t>(((n * l.h + i) * l.w + j) * l.ic + c / ocg * icg + k)]} *
                      weights[static_cast<size_t>(((c * l.kh + r) * l.kw + s) * icg + k)];
            }
    std::vector<int16_t> y;
    for (size_t i = 0; i < sums.size(); ++i) {
      const size_t c = i % static_cast<size_t>(l.oc);
      const float v = static_cast<float>(sums[i] + bias[c]) * m[c];
      const double limited = std::fmin(std::fmax(static_cast<double>(v), std::fmax(lo / kY.scale, -32768.0)), 32767.0);
      y.push_back(static_cast<int16_t>(std::nearbyint(limited)));
    }
    return y;
  }

  OpCase op_case(Op op, std::vector<int> x_dims, std::vector<int> w_dims, std::vector<int> y_dims) const {
    TestTensor none;
    return {op,
            {tensor_of(DType::kS16, std::move(x_dims), x, kX), tensor_of(DType::kS8, std::move(w_dims), weights).as_constant(),
             s64({l.oc}, bias).as_constant(), s64({l.oc}, bias).as_constant(), f32({l.oc}, m).as_constant()},
            like(DType::kS16, std::move(y_dims), kY)};
  }
};

// The program of one step with operand 3 left out.
template <class A>
void check_layer(const WideCase& c, Op op, const A& attrs, const std::vector<int>& x_dims, const std::vector<int>& w_dims,
                 const std::vector<int>& y_dims, const std::vector<int16_t>& expected) {
  for (const BindOptions& o : all_options()) {
    ProgramBuilder b;
    const auto dims = [](const std::vector<int>& d) { return std::vector<TestDim>(d.begin(), d.end()); };
    const auto constant = [&](DType t, const std::vector<int>& d, const void* bytes, size_t n) {
      return b.constant_bytes(t, dims(d), static_cast<const uint8_t*>(bytes), n, Layout::kPlain, {});
    };
    const uint32_t x = b.input(DType::kS16, dims(x_dims), kX);
    const uint32_t w = constant(DType::kS8, w_dims, c.weights.data(), c.weights.size());
    const uint32_t bias = constant(DType::kS64, {c.l.oc}, c.bias.data(), c.bias.size() * 8);
    const uint32_t m = constant(DType::kF32, {c.l.oc}, c.m.data(), c.m.size() * 4);
    const uint32_t y = b.output(DType::kS16, dims(y_dims), kY);
    b.step(op, attrs, {x, w, bias, kNoTensor, m}, {y});
    const BuiltProgram built = b.build();
    Program program;
    REQUIRE(built.open(&program).ok());
    CoreRun run;
    Shape shape;
    shape.rank = static_cast<uint32_t>(x_dims.size());
    std::copy(x_dims.begin(), x_dims.end(), shape.dims);
    REQUIRE(run.bind(program, {shape}, o).ok());
    const GuardedBytes memory(reinterpret_cast<const uint8_t*>(c.x.data()), c.x.size() * 2);
    std::vector<int16_t> got(expected.size());
    run.run({memory.data()}, {got.data()}, nullptr, Parallel{run_backwards, nullptr, o.threads});
    CAPTURE(describe(o));
    CHECK(got == expected);
  }
}

TEST_CASE("16-bit convolutions have exact 64-bit sums") {
  const Layer layers[] = {
      {5, 4, 3, 4, 3, 3, 1, 1, 1, 5, 4}, {7, 7, 4, 4, 3, 2, 2, 0, 4, 3, 3}, {5, 5, 4, 6, 1, 1, 2, 0, 2, 3, 3}};
  for (const Layer& l : layers) {
    CAPTURE(l.groups);
    const WideCase c(l);
    Conv2dAttrs a;
    a.stride[0] = a.stride[1] = l.stride;
    for (int i = 0; i < 4; ++i) a.pad[i] = l.pad;
    a.groups = l.groups;
    a.lo = -3.0f;
    check_layer(c, Op::kConv2d, a, {2, l.h, l.w, l.ic}, {l.oc, l.kh, l.kw, l.ic / l.groups}, {2, l.oh, l.ow, l.oc},
                c.expected(false, -3.0f));
  }
}

TEST_CASE("16-bit transposed convolutions and fully connected layers have exact 64-bit sums") {
  const Layer l{3, 4, 3, 4, 3, 3, 2, 1, 1, 5, 7};
  const WideCase c(l);
  ConvTranspose2dAttrs a;
  a.stride[0] = a.stride[1] = 2;
  for (int i = 0; i < 4; ++i) a.pad[i] = 1;
  check_layer(c, Op::kConvTranspose2d, a, {2, l.h, l.w, l.ic}, {l.oc, 3, 3, l.ic}, {2, l.oh, l.ow, l.oc},
              c.expected(true, -kInfinity));
  const Layer rows{1, 1, 9, 5, 1, 1, 1, 0, 1, 1, 1};
  const WideCase d(rows);
  check_layer(d, Op::kFullyConnected, FullyConnectedAttrs{}, {2, 9}, {5, 9}, {2, 5}, d.expected(false, -kInfinity));
}

TEST_CASE("16-bit layers refuse operands that do not fit") {
  const WideCase c({1, 1, 9, 5, 1, 1, 1, 0, 1, 1, 1});
  check_refused(c.op_case(Op::kFullyConnected, {2, 9}, {5, 9}, {2, 5}), FullyConnectedAttrs{},
                Code::kUnsupported);  // operand 3
  OpCase s8 = c.op_case(Op::kFullyConnected, {2, 9}, {5, 9}, {2, 5});
  s8.output = like(DType::kS8, {2, 5}, QuantParams{0.5f, 0, -128, 127});
  check_refused(s8, FullyConnectedAttrs{}, Code::kUnsupported);
}

TEST_CASE("wide values are quantized half to even, clamped, and come back") {
  const std::vector<float> x = {0.0f, 0.25f, 0.75f, -0.25f, 1e9f, -1e9f, 16383.5f, NAN};
  const QuantParams s16{0.5f, 0, -32768, 32767}, s32{0.5f, 3, INT32_MIN, INT32_MAX};
  check_equal<int16_t>({Op::kQuantize, {f32({8}, x)}, like(DType::kS16, {8}, s16)}, NoAttrs{},
                       {0, 0, 2, 0, 32767, -32768, 32767, -32768});
  check_equal<int32_t>(
      {Op::kQuantize, {f32({7}, {0.0f, 0.25f, 0.75f, -0.25f, 1e12f, -1e12f, 1e9f})}, like(DType::kS32, {7}, s32)}, NoAttrs{},
      {3, 3, 5, 3, INT32_MAX, INT32_MIN, 2000000003});
  check_equal<float>({Op::kDequantize, {tensor_of<int16_t>(DType::kS16, {3}, {0, -32768, 7}, s16)}, like(DType::kF32, {3})},
                     NoAttrs{}, {0.0f, -16384.0f, 3.5f});
  check_equal<float>({Op::kDequantize, {tensor_of<int32_t>(DType::kS32, {2}, {3, INT32_MIN}, s32)}, like(DType::kF32, {2})},
                     NoAttrs{}, {0.0f, -1073741825.5f});
}

}  // namespace
}  // namespace lathe::test
