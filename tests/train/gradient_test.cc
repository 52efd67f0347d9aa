// One table: every rule of graph/grad/rules.inc against finite differences, through the lowering passes and the executor, on this
// machine's kernels.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <set>

#include "graph/grad/emit.h"
#include "graph/grad/gradient.h"
#include "runtime/host/cpu.h"
#include "tests/train/finite_difference.h"

namespace lathe::test {
namespace {

struct GradCase {
  const char* op;
  const char* body;  // makes %y
  Range range = {};
};

constexpr Range kPositive{0.5f, 3.0f};

const GradCase kCases[] = {
#include "tests/train/gradient_cases.inc"
};

// sum of y * r for random r (the cotangent), so that every element of dy is its own. The terms are the products.
std::string check_case(const GradCase& c) {
  auto graph = parse_graph("graph {\n" + std::string(c.body) + "\noutput %y\n}");
  if (!graph) return graph.error().message;
  const ValueId y = graph->find_value("y");
  std::mt19937 random(7);
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  std::vector<float> weights(input_shape(*graph, y).elems());
  for (float& w : weights) w = value(random);
  TensorType type = graph->value(y).type;
  for (size_t i = 0; i < type.dims.size(); ++i) type.dims[i] = graph->dims().constant(input_shape(*graph, y)[i]);
  const ValueId r = graph->add_constant("cotangent", type, Constant::of(weights));
  grad::Emitter e(*graph, "loss");
  const ValueId terms = e.mul(y, r);
  const ValueId loss = e.node(Op::kReduceSum, ReduceAttrs{grad::axes_from(0, e.rank(y)), 0}, {terms});
  if (!e.ok()) return e.ok().error().message;
  return check_gradients(std::move(*graph), terms, loss, c.range);
}

TEST_CASE("gradients agree with finite differences") {
  for (const GradCase& c : kCases) {
    CAPTURE(std::string(c.body));
    CHECK(check_case(c) == "");
  }
}

TEST_CASE("every rule has a case") {
  std::set<std::string> tested;
  for (const GradCase& c : kCases) tested.insert(c.op);
  for (const char* op : {"FakeQuant", "StepSize"}) tested.insert(op);  // estimates, no derivatives: fake_quant_test.cc
  for (const char* op : {
#define GRAD_RULE(name, rule) #name,
#include "graph/grad/rules.inc"
#undef GRAD_RULE
       })
    CHECK_MESSAGE(tested.contains(op), op, " has no case");
}

std::string error_of(const std::string& body) {
  auto graph = parse_graph("graph {\n" + body + "\noutput %y\n}");
  REQUIRE_MESSAGE(graph, graph.error().message);
  const ValueId of[] = {graph->inputs()[0]};
  const auto gradients = add_gradients(*graph, graph->find_value("y"), of);
  return gradients ? "" : gradients.error().message;
}

TEST_CASE("gradients do not depend on threads, and little on the instruction set") {
  auto graph = parse_graph(R"(graph {
input %x : f32[5,13,11,20]
input %w : f32[70,3,3,20]
input %s : f32[70]
input %b : f32[70]
%c = Conv2d (%x, %w) {pad=[1,1,1,1], stride=[2,1]}
%n, %m, %v = BatchNormTrain (%c, %s, %b) {axis=3}
%r = Clamp (%n) {lo=0}
%p = MaxPool2d (%r) {kernel=[3,3], stride=[2,2], pad=[1,1,1,1]}
%a = AvgPool2d (%p) {kernel=[2,2]}
%y = ReduceSum (%a) {axes=[0,1,2,3], keep_dims=0}
output %y
})");
  REQUIRE_MESSAGE(graph, graph.error().message);
  const auto gradients = add_gradients(*graph, graph->find_value("y"), graph->inputs());
  REQUIRE_MESSAGE(gradients, gradients.error().message);
  for (const ValueId v : *gradients) graph->add_output(v);
  const auto one = run_on_range(*graph, {}, *machine_isa(), 1), several = run_on_range(*graph, {}, *machine_isa(), 3),
             scalar = run_on_range(*graph, {}, kernels::kIsaScalar, 1);
  REQUIRE_MESSAGE(one, one.error().message);
  REQUIRE_MESSAGE(several, several.error().message);
  REQUIRE_MESSAGE(scalar, scalar.error().message);
  CHECK(*one == *several);
  for (size_t i = 0; i < one->size(); ++i) {
    double difference = 0, largest = 0;
    for (size_t k = 0; k < (*one)[i].size(); ++k) {
      difference = std::max(difference, std::abs(double{(*one)[i][k]} - double{(*scalar)[i][k]}));
      largest = std::max(largest, std::abs(double{(*one)[i][k]}));
    }
    CHECK(difference < 2e-4 * largest + 1e-5);
  }
}

TEST_CASE("what has no gradient is an error that names it") {
  CHECK(error_of("input %x : f32[3,3]\n%y = Det \"d\" (%x)") == "Det 'd': this op has no gradient");
  CHECK(error_of("input %x : f32[3]\n%y = Add (%x, %x)") == "loss 'y' is f32[3], must be one f32");
  CHECK(error_of("input %x : s32[1]\n%y = Cast (%x)").find("'x' is s32") != std::string::npos);
  CHECK(error_of("input %x : f32[1]\nvariable %v : f32[1] = [2]\n%m = Mul (%x, %v)\nAssign \"a\" (%v, %m)\n%y = Mul \"n\" (%m, %v)") ==
        "Mul 'n': reads variable 'v', which the graph assigns");
  CHECK(error_of("input %x : f32[3,3]\n%y = Einsum \"e\" (%x) {a=[0,0], b=[], y=[]}") == "Einsum 'e': its gradient of a diagonal is not there");
}

TEST_CASE("a value that the loss does not depend on has no gradient") {
  auto graph = parse_graph("graph {\ninput %x : f32[2]\ninput %z : f32[2]\n%y = ReduceSum (%x) {axes=[0], keep_dims=0}\noutput %y\n}");
  REQUIRE(graph);
  const auto gradients = add_gradients(*graph, graph->find_value("y"), graph->inputs());
  REQUIRE(gradients);
  CHECK((*gradients)[0] != kNoId);
  CHECK((*gradients)[1] == kNoId);
}

}  // namespace
}  // namespace lathe::test
