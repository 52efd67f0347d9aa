// Models that work on sequences, against ONNX Runtime (tests/oracle/make_sequences.py): audio streams whose state is carried from
// step to step, and the perplexity of a small language model on real text.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "data/npy.h"
#include "graph/import/onnx/import_onnx.h"
#include "graph/lower/load.h"
#include "runtime/host/cpu.h"
#include "test_data.h"
#include "tools/runner.h"

using namespace lathe;
using namespace lathe::test;
using lathe::tools::Runner;

namespace {

template <class T>
T must(Result<T> result) {
  if (!result) FAIL(result.error().message);
  return std::move(*result);
}
void must(const Result<void>& result) {
  if (!result) FAIL(result.error().message);
}

struct State {
  const char *input, *output;
};
struct Stream {
  const char* path;
  const char* data;  // the input that is new in every step
  float scale;
  std::vector<State> states;
  std::vector<std::pair<std::string, std::vector<double>>> constants;
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes;
};
const Stream kStreams[] = {
    {"audio/dtln_1.onnx", "input_2", 1, {{"input_3", "tf_op_layer_stack_2"}}, {}, {}},
    {"audio/dtln_2.onnx", "input_4", 1, {{"input_5", "tf_op_layer_stack_5"}}, {}, {}},
    {"audio/gtcrn_simple.onnx",
     "mix",
     1,
     {{"conv_cache", "conv_cache_out"}, {"tra_cache", "tra_cache_out"}, {"inter_cache", "inter_cache_out"}},
     {},
     {}},
    {"audio/silero_vad_op18_ifless.onnx",
     "input",
     0.25f,
     {{"state", "stateN"}},
     {{"sr", {16000}}},
     {{"input", {1, 576}}, {"state", {2, 1, 128}}}},
};

// The generator of make_expected.py.
void fill_pseudo_random(float* out, size_t n, uint64_t stream, float scale) {
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t z = (stream << 32) + i + 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    out[i] = static_cast<float>(static_cast<double>(z >> 40) * 0x1p-24 * 2 - 1) * scale;
  }
}

std::vector<NamedTensor> expected_arrays(const std::string& stem) {
  return must(read_npz(LATHE_SOURCE_ROOT "/tests/oracle/expected/" + stem + ".npz"));
}

const HostTensor& array(const std::vector<NamedTensor>& arrays, const std::string& name) {
  for (const NamedTensor& a : arrays)
    if (a.name == name) return a.tensor;
  FAIL("no array " << name);
  return arrays[0].tensor;
}

Runner make_runner(const std::string& path, const ImportOptions& options) {
  const auto program = must(compile_for_host(must(import_onnx(path, options))));
  return must(Runner::create(program, {must(machine_isa()), 1}));
}

size_t index_of(const std::vector<std::string>& names, const std::string& name) {
  const auto it = std::find(names.begin(), names.end(), name);
  REQUIRE_MESSAGE(it != names.end(), name);
  return static_cast<size_t>(it - names.begin());
}

// max|a - b| / max|b| of one output of one step.
double difference(const Runner& r, size_t output, size_t elems, const HostTensor& expected, size_t step) {
  const auto* got = reinterpret_cast<const float*>(r.output(output));
  const size_t stride = elems > 4096 ? 37 : 1, count = (elems + stride - 1) / stride;
  const auto all = expected.as<float>();
  REQUIRE(all.size() >= (step + 1) * count);
  double worst = 0, largest = 1e-30;
  for (size_t i = 0; i < count; ++i) {
    const double want = static_cast<double>(all[step * count + i]);
    worst = std::fmax(worst, std::fabs(static_cast<double>(got[i * stride]) - want));
    largest = std::fmax(largest, std::fabs(want));
  }
  return worst / largest;
}

