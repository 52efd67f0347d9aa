// Models of one TFLite operator each, against what LiteRT's reference kernels computed (tests/oracle/make_tflite_ops.py).
#include <cmath>
#include <map>

#include "graph/import/tflite/import_tflite.h"
#include "tests/graph/import/expected_run.h"
#include "tests/graph/import/import_checks.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  HostTensor model;
  int steps = 1;  // how far quantized results may be off
  std::map<std::string, HostTensor> inputs, outputs;  // by key: in0, ..., out0, ..., and of a second run again0, ...
};

std::map<std::string, Case> read_cases() {
  std::map<std::string, Case> cases;
  for (NamedTensor& a : expected_arrays("tflite_ops")) {
    const size_t colon = a.name.find(':');
    Case& c = cases[a.name.substr(0, colon)];
    const std::string key = a.name.substr(colon + 1);
    if (key == "model") c.model = std::move(a.tensor);
    else if (key == "steps") c.steps = a.tensor.as<int32_t>()[0];
    else (key.starts_with("in") ? c.inputs : c.outputs)[key] = std::move(a.tensor);
  }
  return cases;
}

// uint8 values with a scale are s8 here.
void shift(HostTensor& t, const Graph& g, ValueId v) {
  if (t.dtype != DType::kU8 || g.value(v).type.dtype != DType::kS8) return;
  for (std::byte& b : t.bytes) b ^= std::byte{0x80};
  t.dtype = DType::kS8;
}

Result<Graph> import_case(const Case& c) {
  const auto owner = std::make_shared<std::vector<std::byte>>(c.model.bytes.begin(), c.model.bytes.end());
  return import_tflite(owner, std::span<const std::byte>(*owner), {}, nullptr);
}

std::vector<double> numbers(const HostTensor& t) {
  std::vector<double> out;
  const auto append = [&]<class T>(std::span<const T> s) { out.assign(s.begin(), s.end()); };
  if (t.dtype == DType::kF32) append(t.as<float>());
  else if (t.dtype == DType::kS8) append(t.as<int8_t>());
  else if (t.dtype == DType::kS16) append(t.as<int16_t>());
  else if (t.dtype == DType::kS32) append(t.as<int32_t>());
  else if (t.dtype == DType::kS64) append(t.as<int64_t>());
  else if (t.dtype == DType::kBool) append(t.as<uint8_t>());
  else FAIL("an output is " << dtype_name(t.dtype));
  return out;
}

// Quantized values may be some steps apart, floats 1e-5 of the largest.
void check_output(const Graph& g, ValueId v, const std::byte* got, HostTensor expected, int steps) {
  shift(expected, g, v);
  REQUIRE(g.value(v).type.dtype == expected.dtype);
  HostTensor result{expected.dtype, expected.dims, {}};
  result.bytes.assign(got, got + expected.bytes.size());
  const std::vector<double> a = numbers(result), b = numbers(expected);
  double worst = 0, largest = 1e-30;
  size_t differing = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::fmax(worst, std::fabs(a[i] - b[i]));
    largest = std::fmax(largest, std::fabs(b[i]));
    differing += a[i] != b[i] ? 1 : 0;
  }
  if (expected.dtype == DType::kF32) {
    CHECK(worst <= 1e-5 * largest);
  } else {
    CHECK(worst <= (g.value(v).quant ? steps : 0));
    if (a.size() >= 50 && expected.dtype == DType::kS8) CHECK(differing * 5 <= a.size());  // ties, not a bias
  }
}

// One run, whose outputs have the keys that begin with `key`.
void check_run(HostSession& session, const std::vector<const void*>& in, const Graph& g, const Case& c, const std::string& key) {
  std::vector<std::vector<std::byte>> results;
  std::vector<void*> out;
  for (uint32_t i = 0; i < g.outputs().size(); ++i) {
    const HostTensor& expected = c.outputs.at(key + std::to_string(i));
    const Shape& shape = session.output_shape(i);
    if (!session.is_open(i)) REQUIRE(std::vector<int64_t>(shape.dims, shape.dims + shape.rank) == expected.dims);
    results.emplace_back(expected.bytes.size());
    out.push_back(results.back().data());
  }
  const auto ran = session.run(in, out);
  if (!ran) FAIL(ran.error().message);
  for (uint32_t i = 0; i < results.size(); ++i) {
    const HostTensor& expected = c.outputs.at(key + std::to_string(i));
    const Shape& shape = session.output_shape(i);
    REQUIRE(std::vector<int64_t>(shape.dims, shape.dims + shape.rank) == expected.dims);
    const auto* open = reinterpret_cast<const std::byte*>(session.output_data(i));
    check_output(g, g.outputs()[i], session.is_open(i) ? open : results[i].data(), expected, c.steps);
  }
}

void check_case(Case c, const Graph& g) {
  std::vector<Shape> shapes;
  std::vector<const void*> in;
  REQUIRE(c.inputs.size() == g.inputs().size());
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    HostTensor& t = c.inputs.at("in" + std::to_string(i));
    shift(t, g, g.inputs()[i]);
    REQUIRE(t.dtype == g.value(g.inputs()[i]).type.dtype);
    shapes.push_back(shape_of(t));
    in.push_back(t.bytes.data());
  }
  const auto session = bound_session(g, shapes, *machine_isa(), 1);
  for (const std::string run : {"out", "again"}) {
    if (!c.outputs.contains(run + "0")) continue;
    CAPTURE(run);
    check_run(*session, in, g, c, run);
  }
}

}  // namespace

TEST_CASE("every tflite operator computes what LiteRT's reference kernel does") {
  const auto cases = read_cases();
  CHECK(cases.size() > 100);
  for (const auto& one : cases) {
    CAPTURE(one.first);
    const auto g = import_case(one.second);
    if (!g) FAIL_CHECK(g.error().message);
    else check_case(one.second, *g);
  }
}
