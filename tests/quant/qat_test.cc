// Fake quantizers: inserted where quantize_graph() quantizes, converted to the same integers, trained between.
#include "quant/qat.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "graph/fake_quant.h"
#include "graph/grad/gradient.h"
#include "graph/grad/training_form.h"
#include "graph/lower/load.h"
#include "graph/op_def.h"
#include "graph/pass.h"
#include "runtime/host/cpu.h"
#include "tests/graph/graph_run.h"
#include "train/losses.h"
#include "train/optimizer.h"

namespace lathe::test {
namespace {

struct Network {
  const char* what;
  std::string body;
};

const std::vector<Network>& networks() {
  static const std::vector<Network> all = {
      {"residual and clamp",
       "input %x : f32[2,6,6,3]\n" + random_f32("w1", {8, 3, 3, 3}, 1) + random_f32("b1", {8}, 2) + random_f32("w2", {8, 3, 3, 8}, 3) +
           random_f32("w3", {4, 8}, 4) + random_f32("b3", {4}, 5) +
           "%a = Conv2d (%x, %w1, %b1) {pad=[1,1,1,1], lo=0}\n%b = Conv2d (%a, %w2, _, %a) {pad=[1,1,1,1], lo=0, hi=6}\n"
           "%m = Mean (%b) {axes=[1,2], keep_dims=0}\n%y = FullyConnected (%m, %w3, %b3)\noutput %y\n"},
      {"squeeze-excite, depthwise, one weight in two layers",
       "input %x : f32[1,6,6,8]\n" + random_f32("wd", {8, 3, 3, 1}, 1) + random_f32("ws", {8, 1, 1, 8}, 3) +
           "%d = Conv2d (%x, %wd) {groups=8, pad=[1,1,1,1], lo=0}\n%m = Mean (%d) {axes=[1,2]}\n%s = Conv2d (%m, %ws)\n"
           "%g = HardSigmoid (%s)\n%e = Mul (%d, %g)\n%p = MaxPool2d (%e) {kernel=[2,2], stride=[2,2]}\n%y = Conv2d (%p, %ws)\noutput %y\n"},
      {"concat, movement, a float head",
       "input %x : f32[1,4,4,4]\n" + random_f32("w1", {4, 1, 1, 4}, 1) + random_f32("w2", {6, 64}, 2) + random_f32("k", {4}, 3) +
           "constant %t : s64[2] = [1, 128]\nconstant %h : s64[2] = [2, 64]\n%a = Conv2d (%x, %w1)\n%b = Add (%x, %k)\n"
           "%c = Concat (%a, %b) {axis=3}\n%r = Reshape (%c, %t)\n%f = Reshape (%r, %h)\n%l = FullyConnected (%f, %w2)\n"
           "%y = Softmax (%l) {axis=1}\noutput %y\noutput %l\n"},
      {"attention",
       "input %x : f32[1,5,8]\n" + random_f32("wq", {8, 8}, 1) + random_f32("wk", {8, 8}, 2) + random_f32("wv", {8, 8}, 3) +
           random_f32("wo", {8, 8}, 4) + random_f32("s", {8}, 5) + random_f32("o", {8}, 6) +
           "%n = LayerNorm (%x, %s, %o) {axis=2}\n%q = FullyConnected (%n, %wq)\n%k = FullyConnected (%n, %wk)\n%v = FullyConnected (%n, %wv)\n"
           "%a = MatMul (%q, %k) {b_perm=[0,2,1], scale=0.35}\n%p = Softmax (%a) {axis=2}\n%c = MatMul (%p, %v)\n"
           "%y = FullyConnected (%c, %wo, _, %x)\noutput %y\n"},
  };
  return all;
}

RangeTable ranges_of_all(const Graph& g, const Range& range = {-1.5, 2.5}) {
  RangeTable ranges;
  for (ValueId v = 0; v < g.value_count(); ++v)
    if (g.value(v).type.dtype == DType::kF32 && g.value(v).kind != ValueKind::kConstant) ranges[g.value(v).name] = range;
  return ranges;
}

std::map<std::string, size_t> op_counts(const Graph& g) {
  std::map<std::string, size_t> counts;
  for (const NodeId n : g.order()) ++counts[op_name(g.node(n).op)];
  return counts;
}

Graph inserted(const Graph& g, const QuantizeOptions& quantize = {}, const Range& range = {-1.5, 2.5}) {
  auto graph = qat::insert(g, ranges_of_all(g, range), quantize);
  REQUIRE_MESSAGE(graph, graph.error().message);
  return *std::move(graph);
}

Graph converted(const Graph& g, const QuantizeOptions& quantize = {}) {
  auto graph = qat::convert(g, quantize);
  REQUIRE_MESSAGE(graph, graph.error().message);
  return std::move(graph->graph);
}

TEST_CASE("what is inserted and not trained converts to what quantization gives, bit for bit") {
  for (const Network& net : networks())
    for (const QuantizeOptions& options : {QuantizeOptions{}, QuantizeOptions{.per_channel = false}, QuantizeOptions{.weight_bits = 4},
                                           QuantizeOptions{.keep_float = {"FullyConnected"}}, QuantizeOptions{.keep_float = {"Mean"}},
                                           QuantizeOptions{.keep_float = {"Add"}}}) {
      CAPTURE(net.what);
      CAPTURE(options.weight_bits);
      const Graph source = parsed(net.body);
      if (!options.keep_float.empty() && !op_counts(source).contains(options.keep_float[0])) continue;
      const auto ptq = quantize_graph(source, ranges_of_all(source), options);
      REQUIRE_MESSAGE(ptq, ptq.error().message);
      const Graph integer = converted(inserted(source, options), options);
      CHECK(op_counts(integer) == op_counts(ptq->graph));
      CHECK(run_graph(integer) == run_graph(ptq->graph));
      for (const NodeId n : source.order()) {
        const auto& order = integer.order();
        CHECK(std::any_of(order.begin(), order.end(), [&](NodeId m) { return integer.node(m).name == source.node(n).name; }));
      }
    }
}

// One op between values on grids: what training computes and what will run.
TEST_CASE("the float forward agrees with the integer form within one step of each op") {
  const std::string x = "input %x : f32[2,5,5,4]\n", r = "input %r : f32[2,5,5,4]\n";
  const std::string ops[] = {
      random_f32("w", {6, 3, 3, 4}, 1) + random_f32("b", {6}, 2) + x + "%y = Conv2d (%x, %w, %b) {pad=[1,1,1,1], lo=0}\n",
      random_f32("w", {4, 3, 3, 1}, 1) + x + "%y = Conv2d (%x, %w) {groups=4, stride=[2,2]}\n",
      random_f32("w", {4, 1, 1, 4}, 1) + x + r + "%y = Conv2d (%x, %w, _, %r) {lo=0}\n",
      random_f32("w", {3, 3, 2, 4}, 1) + x + "%y = ConvTranspose2d (%x, %w) {stride=[2,2]}\n",
      random_f32("w", {7, 4}, 1) + random_f32("b", {7}, 2) + x + "%y = FullyConnected (%x, %w, %b)\n",
      x + r + "%y = MatMul (%x, %r) {b_perm=[0,1,3,2]}\n",
      x + r + "%y = Add (%x, %r)\n",
      x + r + "%y = Mul (%x, %r)\n",
      x + "%y = Mean (%x) {axes=[1,2]}\n",
      x + "%y = AvgPool2d (%x) {kernel=[2,2]}\n",
      x + r + "%y = Concat (%x, %r) {axis=3}\n",
      x + "%y = Sigmoid (%x)\n",
      x + "%y = HardSwish (%x)\n",
      x + "%y = Softmax (%x) {axis=3}\n",
      random_f32("s", {4}, 1) + random_f32("o", {4}, 2) + x + "%y = LayerNorm (%x, %s, %o) {axis=3}\n",
      x + "%y = LeakyRelu (%x) {alpha=0.1}\n",
  };
  for (const std::string& op : ops) {
    CAPTURE(op);
    // What is behind the last op with weights stays float, so there is one more.
    const Graph source = parsed(op + "%z = MatMul (%y, %y) {b_perm=[0,1,3,2]}\noutput %y\noutput %z\n");
    const Graph training = inserted(source), integer = converted(training);
    const auto grid = on_grid(training, training.outputs()[0]);
    REQUIRE(grid);
    const auto a = run_graph(training), b = run_graph(integer);
    REQUIRE(a[0].size() == b[0].size());
    const auto *fa = reinterpret_cast<const float*>(a[0].data()), *fb = reinterpret_cast<const float*>(b[0].data());
    double most = 0;
    for (size_t i = 0; i < a[0].size() / sizeof(float); ++i) most = std::max(most, std::fabs(double{fa[i]} - double{fb[i]}));
    CHECK(most < 1.01 * double{grid->quant.scales[0]});
    size_t borders = 0;
    for (const NodeId n : integer.order()) borders += integer.value(integer.node(n).outputs[0]).type.dtype == DType::kF32;
    CHECK(borders == 2);  // only the Dequantizes of the outputs
  }
}

TEST_CASE("weights of 4 bits are int8 between -7 and 7; other widths than 2 to 8 bits are an error") {
  const Graph source = parsed(networks()[0].body);
  const Graph integer = converted(inserted(source, {.weight_bits = 4}));
  size_t weights = 0;
  for (ValueId v = 0; v < integer.value_count(); ++v) {
    const Value& value = integer.value(v);
    if (value.dead || value.kind != ValueKind::kConstant || value.type.dtype != DType::kS8) continue;
    const auto steps = value.constant.as<int8_t>();
    CHECK(*std::max_element(steps.begin(), steps.end()) <= 7);
    CHECK(*std::min_element(steps.begin(), steps.end()) >= -7);
    CHECK(value.quant->qmax == 7);
    ++weights;
  }
  CHECK(weights == 3);
  for (const int32_t bits : {1, 9})
    CHECK(qat::insert(source, ranges_of_all(source), {.weight_bits = bits}).error().message ==
          "weights of " + std::to_string(bits) + " bits; 2 to 8 are possible");
  CHECK(qat::convert(source, {}).error().message == "the graph has no values on grids; insert fake quantizers first");
}

// Training by hand: cross-entropy of the first output, SGD, one batch again and again.
class Loop {
 public:
  Loop(Graph model, float momentum) : graph_(std::move(model)) {
    const int64_t n = 8;
    const ValueId labels = graph_.add_input("labels", {DType::kS32, {graph_.dims().constant(n)}});
    const ValueId rate = graph_.add_input("rate", {DType::kF32, {}});
    auto form = make_training_form(graph_);
    REQUIRE_MESSAGE(form, form.error().message);
    form_ = *form;
    const auto loss = train::cross_entropy(graph_, graph_.outputs()[0], labels);
    REQUIRE_MESSAGE(loss, loss.error().message);
    std::vector<ValueId> variables;
    for (const Trained& t : form_.parameters) variables.push_back(t.variable);
    const auto gradients = add_gradients(graph_, *loss, variables);
    REQUIRE_MESSAGE(gradients, gradients.error().message);
    std::vector<train::Parameter> parameters;
    for (size_t i = 0; i < variables.size(); ++i) parameters.push_back({variables[i], (*gradients)[i]});
    REQUIRE(train::add_sgd(graph_, parameters, rate, {.momentum = momentum}));
    graph_.add_output(*loss);
    for (const Trained& t : form_.parameters) graph_.add_output(t.variable);
    const auto program = compile_for_host(graph_);
    REQUIRE_MESSAGE(program, program.error().message);
    auto session = HostSession::create(*program, {*machine_isa(), 1});
    REQUIRE(session);
    session_ = *std::move(session);
    Shape image{}, vector{};
    image.rank = 4, vector.rank = 1;
    image.dims[0] = vector.dims[0] = n;
    for (int i = 1; i < 4; ++i) image.dims[i] = i < 3 ? 6 : 3;
    const Shape shapes[] = {image, vector, {}};
    REQUIRE(session_->bind(shapes));
    x_.resize(static_cast<size_t>(n) * 108);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>((i * 7 + i / 108 * 5) % 13) / 6.0f - 1.0f;
    for (int32_t i = 0; i < n; ++i) labels_.push_back(i % 3);
    for (const Trained& t : form_.parameters) {
      size_t elems = 1;
      for (const Dim d : graph_.value(t.variable).type.dims) elems *= static_cast<size_t>(*graph_.dims().value(d));
      parameters_[t.constant].resize(elems);
    }
  }

