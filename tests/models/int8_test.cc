// Real networks of others in INT8: close to float on their own data, and the same bits however they are run.
#include <doctest/doctest.h>

#include <cmath>

#include "data/image.h"
#include "data/metrics.h"
#include "base/file.h"
#include "graph/file/model_file.h"
#include "graph/import/onnx/import_onnx.h"
#include "graph/lower/load.h"
#include "graph/pass.h"
#include "quant/ptq.h"
#include "runtime/host/cpu.h"
#include "test_data.h"
#include "tools/data_binding.h"
#include "tools/runner.h"

using namespace lathe;
using namespace lathe::test;
using tools::Runner;

namespace {

SessionOptions machine() {
  const auto isa = machine_isa();
  REQUIRE_MESSAGE(isa, isa.error().message);
  return {*isa, 1};
}

struct Pair {
  std::shared_ptr<const LoadedProgram> real, int8;
  Graph quantized;
};

// Imports, calibrates on `source`, quantizes, and compiles both.
Pair quantize_model(const std::string& path, const SampleSource& source, const ObserverOptions& observer = {}) {
  auto graph = import_onnx(path);
  REQUIRE_MESSAGE(graph, graph.error().message);
  auto real = compile_for_host(*graph);
  REQUIRE_MESSAGE(real, real.error().message);
  const auto passes = run_passes(*graph, lowering_passes());
  REQUIRE_MESSAGE(passes, passes.error().message);
  const auto calibration = calibrate(*graph, source, {.observer = observer, .session = machine()});
  REQUIRE_MESSAGE(calibration, calibration.error().message);
  auto quantized = quantize_graph(*graph, ranges_of(*calibration), {});
  REQUIRE_MESSAGE(quantized, quantized.error().message);
  auto int8 = compile_for_host(quantized->graph);
  REQUIRE_MESSAGE(int8, int8.error().message);
  return {*real, *int8, std::move(quantized->graph)};
}

SampleSource from_split(const DataSplit& split, uint64_t count) {
  SampleSource source;
  source.count = std::min<uint64_t>(count, split.size());
  source.fill = [&split, n = source.count](uint64_t i, const std::vector<void*>& inputs) {
    return split.fill(0, i * split.size() / n, inputs[0]);
  };
  return source;
}

struct Scores {
  uint64_t samples = 0, real_hits = 0, int8_hits = 0, agreeing = 0;
  OutputDifference difference;
};

Scores compare(const Pair& pair, const Dataset& data, const DataSplit& split, uint64_t limit) {
  auto a = Runner::create(pair.real, machine()), b = Runner::create(pair.int8, machine());
  REQUIRE(a);
  REQUIRE(b);
  Scores scores;
  std::vector<std::vector<float>> outputs;
  const auto collect = [&](uint64_t, const std::vector<std::span<const float>>& o) -> Result<void> {
    outputs.emplace_back(o[0].begin(), o[0].end());
    return {};
  };
  const auto judge = [&](uint64_t i, const std::vector<std::span<const float>>& o) -> Result<void> {
    const auto label = static_cast<uint32_t>(split.label(i));
    scores.real_hits += argmax(outputs[i]) == label;
    scores.int8_hits += argmax(o[0]) == label;
    scores.agreeing += argmax(outputs[i]) == argmax(o[0]);
    scores.difference.add(outputs[i], o[0]);
    return {};
  };
  const tools::PredictOptions options{.limit = limit, .batch = 0, .progress = ""};
  const auto first = tools::predict(*a, data, split, {0}, options, collect);
  REQUIRE_MESSAGE(first, first.error().message);
  const auto second = tools::predict(*b, data, split, {0}, options, judge);
  REQUIRE_MESSAGE(second, second.error().message);
  scores.samples = *second;
  return scores;
}

struct Labelled {
  const char* model;
  const char* data;
  ObserverKind observer;
};

// Bytes of output 0 for the bound input.
std::vector<uint8_t> bytes_of(Runner& runner) {
  REQUIRE(runner.run());
  const size_t n = static_cast<size_t>(runner.output_shape(0).elems()) * dtype_bytes(runner.output_tensor(0).dtype);
  return {runner.output(0), runner.output(0) + n};
}

// Crops of photographs, scaled to [low, high], in the network's own layout (NCHW).
std::vector<std::vector<float>> photo_crops(const std::vector<std::string>& paths, int32_t height, int32_t width, float low,
                                            float high) {
  std::vector<std::vector<float>> crops;
  for (const std::string& path : paths) {
    const auto bytes = read_file(path);
    REQUIRE_MESSAGE(bytes, bytes.error().message);
    const auto image = decode_image(*bytes, 3, path);
    REQUIRE_MESSAGE(image, image.error().message);
    for (const int32_t zoom : {1, 2, 3}) {
      const Image scaled = resize_bilinear(*image, height * zoom, width * zoom);
      for (int32_t k = 0; k < zoom; ++k) {
        std::vector<float> crop(static_cast<size_t>(3 * height * width));
        for (int32_t c = 0; c < 3; ++c)
          for (int32_t y = 0; y < height; ++y)
            for (int32_t x = 0; x < width; ++x) {
              const size_t from =
                  (static_cast<size_t>(y + k * height) * static_cast<size_t>(scaled.width) + static_cast<size_t>(x + k * width)) *
                      3 +
                  static_cast<size_t>(c);
              crop[(static_cast<size_t>(c) * static_cast<size_t>(height) + static_cast<size_t>(y)) * static_cast<size_t>(width) +
                   static_cast<size_t>(x)] = low + (high - low) * static_cast<float>(scaled.pixels[from]) / 255.0f;
            }
        crops.push_back(std::move(crop));
      }
    }
  }
  return crops;
}

// SQNR of each output of the INT8 network on `inputs`, and how often output 0 has the same best class.
struct Unlabelled {
  std::vector<OutputDifference> outputs;
  uint64_t agreeing = 0;
};
Unlabelled compare_inputs(const Pair& pair, const std::vector<std::vector<float>>& inputs) {
  auto a = Runner::create(pair.real, machine()), b = Runner::create(pair.int8, machine());
  REQUIRE(a);
  REQUIRE(b);
  Unlabelled result;
  result.outputs.resize(a->output_count());
  const auto shapes = a->shapes_for(1);
  REQUIRE_MESSAGE(shapes, shapes.error().message);
  for (Runner* r : {&*a, &*b}) REQUIRE(r->bind(*shapes));
  for (const auto& input : inputs) {
    for (Runner* r : {&*a, &*b}) {
      std::copy(input.begin(), input.end(), reinterpret_cast<float*>(r->input(0)));
      REQUIRE(r->run());
    }
    for (size_t o = 0; o < result.outputs.size(); ++o) {
      std::vector<float> x, y;
      REQUIRE(a->output_values(o, &x));
      REQUIRE(b->output_values(o, &y));
      result.outputs[o].add(x, y);
      if (o == 0) result.agreeing += argmax(x) == argmax(y);
    }
  }
  return result;
}

SampleSource from_vectors(const std::vector<std::vector<float>>& inputs) {
  SampleSource source;
  source.count = inputs.size();
  source.fill = [&inputs](uint64_t i, const std::vector<void*>& out) -> Result<void> {
    std::copy(inputs[i].begin(), inputs[i].end(), static_cast<float*>(out[0]));
    return {};
  };
  return source;
}

}  // namespace

