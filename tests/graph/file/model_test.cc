// Model files: what is written is read back, and runs the same.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <fstream>

#include "graph/file/model_file.h"
#include "graph/file/model_samples.h"
#include "graph/graph_run.h"
#include "graph/lineage.h"
#include "graph/lower/load.h"
#include "runtime/file.h"
#include "runtime/host/model.h"
#include "temp_folder.h"

namespace lathe::test {
namespace {

std::vector<std::vector<std::byte>> run_file(const FileBytes& file) {
  auto program = open_program(file);
  REQUIRE_MESSAGE(program, program.error().message);
  return run_program(*program);
}

std::vector<std::vector<std::byte>> run_lowered(const Graph& g) {
  auto program = compile_for_host(g);
  REQUIRE_MESSAGE(program, program.error().message);
  return run_program(*program);
}

TEST_CASE("a graph comes back as it was written, with and without plans") {
  for (const Sample& sample : samples()) {
    const std::string name = sample.name;
    CAPTURE(name);
    const Graph g = parsed(sample.body);
    for (const std::vector<Target>& targets : {std::vector<Target>{}, {Target::kHost}, {Target::kHost, Target::kCortexM}}) {
      WriteOptions options;
      options.targets = targets;
      const FileBytes file = written(g, options);
      auto model = read_model(file);
      REQUIRE_MESSAGE(model, model.error().message);
      CHECK(print(model->graph, true) == print(g, true));
      CHECK(content_hash(model->graph) == content_hash(g));
      CHECK(model->plan_targets.size() == targets.size());
      CHECK(model->writer.find("lathe ") == 0);
      const auto ok = check_model_file(file);
      CHECK_MESSAGE(ok, ok.error().message);
      CHECK(run_file(file) == run_lowered(g));
    }
  }
}

TEST_CASE("metadata, calibration and self-checks come back") {
  Graph g = parsed(samples()[0].body);
  g.metadata["preprocessing"] = "x / 255";
  WriteOptions options;
  options.calib = {{"c", -1.5f, 2.25f, {0, 65535, 17}, "percentile"}};
  options.tests = {{{{DType::kF32, {1, 2}, {1, 2, 3, 4, 5, 6, 7, 8}}}, {{DType::kS8, {3}, {9, 8, 7}}}}};
  auto model = read_model(written(g, options));
  REQUIRE_MESSAGE(model, model.error().message);
  CHECK(model->graph.metadata == g.metadata);
  REQUIRE(model->calib.size() == 1);
  CHECK(model->calib[0].name == "c");
  CHECK(model->calib[0].hi == 2.25f);
  CHECK(model->calib[0].bins == std::vector<uint16_t>{0, 65535, 17});
  CHECK(model->calib[0].observer == "percentile");
  REQUIRE(model->tests.size() == 1);
  CHECK(model->tests[0].inputs[0].data == std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(model->tests[0].outputs[0].dims == std::vector<int32_t>{3});
}

TEST_CASE("canonical constants and programs are views into the file") {
  const auto inside = [](const FileBytes& f, const void* p) { return p >= f.bytes.data && p < f.bytes.data + f.bytes.size; };
  const FileBytes plain = written(parsed(samples()[0].body), {});
  const auto model = read_model(plain);
  REQUIRE(model);
  CHECK(inside(plain, model->graph.value(model->graph.find_value("w")).constant.bytes.data()));
  WriteOptions options;
  options.targets = {Target::kHost};
  const FileBytes compiled = written(parsed(samples()[1].body), options);
  const auto program = open_program(compiled);
  REQUIRE(program);
  CHECK(inside(compiled, (*program)->program.weights().data));
}

TEST_CASE("packed integer constants are stored once for graph and plan") {
  const Graph g = parsed(samples()[1].body);
  WriteOptions options;
  options.targets = {Target::kHost};
  const uint64_t one = written(g, options).bytes.size;
  options.targets.push_back(Target::kCortexM);
  CHECK(written(g, options).bytes.size < one + 2500);  // a second plan, no second weights
}

// Layouts of the weights of a file's convolutions.
std::vector<Layout> weight_layouts(const FileBytes& file) {
  const auto loaded = open_program(file);
  REQUIRE_MESSAGE(loaded, loaded.error().message);
  const Program& p = (*loaded)->program;
  std::vector<Layout> out;
  for (uint32_t i = 0; i < p.step_count(); ++i)
    if (static_cast<Op>(p.step(i).op) == Op::kConv2d) out.push_back(p.tensor(p.input(p.step(i), 1)).layout);
  return out;
}

TEST_CASE("block-sparse weights are stored without their zeros for hosts, and as others are for firmware or on demand") {
  const Graph g = parsed(samples()[4].body);
  WriteOptions options;
  options.targets = {Target::kHost};
  const FileBytes sparse = written(g, options);
  CHECK(weight_layouts(sparse) == std::vector<Layout>{Layout::kGemmS8, Layout::kGemmSparseS8});
  options.sparse = SparseWeights::kOff;
  const FileBytes dense = written(g, options);
  CHECK(weight_layouts(dense) == std::vector<Layout>{Layout::kGemmS8, Layout::kGemmS8});
  CHECK(sparse.bytes.size + 2 * 36 * 64 / 2 < dense.bytes.size);
  CHECK(run_file(sparse) == run_file(dense));
  CHECK(print(read_model(sparse)->graph, true) == print(g, true));
  options.sparse = SparseWeights::kAuto;
  options.targets = {Target::kCortexM};
  options.strip = true;
  FileBytes firmware = written(g, options);
  FileView view;
  REQUIRE(file_open(firmware.bytes, &view).ok());
  Program program;
  REQUIRE(program_open(view.find(SectionKind::kPlan, 1), view.find(SectionKind::kWeights), &program).ok());
  CHECK(program.tensor(program.input(program.step(1), 1)).layout == Layout::kGemmS8);
}

TEST_CASE("a layout that this version does not know is an error that says so") {
  const Graph g = parsed(samples()[4].body);
  WriteOptions options;
  options.targets = {Target::kHost};
  options.strip = true;
  auto bytes = model_bytes(g, options);
  REQUIRE(bytes);
  FileView view;
  const FileBytes whole = aligned_copy(*bytes);
  REQUIRE(file_open(whole.bytes, &view).ok());
  const Bytes plan = view.find(SectionKind::kPlan);
  const auto& header = *reinterpret_cast<const ProgramHeader*>(plan.data);
  size_t changed = 0;
  for (uint32_t i = 0; i < header.tensor_count; ++i) {
    const size_t at = static_cast<size_t>(plan.data - whole.bytes.data) + header.tensor_at + i * header.tensor_bytes;
    auto& layout = (*bytes)[at + offsetof(ProgramTensor, layout)];
    if (layout == static_cast<uint8_t>(Layout::kGemmSparseS8)) layout = 200, ++changed;
  }
  REQUIRE(changed == 1);
  const auto program = open_program(aligned_copy(*bytes));
  REQUIRE_FALSE(program);
  CHECK(program.error().code == Code::kVersion);
}

TEST_CASE("a stripped file runs and has no graph") {
  const Graph g = parsed(samples()[1].body);
  WriteOptions options;
  options.strip = true;
  CHECK(model_bytes(g, options).error().message == "a stripped file needs a target, else nothing can run it");
  options.targets = {Target::kHost};
  const FileBytes file = written(g, options);
  CHECK(run_file(file) == run_lowered(g));
  CHECK(read_model(file).error().message == "file has no graph: it was written with --strip and can only be run");
  CHECK(check_model_file(file));
}

TEST_CASE("files are written whole, and errors name them") {
  const TempFolder folder;
  const std::string path = folder.file("model.lathe");
  REQUIRE(write_model(path, parsed(samples()[0].body)));
  CHECK(read_model(path));
  CHECK(open_program(path));
  CHECK(check_model_file(path));
  CHECK(!write_model(folder.file("no/such/folder/m.lathe"), parsed(samples()[0].body)));
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      << "not a model file, but long enough to hold a header of sixty-four bytes or more";
  const auto broken = read_model(path);
  REQUIRE(!broken);
  CHECK(broken.error().message.find(path) == 0);
}

}  // namespace
}  // namespace lathe::test
