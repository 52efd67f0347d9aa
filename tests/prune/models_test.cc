// Real models: what is found in them, and that a cut of every group to half computes what the masked model does.
#include <doctest/doctest.h>

#include <algorithm>

#include "graph/import/import.h"
#include "prune/networks.h"
#include "test_data.h"

namespace lathe::test {
namespace {

struct Model {
  const char* path;
  size_t groups, frozen, heads;  // frozen groups, and groups of heads, among all
  double left;                   // at most this share of the parameters stays when half of every group goes
};
constexpr Model kModels[] = {
    {"cifar10_resnet/resnet20_cifar10.onnx", 13, 1, 0, 0.26},
    {"cifar10_resnet/resnet56_cifar10.onnx", 31, 1, 0, 0.26},
    {"vision/mobilenetv2_035_128_flowers.onnx", 26, 1, 0, 0.28},
    {"vision/mnist-8_cntk.onnx", 3, 1, 0, 0.37},
    {"mlperf_tiny_onnx/ic_alibaba_fp32.onnx", 16, 1, 0, 0.28},
    {"mlperf_tiny_onnx/ad_alibaba_fp32.onnx", 6, 1, 0, 0.51},
    {"mlperf_tiny/ic_resnet8_fp32.tflite", 7, 1, 0, 0.26},
    {"mlperf_tiny/vww_mobilenetv1_fp32.tflite", 15, 1, 0, 0.27},
    {"transformer/kwt1_fp32.tflite", 41, 1, 0, 0.33},
    {"transformer/stories260K_s128.onnx", 12, 1, 5, 0.38},
    {"magika/standard_v3_3.onnx", 3, 1, 0, 0.3},
    {"face/ultraface_RFB-320.onnx", 33, 8, 0, 0.38},
    {"face/yunet_n_dynamic.onnx", 34, 18, 0, 1.0},
    {"audio/dtln_1.onnx", 3, 3, 0, 1.0},
};

TEST_CASE("real models cut to half compute what their masked forms do") {
  for (const Model& m : kModels) {
    const std::string path = data_path(std::string("models/") + m.path);
    if (path.empty()) {
      say_skipped(m.path, "not there");
      continue;
    }
    CAPTURE(m.path);
    const auto graph = import_model(path);
    REQUIRE_MESSAGE(graph, graph.error().message);
    const auto groups = groups_of(*graph);
    const auto count = [&](auto&& is) { return static_cast<size_t>(std::count_if(groups.begin(), groups.end(), is)); };
    CHECK(groups.size() == m.groups);
    CHECK(count([](const prune::Group& g) { return !g.frozen.empty(); }) == m.frozen);
    CHECK(count([](const prune::Group& g) { return g.heads; }) == m.heads);
    const Graph half = proved(*graph, groups, random_cuts(groups, 0.5), 1e-3);
    CHECK(static_cast<double>(parameters(half)) <= m.left * static_cast<double>(parameters(*graph)));
  }
}

}  // namespace
}  // namespace lathe::test
