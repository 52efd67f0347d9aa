// Losses: their values against the formulas written out, their gradients against finite differences, and what they refuse.
#include <doctest/doctest.h>

#include <cmath>

#include "graph/lower/load.h"
#include "runtime/host/cpu.h"
#include "tests/train/finite_difference.h"
#include "train/losses.h"

namespace lathe::test {
namespace {

constexpr Range kRange{-2.0f, 2.0f};

Graph inputs_of(const std::string& body) {
  auto graph = parse_graph("graph {\n" + body + "\noutput %x\n}");
  REQUIRE_MESSAGE(graph, graph.error().message);
  return std::move(*graph);
}

const char* const kLogits = "input %x : f32[2,3]\ninput %t : f32[2,3]\ninput %l : s64[2]";
const std::vector<float> kStudent = {1.0f, -2.0f, 0.5f, 0.25f, 3.0f, -1.0f}, kTeacher = {2.0f, 0.0f, -1.0f, 0.5f, 0.5f, 1.5f};
const std::vector<int64_t> kLabels = {2, 1};

float value_of(Graph graph, const Result<ValueId>& loss) {
  REQUIRE_MESSAGE(loss, loss.error().message);
  graph.add_output(*loss);
  auto program = compile_for_host(graph);
  REQUIRE_MESSAGE(program, program.error().message);
  auto session = HostSession::create(*program, {*machine_isa(), 1});
  REQUIRE(session);
  std::vector<Shape> shapes;
  for (const ValueId v : graph.inputs()) shapes.push_back(input_shape(graph, v));
  REQUIRE((*session)->bind(shapes));
  const void* in[] = {kStudent.data(), kTeacher.data(), kLabels.data()};
  float result = 0;
  std::vector<float> copy(6);
  void* out[] = {copy.data(), &result};
  REQUIRE((*session)->run(in, out));
  return result;
}

// Probabilities of one row at a temperature.
std::vector<double> softmax(const float* x, double temperature) {
  std::vector<double> p;
  double sum = 0;
  for (int i = 0; i < 3; ++i) sum += p.emplace_back(std::exp(double{x[i]} / temperature));
  for (double& v : p) v /= sum;
  return p;
}

double cross_entropy_of(double smoothing) {
  double loss = 0;
  for (size_t row = 0; row < 2; ++row) {
    const std::vector<double> p = softmax(kStudent.data() + 3 * row, 1);
    for (size_t c = 0; c < 3; ++c)
      loss -= ((static_cast<int64_t>(c) == kLabels[row] ? 1 - smoothing : 0.0) + smoothing / 3) * std::log(p[c]) / 2;
  }
  return loss;
}

double divergence(double temperature) {
  double sum = 0;
  for (size_t row = 0; row < 2; ++row) {
    const auto s = softmax(kStudent.data() + 3 * row, temperature), t = softmax(kTeacher.data() + 3 * row, temperature);
    for (size_t c = 0; c < 3; ++c) sum += t[c] * (std::log(t[c]) - std::log(s[c])) / 2;
  }
  return sum;
}

TEST_CASE("losses have the values of their formulas") {
  for (const float smoothing : {0.0f, 0.1f}) {
    Graph g = inputs_of(kLogits);
    const auto loss = train::cross_entropy(g, g.inputs()[0], g.inputs()[2], smoothing);
    CHECK(value_of(g, loss) == doctest::Approx(cross_entropy_of(double{smoothing})).epsilon(1e-5));
  }
  Graph squared = inputs_of(kLogits);
  double mean = 0;
  for (size_t i = 0; i < 6; ++i) mean += std::pow(double{kStudent[i]} - double{kTeacher[i]}, 2) / 6;
  const auto distance = train::mean_squared(squared, squared.inputs()[0], squared.inputs()[1]);
  CHECK(value_of(squared, distance) == doctest::Approx(mean).epsilon(1e-5));
  Graph distilled = inputs_of(kLogits);
  const auto loss = train::distillation(distilled, distilled.inputs()[0], distilled.inputs()[1], distilled.inputs()[2],
                                        {.alpha = 0.7f, .temperature = 3.0f, .smoothing = 0.1f});
  CHECK(value_of(distilled, loss) == doctest::Approx(0.3 * cross_entropy_of(0.1) + 0.7 * 9 * divergence(3)).epsilon(1e-5));
}

TEST_CASE("mixup weighs two labels per row") {
  Graph g = inputs_of("input %x : f32[2,3]\ninput %t : f32[2,3]\ninput %l : s64[2]\nconstant %other : s32[2] = [0, 2]\n"
                      "constant %share : f32[2] = [0.25, 0.75]");
  const auto mixed = train::cross_entropy(g, g.inputs()[0], {g.inputs()[2], g.find_value("other"), g.find_value("share")});
  double expected = 0;
  const int32_t other[] = {0, 2};
  const double share[] = {0.25, 0.75};
  for (size_t row = 0; row < 2; ++row) {
    const std::vector<double> p = softmax(kStudent.data() + 3 * row, 1);
    expected -= (share[row] * std::log(p[static_cast<size_t>(kLabels[row])]) + (1 - share[row]) * std::log(p[static_cast<size_t>(other[row])])) / 2;
  }
  CHECK(value_of(g, mixed) == doctest::Approx(expected).epsilon(1e-5));
  const auto wrong = train::cross_entropy(g, g.inputs()[0], {g.inputs()[2], g.find_value("other"), g.find_value("other")});
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message == "shares 'other' are s32[2], must be one number per row of f32[2,3]");
}

TEST_CASE("gradients of losses agree with finite differences") {
  const std::string body = "input %x : f32[N,4]\ninput %t : f32[N,4]\ninput %l : s32[N]";
  Graph a = inputs_of("input %x : f32[N,4]\ninput %l : s32[N]");
  const auto entropy = train::cross_entropy(a, a.inputs()[0], a.inputs()[1], 0.1f);
  REQUIRE_MESSAGE(entropy, entropy.error().message);
  CHECK(check_gradients(a, *entropy, *entropy, kRange) == "");
  Graph b = inputs_of("input %x : f32[N,4]\ninput %t : f32[N,4]");
  const auto squared = train::mean_squared(b, b.inputs()[0], b.inputs()[1]);
  REQUIRE_MESSAGE(squared, squared.error().message);
  CHECK(check_gradients(b, *squared, *squared, kRange) == "");
  Graph c = inputs_of(body);
  const auto loss = train::distillation(c, c.inputs()[0], c.inputs()[1], c.inputs()[2], {.alpha = 0.7f, .temperature = 3.0f});
  REQUIRE_MESSAGE(loss, loss.error().message);
  CHECK(check_gradients(c, *loss, *loss, kRange) == "");
}

TEST_CASE("losses name what does not fit") {
  Graph g = inputs_of("input %x : f32[N,4]\ninput %l : s64[N]\ninput %f : f32[N]\ninput %t : f32[N,5]");
  const auto x = g.inputs()[0], l = g.inputs()[1], f = g.inputs()[2], t = g.inputs()[3];
  const auto message = [](const Result<ValueId>& r) { return r ? std::string() : r.error().message; };
  CHECK(message(train::cross_entropy(g, f, l)) == "logits 'f' are f32[N], must be f32[batch,classes]");
  CHECK(message(train::cross_entropy(g, x, f)) == "labels 'f' are f32[N], must be one integer per row of f32[N,4]");
  CHECK(message(train::cross_entropy(g, x, l, 1.0f)) == "label smoothing is 1.000000, must be at least 0 and below 1");
  CHECK(message(train::mean_squared(g, x, t)) == "target 't' is f32[N,5], the result is f32[N,4]");
  CHECK(message(train::distillation(g, x, t, l, {})) == "the teacher has 5 classes, the student has 4");
  CHECK(message(train::distillation(g, x, x, l, {.temperature = 0.0f})) == "temperature is 0.000000, must be above 0");
  CHECK(message(train::distillation(g, x, x, l, {.alpha = 1.5f})) == "alpha is 1.500000, must be between 0 and 1");
}

}  // namespace
}  // namespace lathe::test