TEST_CASE("labelled networks in INT8 stay within a point of float on the first 400 test samples") {
  for (const Labelled& c : {Labelled{"models/cifar10_resnet/resnet20_cifar10.onnx", "cifar10", ObserverKind::kMinMax},
                            Labelled{"models/cifar10_resnet/resnet56_cifar10.onnx", "cifar10", ObserverKind::kMinMax},
                            Labelled{"models/mlperf_tiny_onnx/ic_alibaba_fp32.onnx", "cifar10", ObserverKind::kMinMax},
                            Labelled{"models/mlperf_tiny_onnx/kws_alibaba_fp32.onnx", "kws01", ObserverKind::kPercentile},
                            Labelled{"models/vision/mnist-8_cntk.onnx", "mnist", ObserverKind::kMinMax}}) {
    CAPTURE(std::string(c.model));
    const std::string path = data_path(c.model);
    if (path.empty()) {
      say_skipped(c.model, "no data");
      continue;
    }
    const auto data = Dataset::load(std::string(LATHE_SOURCE_ROOT "/tests/datasets/") + c.data + ".toml");
    REQUIRE_MESSAGE(data, data.error().message);
    const Pair pair = quantize_model(path, from_split(*data->for_calibration()->split, 100), {.kind = c.observer});
    const Scores s = compare(pair, *data, *data->for_report()->split, 400);
    CAPTURE(s.real_hits);
    CAPTURE(s.int8_hits);
    CHECK(s.samples == 400);
    CHECK(s.real_hits > 320);
    CHECK(std::abs(static_cast<double>(s.int8_hits) - static_cast<double>(s.real_hits)) <= 4);
    CHECK(s.agreeing >= 388);
    CHECK(s.difference.sqnr_db() > 20);
  }
}