  float step(float rate) {
    const void* in[] = {x_.data(), labels_.data(), &rate};
    float loss = 0;
    std::vector<float> y(8 * 4);
    std::vector<void*> out = {y.data(), &loss};
    for (const Trained& t : form_.parameters) out.push_back(parameters_[t.constant].data());
    REQUIRE(session_->run(in, out));
    return loss;
  }
  const std::map<std::string, std::vector<float>>& parameters() const { return parameters_; }

  // `model`, as it was given, with what was learned.
  Graph trained(const Graph& model) const {
    Graph graph = model;
    Rewriter rewriter(graph);
    for (const auto& [name, values] : parameters_) {
      const ValueId v = graph.find_value(name);
      rewriter.replace(v, rewriter.constant(graph.fresh_name(name + ":new"), graph.value(v).type, Constant::of(values)));
    }
    rewriter.sweep();
    REQUIRE(rewriter.ok());
    return graph;
  }

 private:
  Graph graph_;
  TrainingForm form_;
  std::unique_ptr<HostSession> session_;
  std::vector<float> x_;
  std::vector<int32_t> labels_;
  std::map<std::string, std::vector<float>> parameters_;
};

std::string trainable_net() {
  std::string body = networks()[0].body;
  return body.replace(body.find("f32[2,6"), 5, "f32[8");
}

TEST_CASE("weights, biases and step factors train; the loss of 3-bit weights falls and the integers keep what was learned") {
  const QuantizeOptions options{.weight_bits = 3};
  const Graph model = inserted(parsed(trainable_net()), options);
  Loop loop(model, 0.5f);
  size_t factors = 0;
  for (const auto& [name, values] : loop.parameters()) factors += name.ends_with(":factor");
  CHECK(factors == 8);  // three weights, x, and four results
  CHECK(loop.parameters().contains("w1"));
  CHECK(loop.parameters().contains("b3"));
  const float first = loop.step(0.02f);
  float last = first;
  for (int i = 0; i < 60; ++i) last = loop.step(0.02f);
  CHECK(last < 0.7f * first);
  double moved = 0;
  for (const auto& [name, values] : loop.parameters())
    if (name.ends_with(":factor"))
      for (const float f : values) moved = std::max(moved, std::fabs(double{f} - 1));
  CHECK(moved > 1e-3);
  const Graph trained = loop.trained(model), integer = converted(trained, options);
  CHECK(relative_difference(run_graph(integer), run_graph(trained)) < 0.06);
  CHECK(relative_difference(run_graph(integer), run_graph(converted(model, options))) > 0.2);
}

TEST_CASE("steps learned at a huge rate stay positive, and nothing becomes NaN") {
  const Graph model = inserted(parsed(trainable_net()));
  Loop loop(model, 0.9f);
  for (const float rate : {1e3f, 1e9f, 1e20f}) CHECK(std::isfinite(loop.step(rate)));
  const Graph trained = loop.trained(model);
  size_t grids = 0;
  for (ValueId v = 0; v < trained.value_count(); ++v) {
    const auto grid = trained.value(v).dead ? std::nullopt : on_grid(trained, v);
    if (!grid) continue;
    ++grids;
    const auto start = on_grid(model, model.find_value(trained.value(v).name));
    REQUIRE(start);
    for (size_t c = 0; c < grid->quant.scales.size(); ++c) {
      CHECK(grid->quant.scales[c] >= start->quant.scales[c] * qat::kLeastFactor);
      CHECK(grid->quant.scales[c] <= start->quant.scales[c] * qat::kLargestFactor);
    }
  }
  CHECK(grids == 8);
}

TEST_CASE("a stand-alone batch normalization is in eval mode: its stored statistics, before and after training") {
  const std::string body = "input %x : f32[8,6,6,3]\n" + random_f32("w1", {4, 3, 3, 3}, 1, -0.1f, 0.1f) + random_f32("w2", {4, 1, 1, 4}, 2) +
                           random_f32("w3", {4, 4}, 3) + random_f32("s", {4}, 4, 0.5f, 1.5f) + random_f32("b", {4}, 5) + random_f32("m", {4}, 6) +
                           random_f32("v", {4}, 7, 0.5f, 1.5f) +
                           "%c = Conv2d (%x, %w1)\n%n = BatchNorm (%c, %s, %b, %m, %v) {axis=3}\n%d = Conv2d (%c, %w2)\n%a = Add (%n, %d)\n"
                           "%p = Mean (%a) {axes=[1,2], keep_dims=0}\n%y = FullyConnected (%p, %w3)\noutput %y\n";
  const Graph source = parsed(body);
  Graph lowered = source;
  REQUIRE(run_passes(lowered, lowering_passes()));
  const Graph model = inserted(lowered, {}, {-4, 4});
  CHECK(!op_counts(model).contains("BatchNorm"));
  CHECK(relative_difference(run_graph(converted(model)), run_graph(source)) < 0.1);
  Loop loop(model, 0.0f);
  CHECK(!loop.parameters().contains("m"));
  for (int i = 0; i < 3; ++i) CHECK(std::isfinite(loop.step(0.0f)));
  CHECK(run_graph(converted(loop.trained(model))) == run_graph(converted(model)));
}

}  // namespace
}  // namespace lathe::test
