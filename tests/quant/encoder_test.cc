// A transformer layer from file to integers: the whole way that a user's encoder takes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "graph/import/onnx/import_onnx.h"
#include "graph/lower/load.h"
#include "graph/pass.h"
#include "quant/dynamic.h"
#include "quant/ptq.h"
#include "runtime/host/cpu.h"

using namespace lathe;

namespace {

constexpr size_t kElems = 6 * 16;

Graph encoder() {
  auto g = import_onnx(std::string(LATHE_SOURCE_ROOT) + "/tests/oracle/models/tiny_encoder.onnx");
  REQUIRE_MESSAGE(g, g.error().message);
  REQUIRE(run_passes(*g, lowering_passes()));
  return std::move(*g);
}

std::vector<float> sample(uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> d;
  std::vector<float> v(kElems);
  for (float& x : v) x = d(rng);
  return v;
}

std::vector<float> run(const Graph& graph, kernels::IsaSet isa, uint32_t threads, std::vector<float> x) {
  const auto program = compile_for_host(graph);
  REQUIRE_MESSAGE(program, program.error().message);
  auto session = HostSession::create(*program, {isa, threads});
  REQUIRE_MESSAGE(session, session.error().message);
  const Shape shape{{1, 6, 16}, 3};
  REQUIRE((*session)->bind({&shape, 1}));
  x.resize(kElems + 16);
  std::vector<float> y(kElems);
  const void* in = x.data();
  void* out = y.data();
  REQUIRE((*session)->run({&in, 1}, {&out, 1}));
  return y;
}

RangeTable ranges(const Graph& graph) {
  SampleSource source;
  source.count = 16;
  source.fill = [](uint64_t i, const std::vector<void*>& inputs) -> Result<void> {
    const std::vector<float> x = sample(static_cast<uint32_t>(i));
    std::copy(x.begin(), x.end(), static_cast<float*>(inputs[0]));
    return {};
  };
  const auto c = calibrate(graph, source, {});
  REQUIRE_MESSAGE(c, c.error().message);
  return ranges_of(*c);
}

// In dB, over samples that calibration did not see.
double signal_to_noise(const Graph& a, const Graph& b) {
  const auto isa = machine_isa();
  REQUIRE(isa);
  double signal = 0, noise = 0;
  for (uint32_t seed = 100; seed < 120; ++seed) {
    const std::vector<float> x = run(a, *isa, 1, sample(seed)), y = run(b, *isa, 1, sample(seed));
    for (size_t i = 0; i < kElems; ++i) {
      signal += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      noise += (static_cast<double>(x[i]) - static_cast<double>(y[i])) * (static_cast<double>(x[i]) - static_cast<double>(y[i]));
    }
  }
  return 10 * std::log10(signal / noise);
}

// One result, whatever the instruction set and the number of threads.
void check_equal_everywhere(const Graph& graph) {
  const auto isa = machine_isa();
  REQUIRE(isa);
  const std::vector<float> expected = run(graph, kernels::kIsaScalar, 1, sample(7));
  for (const kernels::IsaLevel& level : kernels::kIsaLevels) {
    if (!kernels::covers(*isa, level.set)) continue;
    CAPTURE(std::string(level.name));
    CHECK(run(graph, level.set, 1, sample(7)) == expected);
    CHECK(run(graph, level.set, 3, sample(7)) == expected);
  }
}

}  // namespace

TEST_CASE("a masked encoder layer keeps its accuracy in integers, all of it, and is equal everywhere") {
  const Graph graph = encoder();
  const auto r = quantize_graph(graph, ranges(graph), {});
  REQUIRE_MESSAGE(r, r.error().message);
  for (const QuantizeRow& row : r->rows) CHECK_MESSAGE(row.int8, row.node << " stays float: " << row.reason);
  const double db = signal_to_noise(graph, r->graph);
  MESSAGE("SQNR " << db << " dB");
  CHECK(db > 28);
  check_equal_everywhere(r->graph);
}

TEST_CASE("an encoder layer that quantizes its activations on the fly keeps its accuracy") {
  const Graph graph = encoder();
  const auto token = quantize_dynamic(graph, {});
  REQUIRE_MESSAGE(token, token.error().message);
  const auto tensor = quantize_dynamic(graph, {.per_token = false});
  REQUIRE_MESSAGE(tensor, tensor.error().message);
  const double by_token = signal_to_noise(graph, token->graph), by_tensor = signal_to_noise(graph, tensor->graph);
  MESSAGE("SQNR " << by_token << " dB per token, " << by_tensor << " dB per tensor");
  CHECK(by_token > 35);
  CHECK(by_tensor > 30);
}
