// Optimizers against their formulas in double, several steps of one session; clipping, decay, and what they refuse.
#include <doctest/doctest.h>

#include <cmath>

#include "graph/grad/gradient.h"
#include "graph/lower/load.h"
#include "runtime/host/cpu.h"
#include "train/optimizer.h"

namespace lathe::test {
namespace {

constexpr size_t kElems = 6;
constexpr float kStart[kElems] = {0.5f, -1.0f, 2.0f, 0.25f, -0.75f, 1.5f};
// What w (a matrix or a vector) is multiplied with in three steps: its gradients.
constexpr float kGradients[3][kElems] = {{1, -2, 0.5f, 3, -0.25f, 0.125f}, {-1, 0.5f, 0.25f, 1, 2, -4}, {0.5f, 0.5f, -1, 0, 1, 3}};
constexpr float kRates[3] = {0.1f, 0.05f, 0.2f};

using Values = std::vector<double>;

struct Trained {
  Graph graph;
  ValueId w, rate;
  train::Parameter parameter;
};

Trained problem(const std::string& dims) {
  auto graph = parse_graph("graph {\ninput %x : f32" + dims + "\ninput %rate : f32[]\nvariable %w : f32" + dims +
                           " = [0.5, -1, 2, 0.25, -0.75, 1.5]\n%p = Mul (%w, %x)\noutput %p\n}");
  REQUIRE_MESSAGE(graph, graph.error().message);
  const ValueId p = graph->find_value("p"), w = graph->find_value("w");
  Ints axes;
  for (size_t i = 0; i < graph->value(p).type.dims.size(); ++i) axes.values[axes.count++] = static_cast<int32_t>(i);
  const auto sum = graph->add_node(Op::kReduceSum, ReduceAttrs{axes, 0}, {p}, "loss");
  REQUIRE(sum);
  const ValueId of[] = {w};
  const auto gradients = add_gradients(*graph, graph->node(*sum).outputs[0], of);
  REQUIRE_MESSAGE(gradients, gradients.error().message);
  return {*graph, w, graph->find_value("rate"), {w, (*gradients)[0]}};
}

// w after three steps.
std::vector<float> run_steps(Trained t) {
  t.graph.add_output(t.w);
  auto program = compile_for_host(t.graph);
  REQUIRE_MESSAGE(program, program.error().message);
  auto session = HostSession::create(*program, {*machine_isa(), 1});
  REQUIRE(session);
  Shape shape;
  for (const Dim d : t.graph.value(t.w).type.dims) shape.dims[shape.rank++] = static_cast<int32_t>(*t.graph.dims().value(d));
  const Shape shapes[] = {shape, {}};
  REQUIRE((*session)->bind(shapes));
  std::vector<float> product(kElems), w(kElems);
  for (int step = 0; step < 3; ++step) {
    const void* in[] = {kGradients[step], &kRates[step]};
    void* out[] = {product.data(), w.data()};
    REQUIRE((*session)->run(in, out));
  }
  return w;
}

double norm_of(const float* g) {
  double sum = 0;
  for (size_t i = 0; i < kElems; ++i) sum += double{g[i]} * double{g[i]};
  return std::sqrt(sum);
}

Values sgd(const train::SgdOptions& o, bool matrix) {
  Values w(kStart, kStart + kElems), v(kElems, 0.0);
  for (int step = 0; step < 3; ++step) {
    const double scale = o.clip_norm == 0 ? 1.0 : std::min(1.0, double{o.clip_norm} / norm_of(kGradients[step]));
    for (size_t i = 0; i < kElems; ++i) {
      const double g = double{kGradients[step][i]} * scale + (matrix ? double{o.weight_decay} * w[i] : 0.0);
      v[i] = double{o.momentum} * v[i] + g;
      w[i] -= double{kRates[step]} * (o.nesterov ? g + double{o.momentum} * v[i] : v[i]);
    }
  }
  return w;
}

Values adamw(const train::AdamWOptions& o, bool matrix) {
  Values w(kStart, kStart + kElems), m(kElems, 0.0), v(kElems, 0.0);
  const double b1 = double{o.beta1}, b2 = double{o.beta2};
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < kElems; ++i) {
      const double g = double{kGradients[step][i]};
      m[i] = b1 * m[i] + (1 - b1) * g;
      v[i] = b2 * v[i] + (1 - b2) * g * g;
      const double first = m[i] / (1 - std::pow(b1, step + 1)), second = v[i] / (1 - std::pow(b2, step + 1));
      w[i] -= double{kRates[step]} * (first / (std::sqrt(second) + double{o.epsilon}) + (matrix ? double{o.weight_decay} * w[i] : 0.0));
    }
  }
  return w;
}

void check_close(const std::vector<float>& got, const Values& expected) {
  for (size_t i = 0; i < kElems; ++i) CHECK(double{got[i]} == doctest::Approx(expected[i]).epsilon(2e-5));
}

TEST_CASE("optimizers step as their formulas say, and decay matrices but not vectors") {
  for (const bool matrix : {true, false}) {
    const std::string dims = matrix ? "[2,3]" : "[6]";
    for (const train::SgdOptions& o : std::initializer_list<train::SgdOptions>{
             {.momentum = 0}, {.momentum = 0.9f, .weight_decay = 0.1f}, {.momentum = 0.8f, .nesterov = true}, {.clip_norm = 3}}) {
      Trained t = problem(dims);
      const auto added = train::add_sgd(t.graph, std::span(&t.parameter, 1), t.rate, o);
      REQUIRE_MESSAGE(added, added.error().message);
      check_close(run_steps(t), sgd(o, matrix));
    }
    for (const train::AdamWOptions& o :
         std::initializer_list<train::AdamWOptions>{{}, {.beta1 = 0.8f, .beta2 = 0.9f, .epsilon = 0.01f, .weight_decay = 0.2f}}) {
      Trained t = problem(dims);
      const auto added = train::add_adamw(t.graph, std::span(&t.parameter, 1), t.rate, o);
      REQUIRE_MESSAGE(added, added.error().message);
      check_close(run_steps(t), adamw(o, matrix));
    }
  }
}

TEST_CASE("optimizers name what does not fit") {
  Trained t = problem("[6]");
  const auto message = [](const auto& r) { return r ? std::string() : r.error().message; };
  const train::Parameter input{t.graph.inputs()[0], t.parameter.gradient}, other{t.w, t.rate};
  CHECK(message(train::add_sgd(t.graph, std::span(&input, 1), t.rate, {})) == "'x' is no variable");
  CHECK(message(train::add_sgd(t.graph, std::span(&other, 1), t.rate, {})) == "'w' is f32[6], its gradient is f32[]");
  CHECK(message(train::add_sgd(t.graph, std::span(&t.parameter, 1), t.w, {})) == "'w' is f32[6], must be f32[]");
  CHECK(message(train::add_sgd(t.graph, std::span(&t.parameter, 1), t.rate, {.momentum = 1})) ==
        "momentum is 1.000000, must be at least 0 and below 1");
  CHECK(message(train::add_adamw(t.graph, std::span(&t.parameter, 1), t.rate, {.epsilon = 0})) ==
        "epsilon is 0.000000, must be above 0");
}

}  // namespace
}  // namespace lathe::test
