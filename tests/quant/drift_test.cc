// Drift: what is counted while a network runs, and that sampling noise is not taken for a change.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "graph/lower/load.h"
#include "quant/drift.h"
#include "quant/observed.h"
#include "quant/ptq.h"
#include "runtime/host/cpu.h"
#include "tests/graph/graph_run.h"

using namespace lathe;
using lathe::test::parsed;
using lathe::test::random_f32;

namespace {

constexpr size_t kElems = 64;

// A picture with a brightness and a contrast of its own: its elements say little of other pictures.
std::vector<float> picture(uint64_t seed, float gain = 1) {
  auto state = static_cast<uint32_t>(seed * 2654435761u + 12345);
  const auto next = [&] {
    state = state * 1664525 + 1013904223;
    return static_cast<float>(state >> 8) / (1 << 24);
  };
  for (int i = 0; i < 4; ++i) next();
  const float brightness = next(), contrast = 0.2f + 0.8f * next();
  std::vector<float> x(kElems);
  for (float& v : x) v = gain * (brightness + contrast * (next() + next() - 1));
  return x;
}

SampleSource pictures(const std::vector<uint64_t>& seeds, float gain = 1) {
  SampleSource source;
  source.count = seeds.size();
  source.fill = [=](uint64_t i, const std::vector<void*>& inputs) -> Result<void> {
    const std::vector<float> x = picture(seeds[i], gain);
    std::memcpy(inputs[0], x.data(), x.size() * sizeof(float));
    return {};
  };
  return source;
}

Graph network() {
  return parsed("input %x : f32[1,4,4,4]\n" + random_f32("w", {8, 3, 3, 4}, 1) + random_f32("v", {5, 1, 1, 8}, 2) +
                "%h = Conv2d \"first\" (%x, %w) {lo=0, pad=[1,1,1,1]}\n%y = Conv2d \"second\" (%h, %v)\noutput %y\n");
}

struct Counted {
  std::vector<LiveTensor> tensors;
  uint64_t runs = 0;
};

Counted count(const Graph& g, const std::vector<ObservedValue>& observed, const SampleSource& source, uint32_t every = 1,
              kernels::IsaSet isa = kernels::kIsaScalar) {
  const auto program = compile_for_host(g);
  REQUIRE_MESSAGE(program, program.error().message);
  auto session = HostSession::create(*program, {isa, 1});
  REQUIRE_MESSAGE(session, session.error().message);
  const Shape shape{{1, 4, 4, 4}, 4};
  REQUIRE((*session)->bind({&shape, 1}));
  LiveCounts counts(**session, **program, live_marks(g, **program, observed), every, 1000);
  (*session)->set_hook(counts.hook());
  std::vector<float> x(kElems + 16), y(16 * 5 + 16);
  const void* in = x.data();
  void* out = y.data();
  for (uint64_t i = 0; i < source.count; ++i) {
    REQUIRE(source.fill(i, {x.data()}));
    REQUIRE((*session)->run({&in, 1}, {&out, 1}));
  }
  return {counts.tensors(), source.count};
}

std::vector<ObservedValue> calibration(const Graph& g, const SampleSource& source) {
  const auto c = calibrate(g, source, {});
  REQUIRE_MESSAGE(c, c.error().message);
  return observed_values(*c);
}

std::vector<uint64_t> seeds(uint64_t from, uint64_t count) {
  std::vector<uint64_t> out(count);
  std::iota(out.begin(), out.end(), from);
  return out;
}

size_t drifted(const std::vector<TensorDrift>& all) {
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), [](const TensorDrift& d) { return d.drifted(); }));
}

}  // namespace

TEST_CASE("bins become at most ten groups that hold everything once") {
  ObservedValue v{"x", -1, 3, std::vector<uint16_t>(64, 100), "minmax"};
  const CalibratedGroups even = calibrated_groups(v);
  CHECK(even.shares.size() <= 10);
  CHECK(even.shares.size() >= 9);
  CHECK(std::accumulate(even.shares.begin(), even.shares.end(), 0.0) == doctest::Approx(1));
  CHECK(even.edges.size() + 1 == even.shares.size());
  CHECK(even.edges[0] == doctest::Approx(-1 + 4.0 / 64 * 7));
  v.bins.assign(64, 0);
  v.bins[0] = 65535;  // a ReLU's zeros
  const CalibratedGroups one = calibrated_groups(v);
  CHECK(std::accumulate(one.shares.begin(), one.shares.end(), 0.0) == doctest::Approx(1));
  CHECK(one.low_end == 1);
}

