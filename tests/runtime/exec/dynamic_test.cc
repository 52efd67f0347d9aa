// DynamicFullyConnected against its definition in float32 steps: equal bit for bit on every ISA, storage and thread count.
#include <cmath>
#include <functional>

#include "kernels/gemm/gemm.h"
#include "tests/runtime/exec/op_run.h"

namespace lathe::test {
namespace {

struct DynamicShape {
  int m, n, k;
};
const DynamicShape kShapes[] = {{1, 1, 1}, {1, 40, 33}, {7, 17, 5}, {13, 64, 64}, {50, 150, 96}, {2, 300, 1000}};

struct DynamicCase {
  int m, n, k;
  std::vector<float> x, scale, bias, residual;
  std::vector<int8_t> w;

  explicit DynamicCase(const DynamicShape& s) : m(s.m), n(s.n), k(s.k) {
    std::mt19937 rng(17);
    x.resize(static_cast<size_t>(m * k)), scale.resize(static_cast<size_t>(n)), bias.resize(static_cast<size_t>(n));
    residual.resize(static_cast<size_t>(m * n)), w.resize(static_cast<size_t>(n * k));
    kernels::fill_floats(rng, x.data(), x.size(), -3, 2);
    if (m > 2) std::fill_n(x.begin() + k, k, 0.0f);  // a row without any magnitude
    kernels::fill_floats(rng, scale.data(), scale.size(), 0.001f, 0.02f);
    kernels::fill_floats(rng, bias.data(), bias.size(), -1, 1);
    kernels::fill_floats(rng, residual.data(), residual.size(), -1, 1);
    kernels::fill_ints(rng, w.data(), w.size(), -127, 127);
  }

  float amax(int row, int rows) const {
    float most = 0;
    for (int i = row * k; i < (row + rows) * k; ++i) most = std::fmax(most, std::fabs(x[static_cast<size_t>(i)]));
    return most > 0 ? most / 127.0f : 1.0f;
  }

  std::vector<float> expected(const DynamicFullyConnectedAttrs& a, bool with_bias, bool with_residual) const {
    std::vector<float> y(static_cast<size_t>(m * n));
    for (int r = 0; r < m; ++r) {
      const float s = a.per_token != 0 ? amax(r, 1) : amax(0, m);
      for (int c = 0; c < n; ++c) {
        int32_t acc = 0;
        for (int i = 0; i < k; ++i) {
          const float q = std::nearbyint(x[static_cast<size_t>(r * k + i)] / s);
          acc += static_cast<int32_t>(q) * w[static_cast<size_t>(c * k + i)];
        }
        float v = static_cast<float>(acc) * s * scale[static_cast<size_t>(c)];
        if (with_bias) v += bias[static_cast<size_t>(c)];
        if (with_residual) v += residual[static_cast<size_t>(r * n + c)];
        y[static_cast<size_t>(r * n + c)] = std::fmin(std::fmax(v, a.lo), a.hi);
      }
    }
    return y;
  }
};

template <class T> std::vector<T> padded(const std::vector<T>& v) {
  std::vector<T> p = v;
  p.resize((v.size() + 15) / 16 * 16);
  return p;
}

// The program as lowering would make it.
struct DynamicProgram {
  ProgramBuilder b;
  std::vector<const void*> inputs;
  std::vector<Shape> shapes;
  std::vector<uint32_t> operands;

