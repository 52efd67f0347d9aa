// An imported network becomes one that trains: which constants are variables, what the statistics are after a run, and that a few
// steps of SGD bring the loss down.
#include <doctest/doctest.h>

#include "graph/grad/gradient.h"
#include "graph/grad/training_form.h"
#include "graph/lower/load.h"
#include "runtime/host/cpu.h"
#include "train/losses.h"
#include "train/optimizer.h"

namespace lathe::test {
namespace {

constexpr int kBatch = 8, kPixels = 9;

const char* const kNet = R"(graph {
input %x : f32[8,3,3,1]
input %labels : s32[8]
input %rate : f32[]
constant %w : f32[4,2,2,1] = [0.5, -0.25, 0.75, 0.1, -0.5, 0.3, 0.2, -0.7, 0.4, 0.6, -0.2, 0.1, -0.3, 0.8, -0.6, 0.2]
constant %scale : f32[4] = [1, 0.5, 2, 1]
constant %shift : f32[4] = [0, 0.1, -0.1, 0]
constant %mean : f32[4] = [1, 2, 3, 4]
constant %variance : f32[4] = splat 2
constant %head : f32[2,4] = [0.5, -0.5, 0.25, 0.1, -0.3, 0.2, 0.4, -0.1]
constant %bias : f32[2] = splat 0
constant %half : f32[] = [0.5]
%c = Conv2d (%x, %w)
%n = BatchNorm "norm" (%c, %scale, %shift, %mean, %variance) {axis=3}
%r = Clamp (%n) {lo=0}
%m = Mean (%r) {axes=[1,2], keep_dims=0}
%h = Mul (%m, %half)
%y = FullyConnected (%h, %head, %bias)
output %y
output %c
})";

std::string names_of(const std::vector<Trained>& list) {
  std::string names;
  for (const Trained& t : list) names += t.constant + " ";
  return names;
}

TEST_CASE("a network trains: parameters and statistics are variables, the loss falls") {
  auto graph = parse_graph(kNet);
  REQUIRE_MESSAGE(graph, graph.error().message);
  const auto form = make_training_form(*graph, 0.25f);
  REQUIRE_MESSAGE(form, form.error().message);
  CHECK(names_of(form->parameters) == "w scale shift head bias ");
  CHECK(names_of(form->statistics) == "mean variance ");
  const auto loss = train::cross_entropy(*graph, graph->find_value("y"), graph->find_value("labels"));
  REQUIRE_MESSAGE(loss, loss.error().message);
  std::vector<ValueId> variables;
  for (const Trained& t : form->parameters) variables.push_back(t.variable);
  const auto gradients = add_gradients(*graph, *loss, variables);
  REQUIRE_MESSAGE(gradients, gradients.error().message);
  std::vector<train::Parameter> parameters;
  for (size_t i = 0; i < variables.size(); ++i) parameters.push_back({variables[i], (*gradients)[i]});
  const auto stepped = train::add_sgd(*graph, parameters, graph->find_value("rate"), {.momentum = 0.5f});
  REQUIRE_MESSAGE(stepped, stepped.error().message);
  graph->add_output(*loss);
  for (const Trained& t : form->statistics) graph->add_output(t.variable);
  REQUIRE(verify(*graph));
  auto program = compile_for_host(*graph);
  REQUIRE_MESSAGE(program, program.error().message);
  auto session = HostSession::create(*program, {*machine_isa(), 1});
  REQUIRE(session);
  Shape image, labels;
  image.rank = 4;
  image.dims[0] = kBatch, image.dims[1] = image.dims[2] = 3, image.dims[3] = 1;
  labels.rank = 1;
  labels.dims[0] = kBatch;
  const Shape shapes[] = {image, labels, {}};
  REQUIRE((*session)->bind(shapes));

  std::vector<float> x(kBatch * kPixels), y(kBatch * 2), conv(kBatch * 4 * 4), mean(4), variance(4);
  std::vector<int32_t> classes(kBatch);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7 + i / 9 * 5) % 11) / 5.0f - 1.0f;
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int32_t>(i % 3 == 0);
  const float rate = 0.2f;
  float first = 0, value = 0;
  for (int step = 0; step < 60; ++step) {
    const void* in[] = {x.data(), classes.data(), &rate};
    void* out[] = {y.data(), conv.data(), &value, mean.data(), variance.data()};
    REQUIRE((*session)->run(in, out));
    if (step > 0) continue;
    first = value;
    for (size_t c = 0; c < 4; ++c) {
      double sum = 0, squares = 0;
      const double n = kBatch * 4;
      for (size_t i = c; i < conv.size(); i += 4) sum += double{conv[i]};
      for (size_t i = c; i < conv.size(); i += 4) squares += (double{conv[i]} - sum / n) * (double{conv[i]} - sum / n);
      CHECK(double{mean[c]} == doctest::Approx(0.75 * static_cast<double>(c + 1) + 0.25 * sum / n).epsilon(1e-5));
      CHECK(double{variance[c]} == doctest::Approx(0.75 * 2 + 0.25 * squares / (n - 1)).epsilon(1e-5));
    }
  }
  CHECK(value < 0.5f * first);
}

