// Files of released minors load for ever (tests/golden/README.md).
#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>

#include "graph/file/model_samples.h"
#include "graph/graph_run.h"
#include "runtime/host/session.h"

namespace lathe::test {
namespace {

// Runs a self-check on `program` and compares its outputs, `==`.
void check_case(const std::shared_ptr<const LoadedProgram>& program, const SelfCheck& check) {
  const auto session = HostSession::create(program, {kernels::kIsaScalar, 1});
  REQUIRE_MESSAGE(session, session.error().message);
  std::vector<Shape> shapes;
  std::vector<const void*> in;
  for (const TestArray& a : check.inputs) {
    Shape shape;
    for (const int32_t d : a.dims) shape.dims[shape.rank++] = d;
    shapes.push_back(shape);
    in.push_back(a.data.data());
  }
  const auto bound = (*session)->bind(shapes);
  REQUIRE_MESSAGE(bound, bound.error().message);
  std::vector<std::vector<uint8_t>> results;
  std::vector<void*> out;
  for (const TestArray& a : check.outputs) results.emplace_back(a.data.size());
  for (auto& r : results) out.push_back(r.data());
  REQUIRE((*session)->run(in, out));
  for (size_t i = 0; i < results.size(); ++i) CHECK(results[i] == check.outputs[i].data);
}

TEST_CASE("a file of every released minor loads, passes its check and computes what it did") {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LATHE_SOURCE_ROOT "/tests/golden")) {
    if (entry.path().extension() != ".lathe") continue;
    const std::string path = entry.path().string();
    CAPTURE(path);
    ++files;
    const auto ok = check_model_file(path);
    CHECK_MESSAGE(ok, ok.error().message);
    const auto model = read_model(path);
    REQUIRE_MESSAGE(model, model.error().message);
    REQUIRE(!model->tests.empty());
    const auto program = open_program(path);
    REQUIRE_MESSAGE(program, program.error().message);
    for (const SelfCheck& check : model->tests) check_case(*program, check);
    // The program that this build lowers from the file's graph computes the same.
    const auto again = open_program(written(model->graph, {}));
    REQUIRE_MESSAGE(again, again.error().message);
    for (const SelfCheck& check : model->tests) check_case(*again, check);
  }
  CHECK(files >= 1);
}

}  // namespace
}  // namespace lathe::test
