// The trainer: a tiny network learns, the same steps give the same bits, its state comes back to the bit, averages are what they
// say, and what goes wrong is named.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "runtime/host/cpu.h"
#include "train/trainer.h"

namespace lathe::test {
namespace {

using train::StepData;
using train::Trainer;
using train::TrainerOptions;

constexpr size_t kBatch = 8, kPixels = 9, kClasses = 3;

// A convolution, batch normalization and a layer for three classes; the batch is open.
const char* const kNet = R"(graph {
input %x : f32[N,3,3,1]
constant %w : f32[4,2,2,1] = [0.5, -0.25, 0.75, 0.1, -0.5, 0.3, 0.2, -0.7, 0.4, 0.6, -0.2, 0.1, -0.3, 0.8, -0.6, 0.2]
constant %scale : f32[4] = [1, 0.5, 2, 1]
constant %shift : f32[4] = [0, 0.1, -0.1, 0]
constant %mean : f32[4] = [1, 2, 3, 4]
constant %variance : f32[4] = splat 2
constant %head : f32[3,4] = [0.5, -0.5, 0.25, 0.1, -0.3, 0.2, 0.4, -0.1, 0.1, 0.3, -0.2, 0.6]
constant %bias : f32[3] = splat 0
%c = Conv2d "conv" (%x, %w)
%n = BatchNorm "norm" (%c, %scale, %shift, %mean, %variance) {axis=3}
%r = Clamp (%n) {lo=0}
%m = Mean (%r) {axes=[1,2], keep_dims=0}
%y = FullyConnected (%m, %head, %bias)
%p = Softmax (%y) {axis=1}
output %p
})";

const char* const kLine =
    "graph {\ninput %x : f32[N,2]\nconstant %w : f32[1,2] = [0, 0]\n%y = FullyConnected (%x, %w)\noutput %y\n}";

Graph net(const char* text = kNet) {
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph, graph.error().message);
  return std::move(*graph);
}

// Batch `index` of an endless set: three patterns with something added.
struct Batch {
  explicit Batch(size_t index) : x(kBatch * kPixels), labels(kBatch), other(kBatch), mix(kBatch), teacher(kBatch * kClasses) {
    for (size_t i = 0; i < kBatch; ++i) {
      const size_t sample = index * kBatch + i;
      labels[i] = static_cast<int32_t>(sample % kClasses);
      other[i] = static_cast<int32_t>((sample / 2) % kClasses);
      mix[i] = 0.25f + 0.125f * static_cast<float>(sample % 4);
      for (size_t k = 0; k < kPixels; ++k)
        x[i * kPixels + k] =
            (k % kClasses == sample % kClasses ? 1.0f : -0.5f) + static_cast<float>((sample * 7 + k * 5) % 11) / 20.0f;
      for (size_t c = 0; c < kClasses; ++c) teacher[i * kClasses + c] = c == sample % kClasses ? 2.0f : -1.0f;
    }
  }
  StepData data() const {
    Shape shape;
    shape.rank = 4;
    shape.dims[0] = kBatch, shape.dims[1] = shape.dims[2] = 3, shape.dims[3] = 1;
    return {.inputs = {x.data()}, .shapes = {shape}, .labels = labels, .mixed_labels = other, .mix = mix, .teacher = teacher};
  }
  std::vector<float> x;
  std::vector<int32_t> labels, other;
  std::vector<float> mix, teacher;
};

Trainer make(const Graph& graph, const TrainerOptions& options, uint32_t threads = 1) {
  auto trainer = Trainer::create(graph, options, {*machine_isa(), threads});
  REQUIRE_MESSAGE(trainer, trainer.error().message);
  return std::move(*trainer);
}

float step(Trainer& trainer, size_t index, float rate = 0.1f) {
  const Batch batch(index);
  const auto loss = trainer.step(batch.data(), rate);
  REQUIRE_MESSAGE(loss, loss.error().message);
  return *loss;
}

std::string error_of(const Graph& graph, const TrainerOptions& options) {
  const auto trainer = Trainer::create(graph, options, {*machine_isa(), 1});
  REQUIRE_FALSE(trainer);
  return trainer.error().message;
}

