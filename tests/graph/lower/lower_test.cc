// Lowering: the program's structure, integer constants against their definitions, and errors that name node and op.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "graph/graph_run.h"
#include "graph/lower/load.h"
#include "graph/lower/lower.h"
#include "lathe/arith.h"
#include "runtime/host/cpu.h"

namespace lathe::test {
namespace {

std::string lower_error(const std::string& body) {
  const auto image = lower(parsed(body), Target::kHost);
  REQUIRE(!image);
  return image.error().message;
}

std::shared_ptr<const LoadedProgram> program_of(const std::string& body) {
  auto image = lower(parsed(body), Target::kHost);
  REQUIRE_MESSAGE(image, image.error().message);
  auto program = load_program(std::move(*image));
  REQUIRE_MESSAGE(program, program.error().message);
  return *program;
}

// Stored elements of a step's operand.
template <class T>
const T* stored(const Program& p, uint32_t step, uint32_t operand) {
  return reinterpret_cast<const T*>(p.constant(p.tensor(p.input(p.step(step), operand))));
}

TEST_CASE("targets have names") {
  CHECK(*parse_target("host") == Target::kHost);
  CHECK(*parse_target("cortex-m4") == Target::kCortexM);
  CHECK(parse_target("z80").error().message == "no target 'z80'; the targets are host, cortex-m4");
}

TEST_CASE("a program has the graph's ports, symbols, steps and names") {
  const auto loaded = program_of("input %x : f32[N,4,4,2]\n" + random_f32("w", {3, 1, 1, 2}, 1) +
                                 "%c = Conv2d \"conv\" (%x, %w)\n%y = Exp \"exp\" (%c)\noutput %y\noutput %c\n");
  const Program& p = loaded->program;
  CHECK(p.header().input_count == 1);
  CHECK(p.header().output_count == 2);
  CHECK(p.header().symbol_count == 1);
  CHECK(loaded->symbol_names == std::vector<std::string>{"N"});
  CHECK(loaded->input_names == std::vector<std::string>{"x"});
  CHECK(loaded->output_names == std::vector<std::string>{"y", "c"});
  CHECK(loaded->step_names == std::vector<std::string>{"conv", "exp"});
  CHECK(loaded->step_ops == std::vector<std::string>{"Conv2d", "Exp"});
  REQUIRE(p.step_count() == 2);
  CHECK(p.tensor(p.output(p.step(0), 0)).port == 1);
  REQUIRE(p.step(0).macs_dim != kNoTensor);
  CHECK(p.dim(p.step(0).macs_dim).op == DimOp::kMul);  // N times a constant
  CHECK(p.step(1).macs_dim == kNoTensor);
}

TEST_CASE("every constant is stored once") {
  const auto loaded =
      program_of("input %x : f32[N,4,4,2]\n" + random_f32("w", {2, 1, 1, 2}, 1) + random_f32("v", {2, 1, 1, 2}, 1) +
                 "%a = Conv2d (%x, %w)\n%b = Conv2d (%a, %v)\n%y = Conv2d (%b, %w)\noutput %y\n");
  CHECK(stored<float>(loaded->program, 0, 1) == stored<float>(loaded->program, 1, 1));
  CHECK(stored<float>(loaded->program, 0, 1) == stored<float>(loaded->program, 2, 1));
}

TEST_CASE("outputs that are inputs or constants are copies") {
  const auto outputs = run_program(
      program_of("input %x : f32[2]\nconstant %k : f32[2] = [3, 4]\n%y = Exp (%x)\noutput %y\noutput %x\noutput %k\n"));
  REQUIRE(outputs.size() == 3);
  float y, x, k[2];
  std::memcpy(&y, outputs[0].data(), sizeof y);
  std::memcpy(&x, outputs[1].data(), sizeof x);
  std::memcpy(k, outputs[2].data(), sizeof k);
  CHECK(y == doctest::Approx(std::exp(x)).epsilon(1e-5));
  CHECK(k[1] == 4.0f);
}

TEST_CASE("what only feeds shapes does not run, and a transpose that moves axes of size 1 is a reshape") {
  const auto loaded = program_of(
      "input %x : f32[N,4,1,1]\nconstant %i : s64[1] = [0]\nconstant %k : s64[1] = [4]\n%s = Shape (%x)\n%g = Gather (%s, %i)\n"
      "%t = Concat (%g, %k) {axis=0}\n%p = Transpose (%x) {perm=[0,2,3,1]}\n%y = Reshape (%p, %t)\noutput %y\n");
  CHECK(loaded->step_names == std::vector<std::string>{"p", "y"});
  CHECK(static_cast<Op>(loaded->program.step(0).op) == Op::kReshape);
}

const std::string kQuantX = "input %x : s8[1,5,5,4] quant(scale=0.5, zero_point=-7)\n";
const std::string kWeightQuant = "quant(axis=0, scales=[0.25, 0.5, 0.125, 1], zero_points=[0, 0, 0, 0])";
constexpr float kWeightScales[] = {0.25f, 0.5f, 0.125f, 1.0f};
const std::string kBias =
    "constant %b : s32[4] quant(axis=0, scales=[0.125, 0.25, 0.0625, 0.5], zero_points=[0, 0, 0, 0]) = [100, -200, 3000, -4]\n";

TEST_CASE("folded biases and multipliers follow their definition, for both storages") {
  const std::string body = kQuantX + random_s8("w", {4, 3, 3, 4}, 5, kWeightQuant) + kBias +
                           "%y : s8[1,3,3,4] quant(scale=0.75, zero_point=3) = Conv2d (%x, %w, %b)\noutput %y\n";
  const Graph g = parsed(body);
  const auto loaded = program_of(body);
  const auto w = g.value(g.find_value("w")).constant.as<int8_t>();
  const int32_t b[] = {100, -200, 3000, -4};
  for (size_t c = 0; c < 4; ++c) {
    int32_t sum = 0;
    for (size_t k = 0; k < 36; ++k) sum += w[c * 36 + k];
    CHECK(stored<int32_t>(loaded->program, 0, 2)[c] == b[c] + 7 * sum);
    CHECK(stored<int32_t>(loaded->program, 0, 3)[c] == b[c] + 7 * sum - 128 * sum);
    CHECK(stored<float>(loaded->program, 0, 4)[c] == static_cast<float>(double{0.5f} * double{kWeightScales[c]} / double{0.75f}));
  }
}

// One sum of the convolution below: padding is the zero point, so taps outside add nothing.
int32_t sum_at(const Graph& g, const std::vector<int8_t>& x, int32_t groups, int32_t i, int32_t j, int32_t c) {
  const auto w = g.value(g.find_value("w")).constant.as<int8_t>();
  const int32_t per_group = 4 / groups;
  int32_t acc = g.value(g.find_value("b")).constant.as<int32_t>()[static_cast<size_t>(c)];
  for (int32_t tap = 0; tap < 9; ++tap) {
    const int32_t row = i + tap / 3 - 1, col = j + tap % 3 - 1;
    if (row < 0 || row > 4 || col < 0 || col > 4) continue;
    for (int32_t k = 0; k < per_group; ++k) {
      const int32_t channel = c / per_group * per_group + k;
      acc += (x[static_cast<size_t>((row * 5 + col) * 4 + channel)] + 7) * w[static_cast<size_t>((c * 9 + tap) * per_group + k)];
    }
  }
  return acc;
}

// Convolution by its definition in ARITHMETIC.md: an exact sum, rounded once.
std::vector<int8_t> reference_conv(const Graph& g, int32_t groups, const std::vector<int8_t>& x,
                                   const std::vector<int8_t>& residual) {
  const int32_t lo = quantize(-1000.0f, 40.0f, 3, -128, 127), hi = quantize(2500.0f, 40.0f, 3, -128, 127);
  std::vector<int8_t> y(100);
  for (int32_t at = 0; at < 100; ++at) {
    const int32_t c = at % 4, acc = sum_at(g, x, groups, at / 20, at / 4 % 5, c);
    const float m = static_cast<float>(double{0.5f} * double{kWeightScales[c]} / 40.0);
    const int32_t q = residual.empty() ? requantize(acc, m, 3, lo, hi)
                                       : requantize_residual(acc, m, residual[static_cast<size_t>(at)], 11,
                                                             static_cast<float>(20.0 / 40.0), 3, lo, hi);
    y[static_cast<size_t>(at)] = static_cast<int8_t>(q);
  }
  return y;
}

std::vector<int8_t> as_s8(const std::vector<std::byte>& bytes) {
  std::vector<int8_t> out(bytes.size());
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST_CASE("integer convolutions equal their definition bit for bit on every storage") {
  for (const int32_t groups : {1, 2, 4}) {
    for (const bool with_residual : {false, true}) {
      CAPTURE(groups);
      CAPTURE(with_residual);
      const Graph g = parsed(kQuantX + (with_residual ? "input %r : s8[1,5,5,4] quant(scale=20, zero_point=11)\n" : "") +
                             random_s8("w", {4, 3, 3, 4 / groups}, 5, kWeightQuant) + kBias +
                             "%y : s8[1,5,5,4] quant(scale=40, zero_point=3) = Conv2d (%x, %w, %b" +
                             (with_residual ? ", %r)" : ")") + " {pad=[1,1,1,1], groups=" + std::to_string(groups) +
                             ", lo=-1000, hi=2500}\noutput %y\noutput %x\n" + (with_residual ? "output %r\n" : ""));
      for (const kernels::IsaSet isa : {kernels::kIsaScalar, *machine_isa()}) {
        const auto out = run_graph(g, {9, isa});
        CHECK(as_s8(out[0]) == reference_conv(g, groups, as_s8(out[1]), with_residual ? as_s8(out[2]) : std::vector<int8_t>{}));
      }
    }
  }
}

TEST_CASE("functions of one input become tables") {
  const auto loaded = program_of(
      "input %x : s8[4] quant(scale=0.1, zero_point=5)\n%y : s8[4] quant(scale=0.00390625, zero_point=-128) = Sigmoid "
      "(%x)\noutput %y\n");
  const auto* table = stored<int8_t>(loaded->program, 0, 1);
  for (const int32_t q : {-128, -1, 5, 60, 127}) {
    const auto value = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(dequantize(q, 0.1f, 5)))));
    CHECK(table[q + 128] == quantize(value, 1.0f / 256, -128, -128, 127));
  }
  CHECK(table[5 + 128] == 0);  // sigmoid(0) = 0.5
}

