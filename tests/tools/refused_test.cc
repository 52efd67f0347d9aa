// Models that must not load, given to the command as a user would: exit status 1, and lines that say which file, where in it, and
// what is wrong. Every file but those of LATHE_DATA is made here.
#include <doctest/doctest.h>

#include <filesystem>

#include "graph/file/model_file.h"
#include "graph/graph_run.h"
#include "runtime/file.h"
#include "tests/data/damage.h"
#include "tests/graph/import/onnx_samples.h"
#include "tests/graph/import/tflite_writer.h"
#include "tests/temp_folder.h"
#include "tests/test_data.h"
#include "tests/tools/command.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct BrokenFile {
  const char* name;
  std::string bytes;
  // One list a line of the message: all that the line must say. Files of several problems have a heading.
  std::vector<std::vector<std::string>> lines;
};

// The command refuses `path`: with status 1, these lines, and no output left behind.
void check_lines(const std::vector<std::string>& command, const std::string& path,
                 const std::vector<std::vector<std::string>>& lines) {
  const CommandResult r = run_lathe(command);
  CAPTURE(path);
  CAPTURE(r.err);
  CHECK(r.status == 1);
  CHECK(line_count(r.err) == lines.size());
  CHECK(r.err.starts_with("lathe: " + path + ": "));
  size_t from = 0;
  for (const auto& parts : lines) {
    const size_t end = std::min(r.err.find('\n', from), r.err.size());
    const std::string line = r.err.substr(from, end - from);
    for (const std::string& part : parts) CHECK_MESSAGE(contains(line, part), part);
    from = end + 1;
  }
}

void check_files(const std::vector<BrokenFile>& files) {
  for (const BrokenFile& f : files) {
    const TempFolder folder;
    const std::string path = folder.file(f.name), out = folder.file("out.lathe");
    overwrite(path, bytes_of(f.bytes));
    check_lines({"import", path, "-o", out}, path, f.lines);
    CHECK_FALSE(std::filesystem::exists(out));
    check_lines({"bench", path, "--seconds", "0.01"}, path, f.lines);
  }
}

// An initializer w of two floats in another file.
TestModel with_external(const std::string& location, const std::string& offset = "0") {
  std::string tensor;
  pbf_writer w(tensor);
  w.add_int64(field::tensor::kDims, 2);
  w.add_int32(field::tensor::kDataType, number(ElemType::kFloat));
  w.add_string(field::tensor::kName, "w");
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", location}, {"offset", offset}}) {
    std::string entry;
    pbf_writer e(entry);
    e.add_string(field::string_entry::kKey, key);
    e.add_string(field::string_entry::kValue, value);
    w.add_message(field::tensor::kExternalData, entry);
  }
  w.add_int32(field::tensor::kDataLocation, onnx::kLocationExternal);
  return one_node(13, "Add", {2}, {}, {"w"}).weight(tensor);
}

TestModel cyclic() {
  TestModel m = one_node(13, "Relu", {4});
  m.nodes[0].inputs = {"z"};
  return m.node({.op = "Exp", .inputs = {"y"}, .outputs = {"z"}, .name = "back"});
}

TestModel unsupported_twice() {
  TestModel m;
  m.input("x", {4}).output("y");
  m.node({.op = "Martian", .inputs = {"x"}, .outputs = {"a"}, .name = "first"});
  m.node({.op = "Exp", .inputs = {"a"}, .outputs = {"b"}, .name = "behind"});
  return m.node({.op = "StringSplit", .inputs = {"b"}, .outputs = {"y"}, .name = "second"});
}

std::vector<BrokenFile> broken_onnx() {
  const std::string whole = small_model().bytes();
  TestModel doubled = one_node(13, "Relu", {4});
  doubled.node(doubled.nodes[0]);
  TestModel types = one_node(13, "Add", {4}, {}, {"i"});
  types.input("i", {4}, ElemType::kInt64);
  TestModel declared = one_node(13, "Relu", {4});
  declared.outputs.clear();
  declared.output("y", ElemType::kInt64);
  TestModel sized = one_node(13, "Add", {4}, {}, {"w"});
  sized.weight(raw_tensor<float>("w", ElemType::kFloat, {4}, {1, 2, 3}));
  TestModel huge = one_node(13, "Add", {4}, {}, {"w"});
  huge.weight(raw_tensor<float>("w", ElemType::kFloat, {1 << 20, 1 << 20, 1 << 20}, {1}));
  TestModel axis = one_node(13, "Softmax", {4}, {int_attr("axis", 7)});
  return {
      {"truncated.onnx", whole.substr(0, whole.size() / 2), {{"onnx model"}}},
      {"picture.onnx", "GIF89a, certainly not a network", {{"not an onnx model"}}},
      {"empty.onnx", "", {{"file is empty"}}},
      {"cycle.onnx", cyclic().bytes(), {{"the graph has a cycle", "node 'n' waits for its own result"}}},
      {"missing.onnx", one_node(13, "Add", {4}, {}, {"w"}).bytes(), {{"node 'n' reads 'w', which nothing makes"}}},
      {"twice.onnx", doubled.bytes(), {{"value 'y' is made twice"}}},
      {"types.onnx", types.bytes(), {{"node 'n' (Add, opset 13)", "s64", "f32"}}},
      {"declared.onnx", declared.bytes(), {{"output 'y' is int64 in the file and computed as f32"}}},
      {"short.onnx", sized.bytes(), {{"'w'", "12", "16"}}},
      {"huge.onnx", huge.bytes(), {{"'w'", "[1048576,1048576,1048576]", "over the limit"}}},
      {"axis.onnx", axis.bytes(), {{"node 'n' (Softmax, opset 13)", "7"}}},
      {"escape.onnx", with_external("../../outside.bin").bytes(), {{"'w'", "../../outside.bin"}}},
      {"absolute.onnx", with_external("/etc/passwd").bytes(), {{"'w'", "/etc/passwd"}}},
      {"absent.onnx", with_external("absent.bin").bytes(), {{"'w'", "absent.bin"}}},
      {"behind.onnx", with_external("behind.onnx", "100000").bytes(), {{"'w'", "behind.onnx", "100000"}}},
      {"future.onnx", one_node(99, "Relu", {4}).bytes(), {{"opset 99 is not supported"}}},
      {"martian.onnx",
       unsupported_twice().bytes(),
       {{"2 things are not supported"}, {"node 'first'", "operator Martian"}, {"node 'second'", "StringSplit", "strings"}}},
  };
}

