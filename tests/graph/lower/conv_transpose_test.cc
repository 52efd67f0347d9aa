// Transposed convolutions from text to numbers, against their definition: every input pixel adds to the output pixels that its
// taps reach.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "graph/graph_run.h"
#include "graph/lower/lower.h"
#include "graph/passes/passes.h"
#include "kernels/kernel.h"
#include "lathe/arith.h"
#include "runtime/host/cpu.h"

namespace lathe::test {
namespace {

struct TransposedCase {
  int64_t images, h, w, ic, oc, kh, kw;
  ConvTranspose2dAttrs a;
  bool residual = false;

  int64_t oh() const { return (h - 1) * a.stride[0] + (kh - 1) * a.dilation[0] + 1 + a.output_pad[0] - a.pad[0] - a.pad[2]; }
  int64_t ow() const { return (w - 1) * a.stride[1] + (kw - 1) * a.dilation[1] + 1 + a.output_pad[1] - a.pad[1] - a.pad[3]; }
};

const TransposedCase kCases[] = {
    {1, 4, 5, 3, 4, 3, 3, {}},
    {2, 5, 4, 8, 16, 2, 2, {.stride = {2, 2}}, true},
    {1, 6, 7, 16, 17, 3, 3, {.stride = {2, 2}, .pad = {1, 1, 1, 1}, .output_pad = {1, 1}}},
    {1, 6, 7, 20, 33, 4, 4, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}, true},
    {1, 5, 6, 5, 7, 3, 2, {.stride = {3, 1}, .dilation = {2, 3}, .pad = {0, 1, 2, 0}}},
    {1, 5, 6, 4, 3, 3, 3, {.stride = {4, 3}, .dilation = {2, 1}}},              // phases without taps
    {1, 3, 3, 2, 5, 1, 1, {.stride = {3, 2}}},                                  // most outputs are the bias
    {1, 4, 4, 6, 8, 3, 3, {.stride = {2, 1}, .pad = {1, 0, 0, 1}, .groups = 2}},
    {1, 4, 4, 6, 6, 4, 4, {.stride = {2, 2}, .pad = {1, 1, 1, 1}, .groups = 6}},
    {1, 1, 1, 9, 4, 5, 4, {}},
    {1, 3, 4, 4, 4, 5, 5, {.stride = {2, 2}, .pad = {3, 4, 4, 3}}},             // crops whole input pixels' reach
    {2, 33, 21, 24, 20, 3, 3, {.stride = {2, 2}, .pad = {1, 1, 1, 1}, .output_pad = {1, 1}}, true},  // several tasks
    {1, 2, 3, 3, 5, 3, 3, {.stride = {2, 2}, .dilation = {3, 4}, .output_pad = {2, 3}}},
};

std::string list(const int32_t* v, size_t n) {
  std::string s = "[";
  for (size_t i = 0; i < n; ++i) s += (i ? "," : "") + std::to_string(v[i]);
  return s + "]";
}

std::string dims(std::vector<int64_t> v) {
  std::string s = "[";
  for (size_t i = 0; i < v.size(); ++i) s += (i ? "," : "") + std::to_string(v[i]);
  return s + "]";
}

// The node and outputs y, x and (residual) r; `quant_y` follows the result's type.
std::string node_text(const TransposedCase& c, const std::string& type, const std::string& quant_y) {
  return "%y : " + type + dims({c.images, c.oh(), c.ow(), c.oc}) + quant_y + " = ConvTranspose2d (%x, %w, %b" +
         (c.residual ? ", %r)" : ")") + " {stride=" + list(c.a.stride, 2) + ", dilation=" + list(c.a.dilation, 2) + ", pad=" +
         list(c.a.pad, 4) + ", output_pad=" + list(c.a.output_pad, 2) + ", groups=" + std::to_string(c.a.groups) +
         ", lo=-1000, hi=2500}\noutput %y\noutput %x\n" + (c.residual ? "output %r\n" : "");
}

// Calls fn(output index, input index, weight index) for every product.
template <class F>
void for_each_product(const TransposedCase& c, const F& fn) {
  const int64_t icg = c.ic / c.a.groups, ocg = c.oc / c.a.groups;
  for (int64_t at = 0; at < c.images * c.h * c.w * c.ic; ++at) {
    const int64_t i = at % c.ic, col = at / c.ic % c.w, row = at / c.ic / c.w % c.h, image = at / c.ic / c.w / c.h;
    for (int64_t tap = 0; tap < c.kh * c.kw; ++tap) {
      const int64_t y = row * c.a.stride[0] + tap / c.kw * c.a.dilation[0] - c.a.pad[0];
      const int64_t x = col * c.a.stride[1] + tap % c.kw * c.a.dilation[1] - c.a.pad[1];
      if (y < 0 || y >= c.oh() || x < 0 || x >= c.ow()) continue;
      for (int64_t o = i / icg * ocg; o < (i / icg + 1) * ocg; ++o)
        fn(static_cast<size_t>(((image * c.oh() + y) * c.ow() + x) * c.oc + o), static_cast<size_t>(at),
           static_cast<size_t>((o * c.kh * c.kw + tap) * icg + i % icg));
    }
  }
}

template <class T>
std::vector<T> elements(const std::vector<std::byte>& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<kernels::IsaSet> levels() {
  std::vector<kernels::IsaSet> out;
  for (const auto& level : kernels::kIsaLevels) {
    if (kernels::covers(*machine_isa() & kernels::built_isa(), level.set)) out.push_back(level.set);
  }
  return out;
}

constexpr float kScaleX = 0.5f, kScaleY = 40.0f, kScaleR = 20.0f;

std::string weight_quant(int64_t channels) {
  std::string scales, zeros;
  for (int64_t c = 0; c < channels; ++c) {
    scales += (c ? ", " : "") + std::to_string(0.125 + 0.0625 * static_cast<double>(c % 8));
    zeros += c ? ", 0" : "0";
  }
  return "quant(axis=0, scales=[" + scales + "], zero_points=[" + zeros + "])";
}

std::vector<int8_t> expected_s8(const TransposedCase& c, const Graph& g, const std::vector<int8_t>& x,
                                const std::vector<int8_t>& residual) {
  const auto w = g.value(g.find_value("w")).constant.as<int8_t>();
  const auto b = g.value(g.find_value("b")).constant.as<int32_t>();
  const size_t channels = static_cast<size_t>(c.oc);
  std::vector<int32_t> acc(static_cast<size_t>(c.images * c.oh() * c.ow()) * channels);
  for (size_t i = 0; i < acc.size(); ++i) acc[i] = b[i % channels];
  for_each_product(c, [&](size_t out, size_t in, size_t weight) { acc[out] += (x[in] + 7) * w[weight]; });
  const int32_t lo = quantize(-1000.0f, kScaleY, 3, -128, 127), hi = quantize(2500.0f, kScaleY, 3, -128, 127);
  std::vector<int8_t> y(acc.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const double s_w = static_cast<double>(static_cast<float>(0.125 + 0.0625 * static_cast<double>(i % channels % 8)));
    const float m = static_cast<float>(static_cast<double>(kScaleX) * s_w / static_cast<double>(kScaleY));
    y[i] = static_cast<int8_t>(c.residual ? requantize_residual(acc[i], m, residual[i], 11, kScaleR / kScaleY, 3, lo, hi)
                                          : requantize(acc[i], m, 3, lo, hi));
  }
  return y;
}

}  // namespace

TEST_CASE("integer transposed convolutions equal their definition bit for bit on every instruction set") {
  for (const TransposedCase& c : kCases) {
    CAPTURE(node_text(c, "s8", ""));
    std::string bias = "constant %b : s32" + dims({c.oc}) + " quant(scale=1, zero_point=0) = [";
    for (int64_t i = 0; i < c.oc; ++i) bias += (i ? ", " : "") + std::to_string(i * 731 % 5000 - 2500);
    const std::string quant_r = " quant(scale=20, zero_point=11)\n";
    const Graph g = parsed(
        "input %x : s8" + dims({c.images, c.h, c.w, c.ic}) + " quant(scale=0.5, zero_point=-7)\n" +
        (c.residual ? "input %r : s8" + dims({c.images, c.oh(), c.ow(), c.oc}) + quant_r : "") +
        random_s8("w", {c.oc, c.kh, c.kw, c.ic / c.a.groups}, 5, weight_quant(c.oc)) + bias + "]\n" +
        node_text(c, "s8", " quant(scale=40, zero_point=3)"));
    for (const kernels::IsaSet isa : levels()) {
      CAPTURE(isa);
      const auto out = run_graph(g, {9, isa});
      const auto residual = c.residual ? elements<int8_t>(out[2]) : std::vector<int8_t>{};
      CHECK(elements<int8_t>(out[0]) == expected_s8(c, g, elements<int8_t>(out[1]), residual));
    }
  }
}

TEST_CASE("float transposed convolutions are within tolerance of double precision on every instruction set") {
  for (const TransposedCase& c : kCases) {
    CAPTURE(node_text(c, "f32", ""));
    const Graph g = parsed(
        "input %x : f32" + dims({c.images, c.h, c.w, c.ic}) + "\n" +
        (c.residual ? "input %r : f32" + dims({c.images, c.oh(), c.ow(), c.oc}) + "\n" : "") +
        random_f32("w", {c.oc, c.kh, c.kw, c.ic / c.a.groups}, 5) + random_f32("b", {c.oc}, 6) + node_text(c, "f32", ""));
    const auto w = g.value(g.find_value("w")).constant.as<float>(), b = g.value(g.find_value("b")).constant.as<float>();
    for (const kernels::IsaSet isa : levels()) {
      CAPTURE(isa);
      const auto out = run_graph(g, {9, isa});
      const auto y = elements<float>(out[0]), x = elements<float>(out[1]);
      const auto residual = c.residual ? elements<float>(out[2]) : std::vector<float>(y.size());
      std::vector<double> want(y.size());
      for (size_t i = 0; i < want.size(); ++i)
        want[i] = double{b[i % static_cast<size_t>(c.oc)]} + double{residual[i]};
      for_each_product(c, [&](size_t o, size_t i, size_t k) { want[o] += double{x[i]} * double{w[k]}; });
      double worst = 0, largest = 0;
      for (size_t i = 0; i < y.size(); ++i) {
        worst = std::fmax(worst, std::fabs(double{y[i]} - want[i]));
        largest = std::fmax(largest, std::fabs(want[i]));
      }
      CHECK(worst < 2e-6 * largest);
    }
  }
}

TEST_CASE("a transposed convolution takes bias, residual, clamp and batch normalization into its epilogue") {
  const std::string start = "input %x : f32[N,4,4,3]\ninput %r : f32[N,8,8,4]\n" + random_f32("w", {4, 2, 2, 3}, 1) +
                            random_f32("k", {4}, 2) + "%c = ConvTranspose2d (%x, %w) {stride=[2,2]}\n";
  check_pass(passes::fuse_bias, start + "%y = Add (%c, %k)\noutput %y\n",
             "%y = ConvTranspose2d \"c\" (%x, %w, %c.bias) {stride=[2,2]}\noutput %y\n");
  check_pass(passes::fuse_residual, start + "%y = Add (%c, %r) {lo=0}\noutput %y\n",
             "%y = ConvTranspose2d \"c\" (%x, %w, _, %r) {stride=[2,2], lo=0}\noutput %y\n");
  check_pass(passes::fold_batchnorm,
             start + random_f32("v", {4}, 3, 0.5f, 2.0f) + "%y = BatchNorm (%c, %k, %k, %k, %v) {axis=3}\noutput %y\n",
             "%y = ConvTranspose2d \"c\" (%x, %c.weight, %c.bias) {stride=[2,2]}\noutput %y\n");
  check_pass(passes::fuse_activation, start + "%y = Clamp (%c) {lo=0, hi=6}\noutput %y\n",
             "%y = ConvTranspose2d \"c\" (%x, %w) {stride=[2,2], lo=0, hi=6}\noutput %y\n");
}

TEST_CASE("transposed convolutions of too many phases are refused") {
  const auto image = lower(parsed("input %x : f32[1,2,2,1]\nconstant %w : f32[1,1,1,1] = [1]\n"
                                  "%y = ConvTranspose2d \"up\" (%x, %w) {stride=[65,64]}\noutput %y\n"),
                           Target::kHost);
  REQUIRE(!image);
  CHECK(image.error().message == "ConvTranspose2d 'up': stride 65 x 64 makes more than 4096 phases");
}

}  // namespace lathe::test