TEST_CASE("softmax gets the table of its exponentials") {
  const auto loaded = program_of(
      "input %x : s8[2,4] quant(scale=0.25, zero_point=0)\n%y : s8[2,4] quant(scale=0.00390625, zero_point=-128) = Softmax (%x) "
      "{axis=1}\noutput %y\n");
  const auto* table = stored<uint16_t>(loaded->program, 0, 1);
  CHECK(table[0] == 65535);
  CHECK(table[4] == static_cast<uint16_t>(std::nearbyint(65535.0 * std::exp(-1.0))));
  CHECK(table[255] == 0);
}

TEST_CASE("gelu's table has the form that its attribute names") {
  for (const bool tanh_form : {false, true}) {
    const auto loaded = program_of(
        "input %x : s8[4] quant(scale=0.05, zero_point=0)\n%y : s8[4] quant(scale=0.0005, zero_point=0) = Gelu (%x) "
        "{approximate=" +
        std::to_string(tanh_form ? 1 : 0) + "}\noutput %y\n");
    const auto* table = stored<int8_t>(loaded->program, 0, 1);
    for (const int32_t q : {-128, -80, -50, -1, 1}) {
      const double x = static_cast<double>(dequantize(q, 0.05f, 0));
      const double half = tanh_form ? 0.5 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)))
                                    : 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
      CHECK(table[q + 128] == quantize(static_cast<float>(x * half), 0.0005f, 0, -128, 127));
    }
  }
}