// x of two floats and its hyperbolic tangent.
TfliteModel tanh_model() {
  TfliteModel m;
  m.inputs = {m.add({.name = "x", .dims = {2}})};
  m.outputs = {m.add({.name = "y", .dims = {2}})};
  m.operators.push_back({kTflTanh, {0}, {1}, {}, {}});
  return m;
}

std::vector<BrokenFile> broken_tflite() {
  const std::string whole = tanh_model().bytes();
  const auto changed = [](void (*change)(TfliteModel&)) {
    TfliteModel m = tanh_model();
    change(m);
    return m.bytes();
  };
  std::string root = whole, identifier = whole;
  root.replace(0, 4, "\xf0\xff\xff\x7f");
  identifier.replace(4, 4, "LIFE");
  return {
      {"root.tflite", root, {{"the file is damaged"}}},
      {"identifier.tflite", identifier, {{"not a tflite model"}}},
      {"truncated.tflite", whole.substr(0, whole.size() / 2), {{"the file is damaged"}}},
      {"index.tflite",
       changed([](TfliteModel& m) { m.operators[0].inputs[0] = 99; }),
       {{"operator 0", "tensor 99", "there are 2"}}},
      {"order.tflite",
       changed([](TfliteModel& m) { m.operators[0].inputs[0] = 1; }),
       {{"TANH 0", "'y'", "read before anything"}}},
      {"bytes.tflite", changed([](TfliteModel& m) { m.tensors[0].data = {1, 2, 3}; }), {{"tensor 0", "3 bytes", "8"}}},
      {"huge.tflite", changed([](TfliteModel& m) { m.tensors[0].dims = {1 << 30, 1 << 30}; }), {{"tensor 0", "2^31"}}},
      {"custom.tflite",
       changed([](TfliteModel& m) { m.operators[0] = {kTflCustom, {0}, {1}, {}, "Fold"}; }),
       {{"1 thing is not supported"}, {"custom operator Fold 0", "'y'"}}},
  };
}

}  // namespace

TEST_CASE("broken onnx files are refused, one line a problem") { check_files(broken_onnx()); }

TEST_CASE("broken tflite files are refused, one line a problem") { check_files(broken_tflite()); }

TEST_CASE("broken lathe files are refused with the section that is wrong") {
  const Graph graph = parsed("input %x : f32[2]\n%y = Tanh (%x)\noutput %y");
  WriteOptions options;
  options.targets = {Target::kHost};
  const auto written = model_bytes(graph, options);
  REQUIRE(written.has_value());
  const std::string whole(written->begin(), written->end());
  std::string magic = whole, size = whole, sections = whole, content = whole;
  magic[0] = 'X';
  size.resize(whole.size() - 1);
  sections[8] = static_cast<char>(sections[8] ^ 0x40);
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
  const struct {
    const char* name;
    std::string bytes;
  } files[] = {{"magic.lathe", magic}, {"size.lathe", size}, {"header.lathe", sections}, {"content.lathe", content}};
  for (const auto& f : files) {
    const TempFolder folder;
    const std::string path = folder.file(f.name);
    overwrite(path, bytes_of(f.bytes));
    check_lines({"check", path}, path, {{}});
  }
}

TEST_CASE("models of other worlds are refused, one line for each operator that is missing") {
  const std::string folder = data_path("models/awkward");
  if (folder.empty()) return say_skipped("awkward models", "no models/awkward under LATHE_DATA");
  const TempFolder out;
  const std::string onnx = folder + "/superres_prepost_customdomain.onnx", tflite = folder + "/audio_preprocessor_int8.tflite";
  check_lines({"import", onnx, "-o", out.file("x.lathe")}, onnx,
              {{"2 things are not supported"},
               {"DecodeImage", "'pre_process_0'", "domain"},
               {"EncodeImage", "'post_process_52'", "domain"}});
  std::vector<std::vector<std::string>> lines = {{"9 things are not supported"}};
  for (const char* name : {"Window", "FftAutoScale", "Rfft", "Energy", "FilterBank", "FilterBankSquareRoot",
                           "FilterBankSpectralSubtraction", "PCAN", "FilterBankLog"})
    lines.push_back({std::string("custom operator Signal") + name, "not supported"});
  check_lines({"import", tflite, "-o", out.file("x.lathe")}, tflite, lines);
  CHECK(out.entries() == 0);
}
