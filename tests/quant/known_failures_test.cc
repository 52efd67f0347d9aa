// Structures at which other tools failed, as the smallest networks that show it, each with its right behaviour. The list is that of the
// public reports; rows that belong to one part of Lathe are tested there:
//   a histogram that sees 1e-6, then 10               tests/quant/observer_test.cc
//   a bias beyond 32 bits                             tests/quant/observer_test.cc (the grid), here (the network)
//   padding with any zero point, borders of pools     tests/conv/conv_test.cc, tests/kernels/pool_test.cc
//   batch norms that may not be folded                tests/graph/passes/fuse_test.cc
//   one float weight in two layers                    tests/quant/ptq_test.cc, here (one of them transposed)
//   NaN in a data set, or skipped                     tests/tools/cli_test.cc, tests/quant/calibration_set_test.cc
//   interrupted writes                                tests/base/atomic_file_test.cc
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "data/metrics.h"
#include "graph/pass.h"
#include "quant/ptq.h"
#include "runtime/host/cpu.h"
#include "tests/graph/graph_run.h"

using namespace lathe;
using lathe::test::parsed;
using lathe::test::random_f32;

namespace {

using Samples = std::vector<std::vector<float>>;

Graph lowered(const std::string& body) {
  Graph g = parsed(body);
  const auto done = run_passes(g, lowering_passes());
  REQUIRE_MESSAGE(done, done.error().message);
  return g;
}

SampleSource source_of(const Samples& samples) {
  SampleSource source;
  source.count = samples.size();
  source.fill = [&samples](uint64_t i, const std::vector<void*>& inputs) -> Result<void> {
    for (void* to : inputs) std::memcpy(to, samples[i].data(), samples[i].size() * sizeof(float));
    return {};
  };
  return source;
}

Samples random_samples(size_t count, size_t elems, uint32_t seed = 1) {
  Samples samples(count, std::vector<float>(elems));
  for (auto& s : samples)
    for (float& x : s) x = static_cast<float>((seed = seed * 1664525 + 1013904223) >> 8) / (1 << 23) - 1.0f;
  return samples;
}

Calibration calibrated(const Graph& g, const Samples& samples, ObserverKind kind = ObserverKind::kMinMax) {
  CalibrationOptions options;
  options.observer.kind = kind;
  auto c = calibrate(g, source_of(samples), options);
  REQUIRE_MESSAGE(c, c.error().message);
  return std::move(*c);
}

Graph int8_of(const Graph& g, const Samples& samples, const QuantizeOptions& options = {}) {
  auto q = quantize_graph(g, ranges_of(calibrated(g, samples)), options);
  REQUIRE_MESSAGE(q, q.error().message);
  return std::move(q->graph);
}

std::vector<float> output(const Graph& g, const std::vector<float>& sample, size_t port = 0, kernels::IsaSet isa = kernels::kIsaScalar) {
  auto runner = SampleRunner::create(g, {isa, 1});
  REQUIRE_MESSAGE(runner, runner.error().message);
  const Samples one{sample};
  const auto ran = runner->run(source_of(one), 0, [](uint32_t, std::span<float>) {});
  REQUIRE_MESSAGE(ran, ran.error().message);
  const auto values = runner->outputs()[port];
  return {values.begin(), values.end()};
}

double sqnr_of(const Graph& g, const Graph& q, const Samples& samples, size_t port = 0) {
  OutputDifference difference;
  for (const auto& s : samples) difference.add(output(g, s, port), output(q, s, port));
  return difference.sqnr_db();
}

// Levels of this machine.
std::vector<kernels::IsaSet> every_isa() {
  std::vector<kernels::IsaSet> sets;
  for (const kernels::IsaLevel& level : kernels::kIsaLevels)
    if (kernels::covers(*machine_isa() & kernels::built_isa(), level.set)) sets.push_back(level.set);
  return sets;
}

// What this process keeps in memory, in KiB.
uint64_t resident() {
  std::ifstream status("/proc/self/status");
  std::string key;
  uint64_t kib = 0;
  while (status >> key)
    if (key == "VmRSS:" && status >> kib) break;
  return kib;
}

}  // namespace