std::vector<float> constant_of(const Graph& graph, const char* name) {
  const auto values = graph.value(graph.find_value(name)).constant.as<float>();
  return {values.begin(), values.end()};
}

TrainerOptions everything() {
  TrainerOptions o;
  o.smoothing = 0.1f;
  o.mixup = true;
  o.teacher = train::Distillation{.alpha = 0.5f, .temperature = 2.0f};
  o.optimizer = train::Optimizer::kAdamW;
  o.adamw.clip_norm = 1;
  o.sparsity = 1e-3f;
  o.average = 0.9f;
  return o;
}

bool same_state(const Trainer& a, const Trainer& b) {
  const auto x = a.state(), y = b.state();
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i].name != y[i].name || x[i].tensor.dims != y[i].tensor.dims || x[i].tensor.bytes != y[i].tensor.bytes) return false;
  return x.size() == y.size() && x.size() > 1;
}

TEST_CASE("a tiny network learns, and the model comes back with other constants only") {
  const Graph model = net();
  for (const train::Optimizer optimizer : {train::Optimizer::kSgd, train::Optimizer::kAdamW}) {
    TrainerOptions o;
    o.optimizer = optimizer;
    Trainer trainer = make(model, o);
    const float first = step(trainer, 0, 0.05f);
    float last = first;
    for (size_t i = 1; i < 60; ++i) last = step(trainer, i, 0.05f);
    CHECK(last < 0.3f * first);
    CHECK(trainer.steps() == 60);
    const auto trained = trainer.trained();
    REQUIRE_MESSAGE(trained, trained.error().message);
    CHECK(verify(*trained));
    for (const char* name : {"w", "scale", "shift", "mean", "variance", "head", "bias"})
      CHECK_MESSAGE(constant_of(*trained, name) != constant_of(model, name), name);
    CHECK(trained->order().size() == model.order().size());
  }
}

TEST_CASE("the same steps give the same bits with other threads, and after a restored state") {
  const Graph model = net();
  Trainer whole = make(model, everything()), threaded = make(model, everything(), 3), first = make(model, everything());
  for (size_t i = 0; i < 6; ++i) CHECK(step(whole, i) == step(threaded, i));
  CHECK(same_state(whole, threaded));
  for (size_t i = 0; i < 3; ++i) step(first, i);
  Trainer second = make(model, everything());
  const auto restored = second.restore(first.state());
  REQUIRE_MESSAGE(restored, restored.error().message);
  for (size_t i = 3; i < 6; ++i) step(second, i);
  CHECK(same_state(whole, second));
  second.reset();
  CHECK(same_state(second, make(model, everything())));
  CHECK(step(second, 0) == step(first = make(model, everything()), 0));
}

TEST_CASE("a state of another training is refused") {
  const Graph model = net();
  Trainer plain = make(model, {}), averaged = make(model, everything());
  CHECK(plain.restore(averaged.state()).error().message.find("tensors, this training has") != std::string::npos);
  auto state = plain.state();
  state[1].name = "other";
  CHECK(plain.restore(state).error().message.find("the state holds 'other' of") != std::string::npos);
  state.erase(state.begin());
  state.push_back(state.back());
  CHECK(plain.restore(state).error().message == "the state does not begin with a number of steps");
}

