// Real models: what import makes of them, and their outputs against ONNX Runtime's (tests/oracle/README.md).
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include "data/idx.h"
#include "tests/graph/import/expected_run.h"
#include "tests/graph/import/import_checks.h"
#include "tests/test_data.h"

#include "graph/import/onnx/import_onnx.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr size_t kInputs = 20;
using Samples = std::vector<std::vector<float>>;  // empty: the data is not here

std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// (v / 255 - mean) / std per channel of the first test images.
Samples cifar10() {
  const std::string path = data_path("datasets/cifar10/test_2000.bin");
  if (path.empty()) return {};
  const std::string raw = file_bytes(path);
  const float mean[] = {0.485f, 0.456f, 0.406f}, deviation[] = {0.229f, 0.224f, 0.225f};
  Samples out(kInputs, std::vector<float>(3072));
  for (size_t s = 0; s < kInputs; ++s)
    for (size_t i = 0; i < 3072; ++i) {
      const auto v = static_cast<float>(static_cast<uint8_t>(raw.at(s * 3073 + 1 + i)));
      out[s][i] = (v / 255.0f - mean[i / 1024]) / deviation[i / 1024];
    }
  return out;
}

Samples kws01() {
  const std::string path = data_path("datasets/kws01/features_1000x49x10.i8");
  if (path.empty()) return {};
  const std::string raw = file_bytes(path);
  Samples out(kInputs, std::vector<float>(490));
  for (size_t s = 0; s < kInputs; ++s)
    for (size_t i = 0; i < 490; ++i)
      out[s][i] = (static_cast<float>(static_cast<int8_t>(raw.at(s * 490 + i))) - 83.0f) * 0.5847029f;
  return out;
}

// Input s is frames 10 s to 10 s + 4 of a spectrogram of 200 x 128.
Samples ad01() {
  const std::string path = data_path("datasets/ad01/normal_id_01_00000000_hist_librosa.bin");
  if (path.empty()) return {};
  const std::string raw = file_bytes(path);
  Samples out(kInputs, std::vector<float>(640));
  for (size_t s = 0; s < kInputs; ++s) std::memcpy(out[s].data(), raw.data() + s * 10 * 128 * sizeof(float), 640 * sizeof(float));
  return out;
}

Samples idx_images(const std::string& path, float divisor, float mean, float deviation) {
  if (!std::filesystem::exists(path)) return {};
  const auto images = read_idx(path);
  if (!images) FAIL(images.error().message);
  const auto pixels = images->as<uint8_t>();
  Samples out(kInputs, std::vector<float>(784));
  for (size_t s = 0; s < kInputs; ++s)
    for (size_t i = 0; i < 784; ++i) out[s][i] = (static_cast<float>(pixels[s * 784 + i]) / divisor - mean) / deviation;
  return out;
}
Samples mnist() { return idx_images(data_path("datasets/mnist/t10k-images-idx3-ubyte.gz"), 1, 0, 1); }
Samples fashion() { return idx_images("/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz", 255, 0.2860f, 0.3530f); }

// The generator of make_expected.py: splitmix64 of stream and element, 24 bits on -1 .. 1.
template <size_t kElems> Samples pseudo_random() {
  Samples out(kInputs, std::vector<float>(kElems));
  for (uint64_t s = 0; s < kInputs; ++s)
    for (uint64_t i = 0; i < kElems; ++i) {
      uint64_t z = (s << 32) + i + 0x9E3779B97F4A7C15u;
      z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
      z = (z ^ z >> 27) * 0x94D049BB133111EBu;
      z ^= z >> 31;
      out[s][i] = static_cast<float>(static_cast<double>(z >> 40) * 0x1p-24 * 2 - 1);
    }
  return out;
}

struct RealModel {
  std::string path;  // below models/ of the data, or of the source tree if it starts with examples/ or tests/
  Samples (*samples)();
  std::string ops;   // what import leaves, besides BatchNorm
};
// One transpose is left, at the input where the file's NCHW is visible. No shape subgraph is.
const RealModel kModels[] = {
    {"examples/fashion/fashion_resnet.onnx", fashion, "Add 3 Clamp 7 Conv2d 9 FullyConnected 1 Mean 1 Reshape 1 Transpose 1"},
    {"cifar10_resnet/resnet20_cifar10.onnx", cifar10,
     "Add 9 Clamp 19 Conv2d 19 FullyConnected 1 Mean 1 Pad 2 Reshape 1 Slice 2 Transpose 1"},
    {"cifar10_resnet/resnet56_cifar10.onnx", cifar10,
     "Add 27 Clamp 55 Conv2d 55 FullyConnected 1 Mean 1 Pad 2 Reshape 1 Slice 2 Transpose 1"},
    {"mlperf_tiny_onnx/ic_alibaba_fp32.onnx", cifar10, "Add 3 Clamp 17 Conv2d 26 FullyConnected 1 Mean 1 Reshape 2 Transpose 1"},
    {"mlperf_tiny_onnx/kws_alibaba_fp32.onnx", kws01, "AvgPool2d 1 Clamp 9 Conv2d 9 FullyConnected 1 Reshape 1"},
    {"mlperf_tiny_onnx/ad_alibaba_fp32.onnx", ad01, "Clamp 5 FullyConnected 6"},
    {"vision/mnist-8_cntk.onnx", mnist, "Add 3 Clamp 2 Conv2d 2 FullyConnected 1 MaxPool2d 2 Reshape 1 Transpose 1"},
    {"vision/mobilenetv2_035_128_flowers.onnx", pseudo_random<3 * 128 * 128>,
     "Add 11 Clamp 35 Conv2d 52 FullyConnected 1 Mean 1 Pad 4 Reshape 1 Softmax 1 Transpose 1"},
    {"vision/mobilenetv2_050_128_person.onnx", pseudo_random<3 * 128 * 128>,
     "Add 11 AvgPool2d 1 Clamp 35 Conv2d 52 FullyConnected 1 Pad 4 Reshape 1 Softmax 1 Transpose 1"},
    {"tests/oracle/models/tiny_encoder.onnx", pseudo_random<6 * 16>,
     "Add 13 Div 3 Erf 1 FullyConnected 7 LayerNorm 1 MatMul 2 Mean 2 Mul 4 Reshape 4 Softmax 1 Sqrt 1 Sub 1 Transpose 4"},
    {"face/ultraface_RFB-320.onnx", pseudo_random<3 * 240 * 320>,
     "Add 3 Clamp 37 Concat 5 Conv2d 52 Div 2 Exp 1 Mul 4 Reshape 8 Slice 6 Softmax 1 Sub 1 Transpose 1"},
};