TEST_CASE("parameters say what they do and how many products make a result") {
  auto graph = parse_graph(R"(graph {
input %i : s64[N,4]
constant %rows : f32[5,6] = splat 1
constant %gain : f32[6] = splat 1
constant %offset : f32[6] = splat 0
constant %right : f32[6,8] = splat 0.5
constant %head : f32[3,8] = splat 0.5
constant %bias : f32[3] = splat 0
%e = Gather (%rows, %i) {axis=0}
%n = LayerNorm (%e, %gain, %offset) {axis=2}
%p = MatMul (%n, %right)
%y = FullyConnected (%p, %head, %bias)
%s = Softmax (%y) {axis=2}
output %s
})");
  REQUIRE_MESSAGE(graph, graph.error().message);
  CHECK(logits_of(*graph, graph->find_value("s")) == graph->find_value("y"));
  CHECK(logits_of(*graph, graph->find_value("y")) == graph->find_value("y"));
  const auto form = make_training_form(*graph);
  REQUIRE_MESSAGE(form, form.error().message);
  using enum ParameterRole;
  const std::vector<std::pair<ParameterRole, int64_t>> expected = {{kTable, 1},  {kScale, 1},  {kBias, 1},
                                                                   {kWeight, 6}, {kWeight, 8}, {kBias, 1}};
  REQUIRE(form->parameters.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(form->parameters[i].role == expected[i].first);
    CHECK(form->parameters[i].fan_in == expected[i].second);
    CHECK_FALSE(form->parameters[i].batch_norm);
  }
  auto net = parse_graph(kNet);
  const auto normed = make_training_form(*net);
  REQUIRE(normed);
  CHECK(normed->parameters[0].fan_in == 4);
  for (const size_t i : {size_t{1}, size_t{2}}) CHECK(normed->parameters[i].batch_norm);
  CHECK(normed->parameters[1].role == ParameterRole::kScale);
  CHECK(normed->parameters[2].role == ParameterRole::kBias);
}

TEST_CASE("constants of Add and Mul are parameters behind others, if they are vectors or tables of positions") {
  auto graph = parse_graph(R"(graph {
input %x : f32[2,4]
constant %mean : f32[4] = [0.1, 0.2, 0.3, 0.4]
constant %w : f32[4,3] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
constant %shift : f32[3] = splat 0
constant %gamma : f32[1,3] = splat 1
constant %half : f32[1] = [0.5]
constant %positions : f32[2,3] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
constant %mask : f32[2,3] = [0, 0, -10000, 0, 0, 0]
constant %seen : f32[2,3] = [0, 0, 1, 0, 1, 0]
constant %rotary : f32[2,3] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
constant %alibi : f32[2,3] = [-0.1, -0.2, -0.3, -0.4, -0.5, -0.6]
%a = Add (%x, %mean)
%b = MatMul (%a, %w)
%c = Add (%shift, %b)
%d = Mul (%c, %gamma)
%e = Mul (%d, %half)
%f = Add (%e, %positions)
%g = Add (%f, %mask)
%h = Add (%g, %seen)
%i = Mul (%h, %rotary)
%j = Add (%i, %alibi)
%y = Softmax (%j) {axis=1}
output %y
})");
  REQUIRE_MESSAGE(graph, graph.error().message);
  const auto form = make_training_form(*graph);
  REQUIRE_MESSAGE(form, form.error().message);
  CHECK(names_of(form->parameters) == "w shift gamma positions ");
}

TEST_CASE("a normalization takes the clamp behind it along, unless somebody else reads between them") {
  const std::string head = "graph {\ninput %x : f32[2,4]\nconstant %s : f32[4] = splat 1\nconstant %b : f32[4] = splat 0\n"
                           "constant %m : f32[4] = splat 0\nconstant %v : f32[4] = splat 1\n"
                           "%n = BatchNorm \"norm\" (%x, %s, %b, %m, %v) {axis=1}\n%y = Clamp (%n) {lo=0, hi=6}\n";
  for (const char* rest : {"output %y\n}", "%z = Add (%n, %y)\noutput %z\n}", "output %y\noutput %n\n}"}) {
    CAPTURE(std::string(rest));
    auto graph = parse_graph(head + rest);
    REQUIRE_MESSAGE(graph, graph.error().message);
    REQUIRE(make_training_form(*graph));
    REQUIRE(verify(*graph));
    const bool alone = std::string(rest) == "output %y\n}";
    bool clamps = false;
    for (const NodeId n : graph->order()) {
      const Node& node = graph->node(n);
      clamps = clamps || node.op == Op::kClamp;
      if (node.op == Op::kBatchNormTrain) CHECK((std::get<BatchNormTrainAttrs>(node.attrs).hi == 6.0f) == alone);
    }
    CHECK(clamps != alone);
  }
}

TEST_CASE("what cannot be trained is said") {
  auto graph = parse_graph("graph {\ninput %x : f32[2]\n%y = Tanh (%x)\noutput %y\n}");
  REQUIRE(graph);
  CHECK(make_training_form(*graph).error().message == "the network has no parameters to train");
  auto quantized =
      parse_graph("graph {\ninput %x : f32[2]\n%q : s8[2] quant(scale=0.5, zero_point=0) = Quantize (%x)\noutput %q\n}");
  REQUIRE_MESSAGE(quantized, quantized.error().message);
  CHECK(make_training_form(*quantized).error().message == "the model is already quantized (tensor 'q'); train the float model");
  CHECK(make_training_form(*graph, 0.0f).error().message == "momentum is 0.000000, must be above 0 and at most 1");
}

}  // namespace
}  // namespace lathe::test