  DynamicProgram(const DynamicCase& c, const DynamicFullyConnectedAttrs& attrs, bool with_bias, bool with_residual) {
    const auto n = static_cast<uint32_t>(c.n), k = static_cast<uint32_t>(c.k);
    std::vector<int8_t> packed(kernels::gemm_s8_packed_bytes(n, 1, k));
    kernels::gemm_s8_pack(c.w.data(), n, 1, k, packed.data());
    std::vector<int32_t> zeros(n, 0), start(n, 0);
    for (size_t i = 0; i < c.w.size(); ++i) start[i / k] -= 128 * c.w[i];
    const auto vector = [&](DType t, const auto& v) { return b.constant(t, {c.n}, padded(v), Layout::kPadded16); };
    operands = {add_input({c.m, c.k}, c.x.data()), b.constant(DType::kS8, {c.n, c.k}, packed, Layout::kGemmS8),
                vector(DType::kS32, zeros), vector(DType::kS32, start), vector(DType::kF32, c.scale)};
    operands.push_back(with_bias ? vector(DType::kF32, c.bias) : kNoTensor);
    operands.push_back(with_residual ? add_input({c.m, c.n}, c.residual.data()) : kNoTensor);
    b.step(Op::kDynamicFullyConnected, attrs, operands, {b.output(DType::kF32, {c.m, c.n})});
  }
  uint32_t add_input(const std::vector<int>& dims, const float* data) {
    Shape s;
    s.rank = static_cast<uint32_t>(dims.size());
    std::copy(dims.begin(), dims.end(), s.dims);
    shapes.push_back(s);
    inputs.push_back(data);
    return b.input(DType::kF32, std::vector<TestDim>(dims.begin(), dims.end()));
  }
};

void check_everywhere(const DynamicCase& c, const DynamicFullyConnectedAttrs& attrs, bool with_bias, bool with_residual) {
  DynamicProgram made(c, attrs, with_bias, with_residual);
  const BuiltProgram built = made.b.build();
  Program program;
  REQUIRE(built.open(&program).ok());
  const std::vector<float> expected = c.expected(attrs, with_bias, with_residual);
  for (const BindOptions& o : all_options()) {
    CAPTURE(describe(o));
    CoreRun run;
    REQUIRE(run.bind(program, made.shapes, o).ok());
    std::vector<float> got(expected.size(), 7.0f);
    run.run(made.inputs, {got.data()}, nullptr, {run_backwards, nullptr, o.threads});
    REQUIRE(got == expected);
  }
}

}  // namespace

TEST_CASE("activations quantized on the fly, per token and per tensor, with bias, residual and clamp") {
  for (const DynamicShape& s : kShapes) {
    CAPTURE(s.m);
    CAPTURE(s.n);
    CAPTURE(s.k);
    const DynamicCase c(s);
    for (const int32_t per_token : {0, 1}) {
      check_everywhere(c, {per_token, -kInfinity, kInfinity}, true, false);
      check_everywhere(c, {per_token, -kInfinity, kInfinity}, false, false);
      check_everywhere(c, {per_token, -0.25f, 1.5f}, true, true);
    }
  }
}

TEST_CASE("dynamic layers whose operands disagree are refused") {
  const DynamicCase c({5, 20, 12});
  const auto refused = [&](const std::function<void(DynamicProgram&)>& change) {
    DynamicProgram made(c, {}, true, true);
    change(made);
    const BuiltProgram built = made.b.build();
    Program program;
    if (!built.open(&program).ok()) return true;
    CoreRun run;
    return !run.bind(program, made.shapes, all_options()[0]).ok();
  };
  CHECK_FALSE(refused([](DynamicProgram&) {}));
  const auto with = [&](size_t operand, const std::function<void(ProgramTensor&)>& change) {
    return refused([&](DynamicProgram& p) { change(p.b.tensor(p.operands[operand])); });
  };
  CHECK(with(1, [](ProgramTensor& t) { t.layout = Layout::kPlain; }));
  CHECK(with(1, [](ProgramTensor& t) { std::swap(t.dims[0], t.dims[1]); }));
  CHECK(with(2, [](ProgramTensor& t) { t.stored_bytes -= 4; }));
  CHECK(with(4, [](ProgramTensor& t) { t.dtype = DType::kS32; }));
  CHECK(with(5, [](ProgramTensor& t) { t.stored_bytes -= 64; }));
  CHECK(with(6, [](ProgramTensor& t) { t.dims[1] = t.dims[0]; }));
}

}  // namespace lathe::test
