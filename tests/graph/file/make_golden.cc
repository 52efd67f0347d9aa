// Writes the golden file of this version: `make_golden tests/golden/format-<major>.<minor>.lathe`, once, when a minor is
// released.
#include <cstdio>
#include <cstring>

#include "graph/file/model_samples.h"
#include "graph/graph_run.h"
#include "graph/lower/load.h"

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

namespace {

using namespace lathe;

TestArray array(DType dtype, std::vector<int32_t> dims, const std::vector<std::byte>& bytes) {
  TestArray a{dtype, std::move(dims), std::vector<uint8_t>(bytes.size())};
  std::memcpy(a.data.data(), bytes.data(), bytes.size());
  return a;
}

// The quantized sample, which is exact on every machine; its input is an output too, so that the self-check knows it.
int write(const char* path) {
  const Graph g = test::parsed(test::samples()[1].body);
  const Graph echo = test::parsed(test::samples()[1].body + "output %x\n");
  const auto out = test::run_graph(echo);
  WriteOptions options;
  options.targets = {Target::kHost, Target::kCortexM};
  options.calib = {{"a", -900.0f, 1000.0f, {1, 40, 65535, 40, 2}, "minmax"}};
  options.tests = {{{array(DType::kS8, {2, 6, 6, 3}, out[1])}, {array(DType::kS8, {2, 5}, out[0])}}};
  const auto done = write_model(path, g, options);
  if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return done ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  doctest::Context context;
  context.setAsDefaultForAssertsOutOfTestCases();
  return write(argv[1]);
}