TEST_CASE("averages follow their formula, statistics too") {
  const Graph model = net();
  TrainerOptions o;
  o.average = 0.5f;
  Trainer trainer = make(model, o);
  const char* const names[] = {"w", "bias", "mean", "variance"};
  std::vector<std::vector<double>> average;
  for (const char* name : names) {
    const auto start = constant_of(model, name);
    average.emplace_back(start.begin(), start.end());
  }
  for (size_t t = 0; t < 8; ++t) {
    step(trainer, t);
    const double decay = std::min(0.5, (1.0 + static_cast<double>(t)) / (10.0 + static_cast<double>(t)));
    const auto raw = trainer.trained(false), averaged = trainer.trained();
    REQUIRE(raw);
    REQUIRE(averaged);
    for (size_t k = 0; k < std::size(names); ++k) {
      const auto value = constant_of(*raw, names[k]), got = constant_of(*averaged, names[k]);
      for (size_t i = 0; i < value.size(); ++i) {
        average[k][i] = decay * average[k][i] + (1 - decay) * double{value[i]};
        CHECK(double{got[i]} == doctest::Approx(average[k][i]).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("sparsity shrinks the scales of batch normalizations and nothing else") {
  const Graph model = net();
  TrainerOptions plain, sparse;
  plain.sgd.momentum = sparse.sgd.momentum = 0;
  sparse.sparsity = 0.01f;
  Trainer a = make(model, plain), b = make(model, sparse);
  CHECK(step(a, 0) == step(b, 0));
  const auto x = a.trained(), y = b.trained();
  for (const char* name : {"w", "shift", "head", "bias"}) CHECK(constant_of(*x, name) == constant_of(*y, name));
  const auto without = constant_of(*x, "scale"), with = constant_of(*y, "scale");
  for (size_t i = 0; i < without.size(); ++i) CHECK(without[i] - with[i] == doctest::Approx(0.001).epsilon(1e-3));
}

TEST_CASE("fixed parameters stay, and gradients change nothing") {
  const Graph model = net();
  TrainerOptions o;
  o.fixed = {"w", "bias"};
  o.sgd.momentum = 0;
  Trainer trainer = make(model, o);
  CHECK(trainer.parameters() == std::vector<std::string>{"scale", "shift", "head"});
  step(trainer, 0);
  const Batch batch(1);
  const auto before = trainer.trained();
  const auto gradients = trainer.gradients(batch.data());
  REQUIRE_MESSAGE(gradients, gradients.error().message);
  REQUIRE(gradients->size() == 3);
  const auto between = trainer.trained();
  step(trainer, 1);
  const auto after = trainer.trained();
  for (const train::ParameterGradient& g : *gradients) {
    const auto v = constant_of(*before, g.constant.c_str()), w = constant_of(*after, g.constant.c_str());
    CHECK(v == constant_of(*between, g.constant.c_str()));
    for (size_t i = 0; i < v.size(); ++i) {
      CHECK(v[i] == g.value[i]);
      CHECK(double{v[i]} - double{w[i]} == doctest::Approx(0.1 * double{g.gradient[i]}).epsilon(1e-3).scale(1e-3));
    }
  }
  CHECK(constant_of(*after, "w") == constant_of(model, "w"));
  CHECK(constant_of(*after, "bias") == constant_of(model, "bias"));
}

TEST_CASE("a step that ends in NaN or infinity names step and tensor, and leaves the state") {
  const Graph model = net();
  Trainer trainer = make(model, {}), twin = make(model, {});
  step(trainer, 0), step(twin, 0);
  Batch bad(1);
  bad.x[5] = std::nanf("");
  CHECK(trainer.step(bad.data(), 0.1f).error().message ==
        "step 2: the loss is nan; the first tensor that is not finite is input 'x'");
  CHECK(trainer.diverged());
  CHECK(same_state(trainer, twin));
  CHECK(step(trainer, 1) == step(twin, 1));
  CHECK_FALSE(trainer.diverged());
  CHECK(same_state(trainer, twin));
  // exp overflows in the network itself
  Trainer overflow =
      make(net("graph {\ninput %x : f32[N,2]\nconstant %w : f32[2,2] = [100, 0, 0, 100]\n%h = FullyConnected \"first\" "
               "(%x, %w)\n%e = Exp \"blow\" (%h)\noutput %e\n}"),
           {});
  const std::vector<float> x = {1, 2};
  const std::vector<int32_t> labels = {0};
  Shape shape;
  shape.rank = 2, shape.dims[0] = 1, shape.dims[1] = 2;
  CHECK(overflow.step({.inputs = {x.data()}, .shapes = {shape}, .labels = labels}, 0.1f).error().message.find("Exp 'blow'") !=
        std::string::npos);
  // the loss is finite, its gradient is not
  TrainerOptions o;
  o.loss = train::Loss::kMeanSquared;
  Trainer steep = make(net(kLine), o);
  const std::vector<float> far = {1e30f, 0}, target = {1e10f};
  const auto broken = steep.step({.inputs = {far.data()}, .shapes = {shape}, .targets = target}, 0.1f);
  REQUIRE_FALSE(broken);
  CHECK(broken.error().message.find(
            "step 1: 'w' becomes NaN or infinite; the first tensor that is not finite is the result of ") == 0);
}

TEST_CASE("losses of other forms: targets, tokens, logits with axes of one") {
  TrainerOptions o;
  o.loss = train::Loss::kMeanSquared;
  Trainer line = make(net(kLine), o);
  const std::vector<float> x = {1, 0, 0, 1, 1, 1}, y = {2, -1, 1};
  Shape shape;
  shape.rank = 2, shape.dims[0] = 3, shape.dims[1] = 2;
  for (int i = 0; i < 200; ++i) REQUIRE(line.step({.inputs = {x.data()}, .shapes = {shape}, .targets = y}, 0.05f));
  const auto w = constant_of(*line.trained(), "w");
  CHECK(w[0] == doctest::Approx(2).epsilon(1e-3));
  CHECK(w[1] == doctest::Approx(-1).epsilon(1e-3));

  o.loss = train::Loss::kTokens;
  const char* const words =
      "graph {\ninput %x : s32[N,4]\nconstant %t : f32[3,3] = [0, 0, 0, 0, 0, 0, 0, 0, 0]\n%y = Gather (%t, %x) {axis=0}\n"
      "output %y\n}";
  Trainer tokens = make(net(words), o);
  const std::vector<int32_t> ids = {0, 1, 2, 0, 1, 2, 0, 1}, next = {1, 2, 0, 1, 2, 0, 1, 2};
  shape.dims[0] = 2, shape.dims[1] = 4;
  float loss = 0;
  for (int i = 0; i < 100; ++i) {
    const auto done = tokens.step({.inputs = {ids.data()}, .shapes = {shape}, .labels = next}, 0.5f);
    REQUIRE_MESSAGE(done, done.error().message);
    loss = *done;
  }
  CHECK(loss < 0.05f);

  o.loss = train::Loss::kCrossEntropy;
  const char* const pixel =
      "graph {\ninput %x : f32[N,1,1,2]\nconstant %w : f32[3,1,1,2] = splat 0.5\n%y = Conv2d (%x, %w)\noutput %y\n}";
  Trainer pixels = make(net(pixel), o);
  Shape image;
  image.rank = 4, image.dims[0] = 3, image.dims[1] = image.dims[2] = 1, image.dims[3] = 2;
  const std::vector<int32_t> labels = {0, 1, 2};
  const auto done = pixels.step({.inputs = {x.data()}, .shapes = {image}, .labels = labels}, 0.1f);
  REQUIRE_MESSAGE(done, done.error().message);
  CHECK(*done == doctest::Approx(std::log(3.0)));
}

TEST_CASE("what cannot be trained, and data that does not fit, is said") {
  const Graph model = net();
  TrainerOptions o;
  o.fixed = {"nothing"};
  CHECK(error_of(model, o) == "'nothing', which is to stay fixed, is no parameter of the network");
  o.fixed = {"w", "scale", "shift", "head", "bias"};
  CHECK(error_of(model, o) == "the loss depends on no parameter that may change");
  o = {};
  o.average = 1;
  CHECK(error_of(model, o) == "the decay of averages is 1.000000, must be at least 0 and below 1");
  o = {};
  o.sparsity = -1;
  CHECK(error_of(model, o) == "sparsity is -1.000000, must be at least 0");
  o = {};
  o.loss = train::Loss::kMeanSquared;
  o.mixup = true;
  CHECK(error_of(model, o) == "a teacher, mixup and label smoothing are for classes, not for a mean squared error");
  o.loss = train::Loss::kTokens;
  CHECK(error_of(model, o) == "mixup is for one class per sample, not for tokens");

  Trainer trainer = make(model, {});
  Batch batch(0);
  StepData data = batch.data();
  data.labels = std::span(batch.labels).first(3);
  CHECK(trainer.step(data, 0.1f).error().message.find("'labels'") != std::string::npos);
  batch.labels[2] = 3;
  CHECK(trainer.step(batch.data(), 0.1f).error().message == "label 2 of the batch is 3, the network has 3 classes");
  data = batch.data();
  data.inputs.clear();
  CHECK(trainer.step(data, 0.1f).error().message == "the network has 1 inputs, the batch 0");
}

}  // namespace
}  // namespace lathe::test