TEST_CASE("onnxruntime 10503, 11020: calibration of a deep network takes the same memory for any number of samples") {
  std::string body = "input %h0 : f32[N,64]\n" + random_f32("w", {64, 64}, 1, -0.2f, 0.2f);
  for (int i = 0; i < 200; ++i)
    body += "%h" + std::to_string(i + 1) + " = FullyConnected (%h" + std::to_string(i) + ", %w) {lo=0}\n";
  const Graph g = lowered(body + "output %h200\n");
  const Samples samples = random_samples(1000, 64);
  SampleSource source = source_of(samples);
  uint64_t early = 0, late = 0;
  source.on_progress = [&](uint64_t done) {
    if (done == 100) early = resident();
    if (done == 1000) late = resident();
  };
  REQUIRE(calibrate(g, source, {}));
  REQUIRE(early > 0);
  // Keeping what 900 samples make of 200 tensors would take 46 MB.
  CHECK(late < early + 8 * 1024);
}

TEST_CASE("onnxruntime 11928: every method gives the network's output a range") {
  const Graph g = lowered("input %x : f32[N,4,4,2]\n" + random_f32("w", {3, 3, 3, 2}, 1) + random_f32("v", {5, 12}, 2) +
                          "%c = Conv2d (%x, %w)\n%t = Transpose (%c) {perm=[0,3,1,2]}\nconstant %to : s64[2] = [-1,12]\n"
                          "%f = Reshape (%t, %to)\n%y = FullyConnected (%f, %v)\noutput %y\n");
  const Samples samples = random_samples(6, 32);
  for (int kind = 0; kind <= static_cast<int>(ObserverKind::kAuto); ++kind) {
    const RangeTable ranges = ranges_of(calibrated(g, samples, static_cast<ObserverKind>(kind)));
    REQUIRE(ranges.contains("y"));
    CHECK(ranges.at("y").max > ranges.at("y").min);
  }
}

TEST_CASE("onnxruntime 19694, ppq 339: a transposed convolution has a scale for every one of its 64 channels") {
  // Weights lie with the output channel first, whatever the file's order was.
  for (const int groups : {1, 2}) {
    const int in = 4;
    const Graph g = lowered("input %x : f32[N,3,3,4]\n" + random_f32("w", {64, 3, 3, in / groups}, 1) + random_f32("b", {64}, 2) +
                            "%y = ConvTranspose2d (%x, %w, %b) {groups=" + std::to_string(groups) + "}\noutput %y\n");
    const Samples samples = random_samples(4, 36);
    const Graph q = int8_of(g, samples);
    const auto found = std::find_if(q.order().begin(), q.order().end(), [&](NodeId n) { return q.node(n).op == Op::kConvTranspose2d; });
    REQUIRE(found != q.order().end());
    const Node& node = q.node(*found);
    const Quant& quant = *q.value(node.inputs[1]).quant;
    CHECK(quant.scales.size() == 64);
    CHECK(quant.axis == 0);
    CHECK(sqnr_of(g, q, samples) > 35);
  }
}

TEST_CASE("onnxruntime 25890, 21346: a product is right whichever way its weight lies, per channel and per tensor") {
  const std::string x = "input %x : f32[N,6]\n", w = random_f32("w", {6, 4}, 1), wt = random_f32("w", {4, 6}, 1);
  const Samples samples = random_samples(16, 6);
  for (const std::string& body : {x + w + "%y = MatMul \"product\" (%x, %w)\noutput %y\n", x + wt + "%y = FullyConnected \"product\" (%x, %w)\noutput %y\n"})
    for (const bool per_channel : {true, false}) {
      const Graph g = lowered(body);
      const Graph q = int8_of(g, samples, {.per_channel = per_channel});
      const Node& last = *q.producer(q.outputs()[0]);
      CHECK(last.op == Op::kDequantize);
      CHECK(q.producer(last.inputs[0])->name == "product");
      CHECK(sqnr_of(g, q, samples) > 35);
    }
}

TEST_CASE("onnxruntime 21000, tensorflow 33735: a bias that is huge beside its weights is kept, as a vector or a row") {
  for (const char* bias : {"[2]", "[1,2]"}) {
    const Graph g = lowered(std::string("input %x : f32[N,2]\nconstant %w : f32[2,2] = [1e-7,5e-8,-1e-7,2e-8]\nconstant %b : f32") + bias +
                            " = [5,-4.5]\n%p = MatMul (%x, %w)\n%y = Add (%p, %b)\noutput %y\n");
    const Samples samples{{63.5f, -64}, {1, 2}};
    const Graph q = int8_of(g, samples);
    const auto y = output(q, samples[0]);
    CHECK(y[0] == doctest::Approx(5).epsilon(0.01));
    CHECK(y[1] == doctest::Approx(-4.5).epsilon(0.01));
  }
}

