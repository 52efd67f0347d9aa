// Pruning in rounds: equal steps to the target, and back where a step costs too much.
#include "tools/prune_rounds.h"

#include <doctest/doctest.h>

#include "graph/import/import.h"

namespace lathe::tools {
namespace {

Graph fashion() {
  auto graph = import_model(LATHE_SOURCE_ROOT "/examples/fashion/fashion_resnet.onnx", {});
  REQUIRE(graph);
  return *graph;
}

PruneRequest half() {
  PruneRequest r;
  r.model = "fashion";
  r.ratio = 0.5;
  r.by = PruneBy::kNothing;
  r.multiple = 1;
  return r;
}

// A metric that falls by one point per `percent` of parameters gone.
RoundCallbacks falling(const Graph& start, double percent) {
  const auto all = static_cast<double>(network_size(start).parameters);
  return {[](const Graph& g) -> Result<Graph> { return g; },
          [all, percent](const Graph& g) -> Result<double> {
            return 100 * (1 - static_cast<double>(network_size(g).parameters) / all) / percent;
          }};
}

TEST_CASE("rounds that cost little reach the target in equal steps") {
  const Graph start = fashion();
  const auto out = prune_in_rounds(start, half(), {.rounds = 2, .max_drop = 100}, falling(start, 10));
  REQUIRE_MESSAGE(out, out.error().message);
  CHECK(out->reached);
  REQUIRE(out->rounds.size() == 2);
  CHECK(out->rounds[0].progress == doctest::Approx(0.5));
  CHECK(out->rounds[1].parameters < out->rounds[0].parameters);
  CHECK(network_size(out->graph).parameters == out->rounds[1].parameters);
}

TEST_CASE("a round that costs too much is taken back and tried with half the step") {
  const Graph start = fashion();
  const RoundOptions options{.rounds = 2, .max_drop = 3};  // at most 30 % of the parameters
  const auto out = prune_in_rounds(start, half(), options, falling(start, 10));
  REQUIRE_MESSAGE(out, out.error().message);
  CHECK_FALSE(out->reached);
  CHECK_FALSE(out->rounds[0].kept);
  CHECK(out->rounds[1].progress == doctest::Approx(0.25));
  CHECK(static_cast<double>(network_size(out->graph).parameters) >= 0.7 * static_cast<double>(network_size(start).parameters));
  CHECK(network_size(out->graph).parameters < network_size(start).parameters);
  CHECK(rounds_text(*out, options).find("taken back") != std::string::npos);
}

TEST_CASE("if nothing holds, the network that was given is the result") {
  const Graph start = fashion();
  const auto out = prune_in_rounds(start, half(), {.rounds = 4, .max_drop = -1}, falling(start, 10));
  REQUIRE(out);
  CHECK(out->rounds.size() == 4);
  CHECK(network_size(out->graph).parameters == network_size(start).parameters);
}

TEST_CASE("a threshold is no target for rounds") {
  PruneRequest r = half();
  r.ratio.reset();
  r.threshold = 0.1;
  CHECK_FALSE(prune_in_rounds(fashion(), r, {}, falling(fashion(), 10)));
}

}  // namespace
}  // namespace lathe::tools
