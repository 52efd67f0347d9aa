// Quantized ONNX models of others: integers from the first Quantize to the last Dequantize, with the accuracy that they have
// elsewhere.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "data/metrics.h"
#include "graph/import/onnx/import_onnx.h"
#include "graph/lower/load.h"
#include "graph/op_def.h"
#include "runtime/host/cpu.h"
#include "test_data.h"
#include "tools/runner.h"

using namespace lathe;
using namespace lathe::test;
using tools::Runner;

namespace {

std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Labelled {
  std::vector<std::vector<float>> inputs;
  std::vector<uint32_t> labels;
};

// Raw bytes of a picture, NCHW.
Labelled cifar10() {
  Labelled out;
  const std::string raw = file_bytes(data_path("datasets/cifar10/test_2000.bin"));
  for (size_t at = 0; at + 3073 <= raw.size(); at += 3073) {
    out.labels.push_back(static_cast<uint8_t>(raw[at]));
    auto& x = out.inputs.emplace_back(3072);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<uint8_t>(raw[at + 1 + i]));
  }
  return out;
}

Labelled kws01() {
  Labelled out;
  const std::string raw = file_bytes(data_path("datasets/kws01/features_1000x49x10.i8"));
  for (const char label : file_bytes(data_path("datasets/kws01/labels_1000.u8")))
    out.labels.push_back(static_cast<uint8_t>(label));
  for (size_t at = 0; at + 490 <= raw.size(); at += 490) {
    auto& x = out.inputs.emplace_back(490);
    for (size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<float>(static_cast<int8_t>(raw[at + i])) - 83.0f) * 0.5847029f;
  }
  return out;
}

// Between its borders everything works on integers.
void check_integers(const Graph& graph) {
  for (const NodeId n : graph.order()) {
    const Node& node = graph.node(n);
    if (node.op == Op::kQuantize || node.op == Op::kDequantize) continue;
    CAPTURE(node.name);
    if (graph.value(node.outputs[0]).type.dtype == DType::kF32) CHECK(node.op == Op::kTranspose);  // of the input
  }
}

double accuracy(const Graph& graph, const Labelled& data) {
  auto program = compile_for_host(graph);
  REQUIRE_MESSAGE(program, program.error().message);
  auto runner = Runner::create(*program, {*machine_isa(), 1});
  REQUIRE_MESSAGE(runner, runner.error().message);
  const auto shapes = runner->shapes_for(1);
  REQUIRE_MESSAGE(shapes, shapes.error().message);
  REQUIRE(runner->bind(*shapes));
  size_t hits = 0;
  for (size_t i = 0; i < data.inputs.size(); ++i) {
    std::copy(data.inputs[i].begin(), data.inputs[i].end(), reinterpret_cast<float*>(runner->input(0)));
    REQUIRE(runner->run());
    std::vector<float> y;
    REQUIRE(runner->output_values(0, &y));
    hits += argmax(y) == data.labels[i] ? 1 : 0;
  }
  return static_cast<double>(hits) / static_cast<double>(data.inputs.size());
}

}  // namespace

TEST_CASE("quantized ONNX models run on integers alone") {
  for (const char* name :
       {"ic_resnet8_qdq", "kws_dscnn_qdq", "vww_mobilenetv1_qdq", "ad_autoencoder_qdq", "mobilenetv2-12-int8_qoperator"}) {
    const std::string path = data_path(std::string("models/onnx_quant/") + name + ".onnx");
    if (path.empty()) {
      say_skipped(name, "no data");
      continue;
    }
    CAPTURE(std::string(name));
    ImportReport report;
    const auto graph = import_onnx(path, {}, &report);
    REQUIRE_MESSAGE(graph, graph.error().message);
    check_integers(*graph);
    for (const std::string& note : report.notes) CHECK(note.find("floats between integers") == std::string::npos);
  }
}

TEST_CASE("labelled quantized ONNX models have the accuracy that they have elsewhere") {
  struct Case {
    const char* model;
    Labelled (*data)();
    double accuracy, tolerance;
  };
  // ResNet8: 87.25 % in exact arithmetic; one image has the same score for two classes.
  for (const Case& c : {Case{"ic_resnet8_qdq", cifar10, 0.8725, 0.00051}, Case{"kws_dscnn_qdq", kws01, 0.902, 1e-9}}) {
    const std::string path = data_path(std::string("models/onnx_quant/") + c.model + ".onnx");
    if (path.empty()) {
      say_skipped(c.model, "no data");
      continue;
    }
    const auto graph = import_onnx(path);
    REQUIRE_MESSAGE(graph, graph.error().message);
    const double got = accuracy(*graph, c.data());
    MESSAGE(std::string(c.model), ": ", got);
    CHECK(std::fabs(got - c.accuracy) <= c.tolerance);
  }
}