TEST_CASE("onnxruntime 9425, 11660: a Relu behind a convolution clips its own branch alone") {
  const Graph g = lowered("input %x : f32[N,1,1,1]\nconstant %w : f32[1,1,1,1] = [1]\nconstant %v : f32[2,1,1,1] = [1,2]\n"
                          "%c = Conv2d (%x, %w)\n%r = Clamp (%c) {lo=0}\n%a = Conv2d (%r, %v)\n%b = Conv2d (%c, %v)\n"
                          "output %a\noutput %b\n");
  const Graph q = int8_of(g, {{-3}, {3}, {5}, {-5}});
  for (const float v : output(q, {-3}, 0)) CHECK(v == 0);
  const auto other = output(q, {-3}, 1);
  CHECK(other[0] == doctest::Approx(-3).epsilon(0.02));
  CHECK(other[1] == doctest::Approx(-6).epsilon(0.02));
  CHECK(output(q, {3}, 0)[1] == doctest::Approx(6).epsilon(0.02));
}

TEST_CASE("onnxruntime 16105, FBGEMM 125: 8-bit products whose pairs exceed 16 bits are exact") {
  // 210 * -81 + 198 * -80 + 234 * 127 = -3132, and no other sum of pairs in between.
  const std::string x = "input %x : f32[N,3]\n%q : s8[N,3] quant(scale=1, zero_point=-128) = Quantize (%x)\n"
                        "constant %w : s8[1,3] quant(scale=1, zero_point=0) = [-81,-80,127]\n";
  const Graph g = parsed(x + "%s : s8[N,1] quant(scale=36, zero_point=0) = FullyConnected (%q, %w)\n%y = Dequantize (%s)\noutput %y\n");
  for (const kernels::IsaSet isa : every_isa()) CHECK(output(g, {210, 198, 234}, 0, isa)[0] == -3132);
}

TEST_CASE("onnxruntime 25045, tract 2850: values half way between two steps go to the even one") {
  const Graph g = parsed("input %x : f32[N,4]\n%q : s8[N,4] quant(scale=0.5, zero_point=0) = Quantize (%x)\n%y = Dequantize (%q)\noutput %y\n");
  for (const kernels::IsaSet isa : every_isa())
    CHECK(output(g, {0.25f, 0.75f, 1.25f, 1.75f}, 0, isa) == std::vector<float>{0, 1, 1, 2});  // steps 0, 2, 2, 4
}

TEST_CASE("ncnn 6819, mace 293: zeros, constants and dead channels have scales, and an empty set is an error") {
  const Graph g = lowered("input %x : f32[N,2]\nconstant %w : f32[2,2] = [0,0,1,-1]\nconstant %v : f32[1,2] = [1,1]\n"
                          "%h = FullyConnected (%x, %w) {lo=0}\n%y = FullyConnected (%h, %v)\noutput %y\n");
  for (const float value : {0.0f, 3.0f}) {
    const Graph q = int8_of(g, {{value, value}, {value, value}});
    for (ValueId v = 0; v < q.value_count(); ++v) {
      if (q.value(v).dead || !q.value(v).quant) continue;
      for (const float s : q.value(v).quant->scales) CHECK((std::isnormal(s) && s > 0));
    }
    CHECK(output(q, {value, value})[0] == 0);
  }
  const auto none = calibrate(g, source_of({}), {});
  REQUIRE_FALSE(none);
  CHECK(none.error().message == "the calibration set is empty");
}

TEST_CASE("aimet 3520: one NaN or infinite sample is an error that names it and the tensor") {
  const Graph g = lowered("input %x : f32[N,2]\nconstant %w : f32[2,2] = [1,2,3,4]\n%y = FullyConnected (%x, %w)\noutput %y\n");
  for (const float bad : {std::nanf(""), INFINITY}) {
    const Samples samples{{1, 2}, {3, 4}, {5, bad}, {6, 7}};
    const auto c = calibrate(g, source_of(samples), {});
    REQUIRE_FALSE(c);
    CHECK(c.error().message == "calibration sample 2: tensor 'x' holds NaN or infinity");
  }
}