TEST_CASE("layer norm gets its vectors in steps of the result") {
  const std::string text =
      "input %x : s8[2,3] quant(scale=0.25, zero_point=7)\nconstant %s : f32[3] = [1, -2, 0.1]\n"
      "%y : s8[2,3] quant(scale=0.05, zero_point=-3) = LayerNorm \"ln\" (%x, %s) {axis=1";
  const auto loaded = program_of(text + "}\noutput %y\n");
  const auto *g = stored<float>(loaded->program, 0, 1), *b = stored<float>(loaded->program, 0, 2);
  CHECK(g[1] == static_cast<float>(-2.0 / static_cast<double>(0.05f)));
  CHECK(g[2] == static_cast<float>(static_cast<double>(0.1f) / static_cast<double>(0.05f)));
  CHECK(b[0] == 0);
  CHECK(b[2] == 0);
  CHECK(lower_error(text + ", epsilon=0}\noutput %y\n").find("LayerNorm 'ln': epsilon 0") == 0);
  CHECK(lower_error("input %x : s8[65537] quant(scale=1, zero_point=0)\nconstant %s : f32[65537] = splat 1\n"
                    "%y : s8[65537] quant(scale=1, zero_point=0) = LayerNorm \"ln\" (%x, %s) {axis=0}\noutput %y\n") ==
        "LayerNorm 'ln': a row has no elements or more than 65536");
}

TEST_CASE("sums that could leave int32 are refused, naming node and channel") {
  const std::string error = lower_error(
      "input %x : s8[1,40000] quant(scale=1, zero_point=0)\nconstant %w : s8[1,40000] quant(scale=1, zero_point=0) = splat 127\n"
      "constant %b : s32[1] quant(scale=1, zero_point=0) = [2147483647]\n%y : s8[1,1] quant(scale=1, zero_point=0) = "
      "FullyConnected \"head\" (%x, %w, %b)\noutput %y\n");
  CHECK(error == "FullyConnected 'head': channel 0: the sum can reach 2797723647, which does not fit 32 bits");
}

TEST_CASE("what cannot be lowered is named") {
  CHECK(lower_error("input %x : f16[1,4]\ninput %w : f16[3,4]\n%y = FullyConnected \"fc\" (%x, %w)\noutput %y\n") ==
        "FullyConnected 'fc': weight 'w' is not constant");
  CHECK(
      lower_error(
          "input %x : s16[1,4] quant(scale=1, zero_point=0)\nconstant %w : s16[1,4] quant(scale=1, zero_point=0) = [1, 2, 3, 4]\n"
          "%y : s16[1,1] quant(scale=1, zero_point=0) = FullyConnected \"fc\" (%x, %w)\noutput %y\n") ==
      "FullyConnected 'fc': no kernel for s16 operands");
  CHECK(lower_error("input %x : s16[1,2] quant(scale=1, zero_point=1, qmin=-32768, qmax=32767)\n"
                    "constant %w : s8[1,2] quant(scale=1, zero_point=0) = [1, 2]\n"
                    "%y : s16[1,1] quant(scale=1, zero_point=0, qmin=-32768, qmax=32767) = FullyConnected \"fc\" (%x, %w)\n"
                    "output %y\n") == "FullyConnected 'fc': activations of 16 bits with a zero point");
}

}  // namespace
}  // namespace lathe::test
