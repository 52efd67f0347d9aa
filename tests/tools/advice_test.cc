// Advice on a network that one weight scale per tensor breaks by construction, and what is said of figures that are given.
#include "tools/advice.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "graph/pass.h"
#include "quant/sample_runner.h"
#include "temp_folder.h"
#include "tests/graph/graph_run.h"

using namespace lathe;
using namespace lathe::tools;
using lathe::test::parsed;
using lathe::test::TempFolder;

namespace {

constexpr int kFeatures = 6, kHidden = 8, kClasses = 3;

// Two layers whose channels differ by up to 2^14 and undo each other.
Graph uneven_network() {
  std::string first = "constant %w : f32[8,6] = [", second = "constant %v : f32[3,8] = [";
  for (int h = 0; h < kHidden; ++h)
    for (int i = 0; i < kFeatures; ++i)
      first += (h + i == 0 ? "" : ",") + std::to_string(std::ldexp(std::sin(1.7 * (h * kFeatures + i)), 7 - 2 * h));
  for (int c = 0; c < kClasses; ++c)
    for (int h = 0; h < kHidden; ++h)
      second += (c + h == 0 ? "" : ",") + std::to_string(std::ldexp(std::cos(2.3 * (c * kHidden + h)), 2 * h - 7));
  return parsed("input %x : f32[N,6]\n" + first + "]\n" + second + "]\n%h = FullyConnected \"first\" (%x, %w) {lo=0}\n" +
                "%y = FullyConnected \"second\" (%h, %v)\noutput %y\n");
}

std::vector<float> features(uint64_t i) {
  std::vector<float> x(kFeatures);
  for (int k = 0; k < kFeatures; ++k) x[static_cast<size_t>(k)] = static_cast<float>(std::sin(static_cast<double>(i * 31 + 7) * (k + 1.3)));
  return x;
}

// Samples whose labels are the network's own answers.
std::string labelled_set(const TempFolder& folder, const Graph& graph) {
  auto runner = SampleRunner::create(graph, {});
  REQUIRE(runner);
  SampleSource source;
  source.count = 900;
  source.fill = [](uint64_t i, const std::vector<void*>& inputs) -> Result<void> {
    const auto x = features(i);
    std::copy(x.begin(), x.end(), static_cast<float*>(inputs[0]));
    return {};
  };
  std::ofstream csv(folder.file("set.csv"));
  csv << "a,b,c,d,e,f,label\n";
  for (uint64_t i = 0; i < source.count; ++i) {
    REQUIRE(runner->run(source, i, [](uint32_t, std::span<float>) {}));
    csv.precision(9);
    for (const float v : features(i)) csv << v << ",";
    csv << argmax(runner->outputs()[0]) << "\n";
  }
  std::ofstream toml(folder.file("set.toml"));
  toml << "format = 'csv'\ncolumns = ['a','b','c','d','e','f']\nlabel_column = 'label'\nclasses = ['0','1','2']\n"
          "[split.train]\npaths = 'set.csv'\nrange = [0, 200]\n[split.calib]\npaths = 'set.csv'\nrange = [200, 400]\n"
          "[split.val]\npaths = 'set.csv'\nrange = [400, 900]\n";
  return folder.file("set.toml");
}

std::string all_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("advice finds where the drop comes from and what brings it back") {
  const TempFolder folder;
  ModelFile model;
  model.graph = uneven_network();
  REQUIRE(run_passes(model.graph, lowering_passes()));
  AdviceRequest request;
  request.model = "uneven";
  request.calibration.data = labelled_set(folder, model.graph);
  request.quantize.per_channel = false;
  const auto advice = advise(model, request);
  REQUIRE_MESSAGE(advice, advice.error().message);
  CHECK(advice->value == 1);
  CHECK(advice->samples == 500);
  CHECK(advice->split == "val");
  CHECK(advice->float_is_kept);
  REQUIRE(advice->causes.size() == 2);
  CHECK(advice->causes[0].drop > 10);  // weights
  CHECK(advice->causes[1].drop < advice->causes[0].drop);  // activations
  CHECK(advice->remedies[0].drop > 10);
  CHECK(advice->remedies[advice->best].drop < 3);
  CHECK(!advice->network.quantized.graph.order().empty());
  CHECK(advice->epoch_seconds > 0);
  CHECK(advice->train_samples == 200);
  const std::string text = all_lines(verdict(*advice, request));
  CHECK(text.find("comes from") != std::string::npos);
  CHECK(text.find("training with quantization is not worth it") != std::string::npos);
}

TEST_CASE("training with quantization is worth it where remedies leave more than 3 points and the budget covers it") {
  Advice advice;
  advice.float_is_kept = true;
  advice.causes = {{"weights", 0, 2, "", 0}, {"activations", 0, 9, "", 0}};
  advice.remedies = {{"INT8 as asked", 0.8, 12, "", 0}, {"all of these", 0.87, 5, "", 0}};
  advice.best = 1;
  advice.replace = {"gate (Erf): has no integer kernel"};
  advice.epoch_seconds = 720;
  advice.train_samples = 60000;
  AdviceRequest request;
  request.flags.epochs = 10, request.flags.releases = 4, request.flags.train_budget_hours = 3;
  const std::string text = all_lines(verdict(advice, request));
  CHECK(text.find("from the activations") != std::string::npos);
  CHECK(text.find("more than 3 are left after every remedy") != std::string::npos);
  CHECK(text.find("10 epochs of 60000 samples take about 2 hours") != std::string::npos);
  CHECK(text.find("0.5 per release over 4, within the budget of 3 hours") != std::string::npos);
  CHECK(text.find("or replace gate (Erf)") != std::string::npos);
  request.flags.train_budget_hours = 1;
  CHECK(all_lines(verdict(advice, request)).find("beyond the budget of 1 hours") != std::string::npos);
  advice.epoch_seconds = 0;
  CHECK(all_lines(verdict(advice, request)).find("no split 'train'") != std::string::npos);
  advice.float_is_kept = false;
  CHECK(all_lines(verdict(advice, request)).find("look for a bug in the conversion first") != std::string::npos);
}