TEST_CASE("ResNet-20 in INT8 gives the same bits on every instruction set, thread count and batch") {
  const std::string path = data_path("models/cifar10_resnet/resnet20_cifar10.onnx");
  if (path.empty()) {
    say_skipped("ResNet-20 bit-exactness", "no data");
    return;
  }
  const auto data = Dataset::load(LATHE_SOURCE_ROOT "/tests/datasets/cifar10.toml");
  REQUIRE_MESSAGE(data, data.error().message);
  const Pair pair = quantize_model(path, from_split(*data->for_calibration()->split, 50));
  const DataSplit& split = *data->for_report()->split;
  std::vector<uint8_t> expected;
  for (const auto& level : kernels::kIsaLevels) {
    if (!kernels::covers(detected_isa(), level.set)) {
      say_skipped(std::string("ResNet-20 on ") + level.name, "this CPU lacks it");
      continue;
    }
    for (const uint32_t threads : {1u, 2u})
      for (const uint32_t batch : {1u, 16u}) {
        CAPTURE(std::string(level.name));
        CAPTURE(threads);
        CAPTURE(batch);
        auto runner = Runner::create(pair.int8, {level.set, threads});
        REQUIRE(runner);
        REQUIRE(runner->bind(*runner->shapes_for(batch)));
        std::vector<uint8_t> bytes;
        for (uint32_t first = 0; first < 16; first += batch) {
          for (uint32_t b = 0; b < batch; ++b) REQUIRE(split.fill(0, first + b, runner->input(0) + b * data->inputs()[0].bytes));
          const auto part = bytes_of(*runner);
          bytes.insert(bytes.end(), part.begin(), part.end());
        }
        if (expected.empty()) expected = bytes;
        CHECK(bytes == expected);
      }
  }
  CHECK(expected.size() == 16 * 10 * sizeof(float));
}

TEST_CASE("networks without labels keep 20 dB or 97 % agreement in INT8 on crops of photographs") {
  const std::string photos = data_path("datasets/photos");
  if (photos.empty()) {
    say_skipped("networks on photographs", "no data");
    return;
  }
  struct Case {
    const char* model;
    int32_t height, width;
    float low, high;
  };
  for (const Case& c : {Case{"models/vision/mobilenetv2_035_128_flowers.onnx", 128, 128, -1, 1},
                        Case{"models/vision/mobilenetv2_050_128_person.onnx", 128, 128, -1, 1},
                        Case{"models/face/ultraface_RFB-320.onnx", 240, 320, -1, 1}}) {
    CAPTURE(std::string(c.model));
    const auto at = [&](const char* name) { return photos + "/" + name; };
    const auto seen = photo_crops({at("cat.bmp"), at("grace_hopper.bmp"), at("hot_dog.jpg"), at("parrot.jpg")}, c.height, c.width,
                                  c.low, c.high);
    const auto fresh =
        photo_crops({at("face.jpg"), at("owl.jpg"), at("pets.jpg"), at("tflm_person.bmp")}, c.height, c.width, c.low, c.high);
    const Pair pair = quantize_model(data_path(c.model), from_vectors(seen));
    const Unlabelled u = compare_inputs(pair, fresh);
    for (size_t o = 0; o < u.outputs.size(); ++o) {
      CAPTURE(o);
      CAPTURE(u.outputs[o].sqnr_db());
      CAPTURE(u.agreeing);
      const bool agrees = o == 0 && static_cast<double>(u.agreeing) >= 0.97 * static_cast<double>(fresh.size());
      CHECK((u.outputs[o].sqnr_db() >= 20 || agrees));
      MESSAGE(std::string(c.model), " output ", o, ": SQNR ", u.outputs[o].sqnr_db(), " dB, same best class on ", u.agreeing,
              " of ", fresh.size());
    }
  }
}

TEST_CASE("the anomaly detector keeps 20 dB in INT8 on windows of a real spectrogram") {
  const std::string path = data_path("models/mlperf_tiny_onnx/ad_alibaba_fp32.onnx");
  const std::string spectrogram = data_path("datasets/ad01/normal_id_01_00000000_hist_librosa.bin");
  if (path.empty() || spectrogram.empty()) {
    say_skipped("anomaly detector", "no data");
    return;
  }
  const auto bytes = read_file(spectrogram);
  REQUIRE_MESSAGE(bytes, bytes.error().message);
  const auto* values = reinterpret_cast<const float*>(bytes->data());
  std::vector<std::vector<float>> seen, fresh;  // five frames of 128 bands each
  for (size_t frame = 0; frame + 5 <= 200; ++frame)
    (frame < 120 ? seen : fresh).emplace_back(values + frame * 128, values + (frame + 5) * 128);
  const Pair pair = quantize_model(path, from_vectors(seen));
  const Unlabelled u = compare_inputs(pair, fresh);
  MESSAGE("SQNR ", u.outputs[0].sqnr_db(), " dB on ", fresh.size(), " windows");
  CHECK(u.outputs[0].sqnr_db() >= 20);
}