TEST_CASE("ncnn 3720, TensorRT 1411: tables do not depend on the order of the samples") {
  const Graph g = lowered("input %x : f32[N,8]\n" + random_f32("w", {8, 8}, 1) + random_f32("v", {4, 8}, 2) +
                          "%h = FullyConnected (%x, %w) {lo=0}\n%y = FullyConnected (%h, %v)\noutput %y\n");
  Samples samples = random_samples(40, 8), shuffled = samples;
  samples[7][3] = shuffled[7][3] = 9;  // something to cut
  std::reverse(shuffled.begin(), shuffled.end());
  std::rotate(shuffled.begin(), shuffled.begin() + 13, shuffled.end());
  for (const ObserverKind kind : kRangeKinds) {
    if (kind == ObserverKind::kMovingAverage) continue;  // follows the order by definition
    const RangeTable a = ranges_of(calibrated(g, samples, kind)), b = ranges_of(calibrated(g, shuffled, kind));
    REQUIRE(a.size() == b.size());
    for (const auto& [name, range] : a) {
      CHECK(range.min == b.at(name).min);
      CHECK(range.max == b.at(name).max);
    }
  }
}

TEST_CASE("onnxruntime 12178, 21476: open dims are calibrated, and a tail that selects boxes stays float") {
  const Graph g = lowered("input %x : f32[batch,4]\n" + random_f32("w", {24, 4}, 1) + random_f32("v", {6, 4}, 2) +
                          "constant %to : s64[3] = [1,6,4]\nconstant %st : s64[3] = [1,1,6]\nconstant %m : s64[1] = [2]\n"
                          "%f = FullyConnected \"boxes\" (%x, %w)\n%b = Reshape (%f, %to)\n%g = FullyConnected \"scores\" (%x, %v)\n"
                          "%s = Reshape (%g, %st)\n%a, %n = NonMaxSuppression \"select\" (%b, %s, %m)\noutput %a\noutput %n\n");
  const auto q = quantize_graph(g, ranges_of(calibrated(g, random_samples(4, 4))), {});
  REQUIRE_MESSAGE(q, q.error().message);
  for (const QuantizeRow& r : q->rows) {
    CAPTURE(r.node);
    if (r.node == "boxes" || r.node == "scores") CHECK(r.int8);
    if (r.node == "select") CHECK(r.reason == "no integer kernel");
  }
}

TEST_CASE("onnxruntime 21277, ppq 568: one weight in two products, one of them transposed, and one bias with two input scales") {
  const Graph g = lowered("input %x : f32[N,4]\n" + random_f32("w", {4, 4}, 1) + "constant %b : f32[4] = [1,-1,0.5,2]\n"
                          "%t = Transpose (%w) {perm=[1,0]}\n%p = MatMul (%x, %w)\n%h = Add (%p, %b)\n%r = MatMul (%h, %t)\n"
                          "%y = Add (%r, %b)\noutput %y\noutput %h\n");
  const Samples samples = random_samples(16, 4);
  const Graph q = int8_of(g, samples);
  CHECK(sqnr_of(g, q, samples, 0) > 35);
  CHECK(sqnr_of(g, q, samples, 1) > 35);
}

TEST_CASE("MNN 2981: a network of several inputs says of every operator whether it is INT8, or why not") {
  const Graph g = lowered("input %x : f32[N,4]\ninput %z : f32[N,4]\n" + random_f32("w", {4, 4}, 1) +
                          "%a = FullyConnected \"a\" (%x, %w)\n%b = FullyConnected \"b\" (%z, %w)\n%s = Add \"s\" (%a, %b)\n"
                          "%c = FullyConnected \"c\" (%s, %w)\n%y = Erf \"y\" (%c)\noutput %y\n");
  const auto q = quantize_graph(g, ranges_of(calibrated(g, random_samples(4, 4))), {});
  REQUIRE_MESSAGE(q, q.error().message);
  CHECK(q->rows.size() == g.order().size());
  for (const QuantizeRow& r : q->rows) CHECK(r.int8 == r.reason.empty());
  CHECK(q->rows.back().reason != "");
}