TEST_CASE("counts are those of the values, in float and in 8 bits, however these are stored") {
  const Graph g = network();
  const SampleSource source = pictures(seeds(1, 20));
  const auto observed = calibration(g, source);
  const auto q = quantize_graph(g, ranges_of(observed), {});
  REQUIRE_MESSAGE(q, q.error().message);
  for (const kernels::IsaSet isa : {kernels::kIsaScalar, *machine_isa()}) {
    const Counted real = count(g, observed, source, 1, isa), integer = count(q->graph, observed, source, 1, isa);
    REQUIRE(real.tensors.size() == 3);  // the input and two results
    REQUIRE(integer.tensors.size() == 3);
    for (size_t t = 0; t < 3; ++t) {
      CHECK(real.tensors[t].samples == 20);
      CHECK(integer.tensors[t].samples == 20);
      const auto seen = std::find_if(observed.begin(), observed.end(), [&](const ObservedValue& v) { return v.name == real.tensors[t].name; });
      REQUIRE(seen != observed.end());
      const CalibratedGroups groups = calibrated_groups(*seen);  // of these samples
      CHECK(real.tensors[t].below / 20 == doctest::Approx(groups.low_end).epsilon(0.02));
      CHECK(real.tensors[t].above / 20 == doctest::Approx(groups.high_end).epsilon(0.02));
      double total = 0, apart = 0;
      for (size_t k = 0; k < real.tensors[t].share.size(); ++k) {
        total += real.tensors[t].share[k];
        apart += std::fabs(real.tensors[t].share[k] - integer.tensors[t].share[k]);
      }
      CHECK(total == doctest::Approx(20));
      CHECK(apart < 0.1 * 20);  // a step is a quarter of a bin
    }
  }
  CHECK(count(g, observed, source, 4).tensors[0].samples == 5);
}

TEST_CASE("a part of the elements stands for all channels, and is no more than was asked for") {
  // Channel 2 alone is above the edge.
  const Graph g = parsed("input %x : f32[1,32,32,3]\n" + random_f32("w", {2, 1, 1, 3}, 1) + "%y = Conv2d \"only\" (%x, %w)\noutput %y\n");
  const auto program = compile_for_host(g);
  REQUIRE(program);
  auto session = HostSession::create(*program, {});
  REQUIRE(session);
  const Shape shape{{1, 32, 32, 3}, 4};
  REQUIRE((*session)->bind({&shape, 1}));
  std::vector<float> x(32 * 32 * 3 + 16), y(32 * 32 * 2 + 16);
  for (size_t i = 2; i < 32 * 32 * 3; i += 3) x[i] = 1;
  std::vector<ObservedValue> observed{{"x", 0, 1, std::vector<uint16_t>(64, 100), "minmax"}};
  for (const uint32_t most : {100u, 1000u, 1024u, 5000u}) {
    LiveCounts counts(**session, **program, live_marks(g, **program, observed), 1, most);
    (*session)->set_hook(counts.hook());
    const void* in = x.data();
    void* out = y.data();
    REQUIRE((*session)->run({&in, 1}, {&out, 1}));
    REQUIRE(counts.tensors().size() == 1);
    CHECK(counts.tensors()[0].share.back() == doctest::Approx(1.0 / 3).epsilon(0.05));
  }
}

TEST_CASE("halves of one set never drift in 100 tries, a fifth more brightness does, and so does what leaves the range") {
  const Graph g = network();
  for (uint64_t attempt = 0; attempt < 100; ++attempt) {
    const auto observed = calibration(g, pictures(seeds(1000 * attempt, 100)));
    const auto live = count(g, observed, pictures(seeds(1000 * attempt + 500, 100)));
    const auto result = find_drift(live.tensors, observed, 100, {});
    REQUIRE(result.size() == 3);
    CHECK_MESSAGE(drifted(result) == 0, "try " << attempt << ", PSI " << result[0].psi << " against " << result[0].noise << " by chance");
  }
  const auto observed = calibration(g, pictures(seeds(1, 400)));
  const auto brighter = find_drift(count(g, observed, pictures(seeds(5000, 400), 1.2f)).tensors, observed, 400, {.psi = 0.05});
  CHECK(brighter[0].name == "x");
  CHECK(brighter[0].drifted());
  const auto doubled = find_drift(count(g, observed, pictures(seeds(5000, 400), 2)).tensors, observed, 400, {});
  CHECK(doubled[0].by_psi);
  CHECK(doubled[0].by_saturation);
  CHECK(doubled[0].saturated > 0.1);
}