// The model's path, or "" (said with MESSAGE) if it is not here.
std::string model_path(const RealModel& m) {
  const bool own = m.path.starts_with("examples/") || m.path.starts_with("tests/");
  const std::string path =
      own ? std::string(LATHE_SOURCE_ROOT) + "/" + m.path : data_path("models/" + m.path);
  if (path.empty()) MESSAGE("skipped: no " << m.path);
  return path;
}

std::string op_counts(const Graph& g) {
  std::map<std::string, int> counts;
  for (NodeId n : g.order()) ++counts[op_name(g.node(n).op)];
  counts.erase("BatchNorm");
  std::string s;
  for (const auto& [name, count] : counts) s += (s.empty() ? "" : " ") + name + " " + std::to_string(count);
  return s;
}

// Runs one sample in a session bound to batch 1; one vector per output.
std::vector<std::vector<float>> run(HostSession& session, size_t count, const std::vector<float>& sample) {
  std::vector<std::vector<float>> outputs(count);
  std::vector<void*> out;
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    outputs[i].resize(session.output_shape(i).elems());
    out.push_back(outputs[i].data());
  }
  const void* in = sample.data();
  const auto ok = session.run({&in, 1}, out);
  if (!ok) FAIL(ok.error().message);
  return outputs;
}

// max|a - b| / max|b| of sample s over the stored elements of one output.
double difference(const std::vector<float>& got, const HostTensor& expected, float largest, size_t s, size_t stride) {
  const auto all = expected.as<float>();
  const size_t per_sample = all.size() / kInputs;
  REQUIRE((got.size() + stride - 1) / stride == per_sample);
  double worst = 0;
  for (size_t i = 0; i < per_sample; ++i)
    worst = std::fmax(worst, std::fabs(static_cast<double>(got[i * stride]) - all[s * per_sample + i]));
  return worst / largest;
}

void check_outputs(const RealModel& m, const Graph& graph) {
  const Samples samples = m.samples();
  if (samples.empty()) {
    MESSAGE("skipped: no data for " << m.path);
    return;
  }
  const std::string stem = std::filesystem::path(m.path).stem().string();
  const auto arrays = expected_arrays(stem);
  Shape shape;
  for (Dim d : graph.value(graph.inputs()[0]).type.dims)
    shape.dims[shape.rank++] = static_cast<int32_t>(graph.dims().value(d).value_or(1));
  const auto session = bound_session(graph, {shape}, *machine_isa(), 1);
  const size_t stride = static_cast<size_t>(array(arrays, "stride").as<int64_t>()[0]);
  double worst = 0;
  for (size_t s = 0; s < kInputs; ++s) {
    double sum = 0;
    for (float v : samples[s]) sum += v;
    REQUIRE(std::fabs(sum - array(arrays, "input_sum").as<double>()[s]) < 1e-3);
    const auto outputs = run(*session, graph.outputs().size(), samples[s]);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = graph.value(graph.outputs()[i]).name;
      worst = std::fmax(worst, difference(outputs[i], array(arrays, "output_" + name),
                                          array(arrays, "max_abs_" + name).as<float>()[s], s, stride));
    }
  }
  MESSAGE(m.path << ": largest difference " << worst);
  CHECK(worst < 1e-4);
}

}  // namespace

TEST_CASE("real models import without shape subgraphs and with a transpose at the input only") {
  for (const RealModel& m : kModels) {
    const std::string path = model_path(m);
    if (path.empty()) continue;
    CAPTURE(m.path);
    const Graph g = must(import_onnx(path));
    CHECK(op_counts(g) == m.ops);
  }
}

TEST_CASE("real models compute what ONNX Runtime computes, on 20 inputs each") {
  for (const RealModel& m : kModels) {
    const std::string path = model_path(m);
    if (path.empty()) continue;
    CAPTURE(m.path);
    check_outputs(m, must(import_onnx(path)));
  }
}

TEST_CASE("models with operators that are not supported are refused with the whole list") {
  const std::pair<const char*, std::vector<const char*>> refused[] = {
      {"awkward/superres_prepost_customdomain.onnx",
       {"com.microsoft.extensions.DecodeImage", "com.microsoft.extensions.EncodeImage"}},
  };
  for (const auto& [name, parts] : refused) {
    const std::string path = data_path(std::string("models/") + name);
    if (path.empty()) {
      MESSAGE("skipped: no " << name);
      continue;
    }
    const auto g = import_onnx(path);
    REQUIRE(!g);
    CHECK(g.error().code == Code::kUnsupported);
    CHECK(contains(g.error().message, path));
    for (const char* part : parts) CHECK_MESSAGE(contains(g.error().message, part), part << " is not in: " << g.error().message);
  }
}