void check_stream(const Stream& s, const std::string& path) {
  ImportOptions options;
  for (const auto& [name, values] : s.constants) options.constants[name] = values;
  for (const auto& [name, dims] : s.shapes) options.shapes[name] = dims;
  Runner r = make_runner(path, options);
  must(r.bind(must(r.shapes_for(1))));
  const auto arrays = expected_arrays(std::filesystem::path(s.path).stem().string());
  const auto& inputs = r.program().input_names;
  const auto& outputs = r.program().output_names;
  for (size_t i = 0; i < inputs.size(); ++i) std::memset(r.input(i), 0, r.input_shape(i).elems() * sizeof(float));
  const size_t data = index_of(inputs, s.data);
  const size_t steps = static_cast<size_t>(array(arrays, "output_" + outputs[0]).dims[0]);
  double worst = 0;
  for (size_t step = 0; step < steps; ++step) {
    fill_pseudo_random(reinterpret_cast<float*>(r.input(data)), r.input_shape(data).elems(), step, s.scale);
    must(r.run());
    for (size_t i = 0; i < outputs.size(); ++i)
      worst = std::fmax(worst, difference(r, i, r.output_shape(i).elems(), array(arrays, "output_" + outputs[i]), step));
    for (const State& state : s.states) {
      const size_t to = index_of(inputs, state.input);
      std::memcpy(r.input(to), r.output(index_of(outputs, state.output)), r.input_shape(to).elems() * sizeof(float));
    }
  }
  MESSAGE(std::string(s.path) << ": largest difference " << worst);
  CHECK(worst < 1e-4);
}

constexpr size_t kLength = 128, kTokens = 512, kWindows = 392, kBatch = 8;

// Sum of -log p of the targets under [kLength, kTokens] logits.
double negative_log_likelihood(const float* logits, const uint16_t* targets) {
  double sum = 0;
  for (size_t i = 0; i < kLength; ++i) {
    const float* row = logits + i * kTokens;
    double top = -1e30, total = 0;
    for (size_t k = 0; k < kTokens; ++k) top = std::fmax(top, static_cast<double>(row[k]));
    for (size_t k = 0; k < kTokens; ++k) total += std::exp(static_cast<double>(row[k]) - top);
    sum += std::log(total) + top - static_cast<double>(row[targets[i]]);
  }
  return sum;
}

// Windows begin with the begin token and leave out the last of their tokens.
void load_windows(const std::vector<uint16_t>& text, size_t first, int64_t* to) {
  for (size_t w = 0; w < kBatch; ++w)
    for (size_t i = 0; i < kLength; ++i) *to++ = i == 0 ? 1 : text[(first + w) * kLength + i - 1];
}

}  // namespace

TEST_CASE("audio streams compute what ONNX Runtime computes, with their state carried along") {
  for (const Stream& s : kStreams) {
    const std::string path = data_path(std::string("models/") + s.path);
    if (path.empty()) {
      MESSAGE("skipped, no " << s.path);
      continue;
    }
    CAPTURE(std::string(s.path));
    check_stream(s, path);
  }
}

TEST_CASE("stories260K has the perplexity that ONNX Runtime finds on tinystories") {
  const std::string path = data_path("models/transformer/stories260K_s128.onnx"),
                    tokens = data_path("datasets/tinystories/tokens_tok512.u16");
  if (path.empty() || tokens.empty()) {
    MESSAGE("skipped, no stories260K_s128 or tinystories");
    return;
  }
  std::ifstream in(tokens, std::ios::binary);
  const std::string raw{std::istreambuf_iterator<char>(in), {}};
  std::vector<uint16_t> text(raw.size() / 2);
  std::memcpy(text.data(), raw.data(), text.size() * 2);
  REQUIRE(text.size() >= kWindows * kLength);
  for (uint16_t t : text) REQUIRE(t < kTokens);

  Runner r = make_runner(path, {});
  must(r.bind(must(r.shapes_for(kBatch))));
  const auto arrays = expected_arrays("stories260K_s128");
  const auto expected = array(arrays, "nll").as<double>();
  double sum = 0, worst = 0;
  for (size_t first = 0; first < kWindows; first += kBatch) {
    load_windows(text, first, reinterpret_cast<int64_t*>(r.input(0)));
    must(r.run());
    const auto* logits = reinterpret_cast<const float*>(r.output(0));
    if (first == 0) CHECK(difference(r, 0, kLength * kTokens, array(arrays, "logits"), 0) < 1e-4);
    for (size_t w = 0; w < kBatch; ++w) {
      const double nll = negative_log_likelihood(logits + w * kLength * kTokens, text.data() + (first + w) * kLength);
      worst = std::fmax(worst, std::fabs(nll - expected[first + w]) / expected[first + w]);
      sum += nll;
    }
  }
  const double perplexity = std::exp(sum / (kWindows * kLength));
  MESSAGE("figure: stories260K_s128 has perplexity " << perplexity << " on " << kWindows << " windows of tinystories");
  CHECK(worst < 1e-4);
  CHECK(std::fabs(perplexity - 6.07) < 0.005);
}
