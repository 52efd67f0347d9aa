// ONNX files: import, and everything behind it.
#include "tests/fuzz/exercise.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/onnx_seed_text.h"
#include "tests/graph/import/onnx_samples.h"

namespace lathe::fuzz {

using namespace lathe::test;

void run_onnx(Bytes bytes) {
  // A block of its own size, so that a sanitizer sees a read past its end.
  const auto owner = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  if (auto graph = import_onnx(OnnxSource{owner, *owner, {}})) {
    CHECKED(verify(*graph).has_value());
    exercise(*graph);
  }
}

namespace {

std::string transformer() {
  TestModel m{.opset = 17};
  m.input("ids", {1, 4}, ElemType::kInt64).output("y");
  m.weight(ramp_tensor("table", {5, 8})).weight(ramp_tensor("g", {8})).weight(ramp_tensor("w", {8, 8}));
  m.weight(i64_tensor("heads", {1, 4, 2, 4})).weight(i64_tensor("flat", {1, 4, 8}));
  m.node({.op = "Gather", .inputs = {"table", "ids"}, .outputs = {"e"}, .attributes = {int_attr("axis", 0)}});
  m.node({.op = "LayerNormalization", .inputs = {"e", "g", "g"}, .outputs = {"n"}, .attributes = {int_attr("axis", -1)}});
  m.node({.op = "MatMul", .inputs = {"n", "w"}, .outputs = {"q"}}).node({.op = "Reshape", .inputs = {"q", "heads"}, .outputs = {"h"}});
  m.node({.op = "Transpose", .inputs = {"h"}, .outputs = {"ht"}, .attributes = {ints_attr("perm", {0, 2, 1, 3})}});
  m.node({.op = "Transpose", .inputs = {"h"}, .outputs = {"hk"}, .attributes = {ints_attr("perm", {0, 2, 3, 1})}});
  m.node({.op = "MatMul", .inputs = {"ht", "hk"}, .outputs = {"a"}}).node({.op = "Softmax", .inputs = {"a"}, .outputs = {"p"}});
  m.node({.op = "MatMul", .inputs = {"p", "ht"}, .outputs = {"v"}});
  m.node({.op = "Transpose", .inputs = {"v"}, .outputs = {"vt"}, .attributes = {ints_attr("perm", {0, 2, 1, 3})}});
  m.node({.op = "Reshape", .inputs = {"vt", "flat"}, .outputs = {"o"}}).node({.op = "Gelu", .inputs = {"o"}, .outputs = {"u"}});
  m.opset = 20;
  m.node({.op = "Add", .inputs = {"u", "e"}, .outputs = {"y"}});
  return m.bytes();
}

// Movement and shapes with operands, where most of the arithmetic on untrusted numbers is.
std::string movement() {
  TestModel m{.opset = 13};
  m.input("x", {"N", 3, 4}).output("y").output("k", ElemType::kInt64);
  m.weight(i64_tensor("b", {0, 1})).weight(i64_tensor("e", {2, 1000})).weight(i64_tensor("axes", {1, 2}));
  m.weight(i64_tensor("steps", {1, 2})).weight(i64_tensor("pads", {0, 1, 0, 0, 0, 2})).weight(f32_tensor("half", {}, {0.5f}));
  m.weight(i64_tensor("last", {-1})).weight(i64_tensor("wide", {2, 1, 3, 4}));
  m.node({.op = "Slice", .inputs = {"x", "b", "e", "axes", "steps"}, .outputs = {"s"}});
  m.node({.op = "Pad", .inputs = {"s", "pads", "half"}, .outputs = {"p"}});
  m.node({.op = "Unsqueeze", .inputs = {"p", "last"}, .outputs = {"u"}}).node({.op = "Squeeze", .inputs = {"u", "last"}, .outputs = {"q"}});
  m.node({.op = "ReduceMean", .inputs = {"q"}, .outputs = {"m"}, .attributes = {ints_attr("axes", {1}), int_attr("keepdims", 0)}});
  m.node({.op = "Clip", .inputs = {"m", "half"}, .outputs = {"y"}});
  m.node({.op = "Expand", .inputs = {"x", "wide"}, .outputs = {"w"}});
  m.node({.op = "Cast", .inputs = {"w"}, .outputs = {"i"}, .attributes = {int_attr("to", 7)}});
  m.node({.op = "Mul", .inputs = {"i", "i"}, .outputs = {"k"}});
  return m.bytes();
}

constexpr const char* kLines[] = {
#include "tests/fuzz/onnx_seeds.inc"
};

// Each way to store the elements of a tensor but raw bytes.
std::string typed_lists() {
  TestModel m;
  const auto list = [&](ElemType type, const std::function<void(pbf_writer&)>& values) {
    const std::string name = "t" + std::to_string(number(type));
    std::string tensor;
    pbf_writer w(tensor);
    w.add_int64(field::tensor::kDims, 2);
    w.add_int32(field::tensor::kDataType, number(type));
    w.add_string(field::tensor::kName, name);
    values(w);
    m.weight(tensor).node({.op = "Neg", .inputs = {name}, .outputs = {"n" + name}}).output("n" + name, ElemType::kUndefined);
  };
  const std::vector<int32_t> ints = {1, 2};
  for (const ElemType t : {ElemType::kInt8, ElemType::kUint8, ElemType::kInt16, ElemType::kUint16, ElemType::kInt32,
                           ElemType::kFloat16, ElemType::kBfloat16})
    list(t, [&](pbf_writer& w) { w.add_packed_int32(field::tensor::kInt32Data, ints.begin(), ints.end()); });
  list(ElemType::kFloat, [&](pbf_writer& w) { w.add_packed_float(field::tensor::kFloatData, ints.begin(), ints.end()); });
  list(ElemType::kDouble, [&](pbf_writer& w) { w.add_packed_double(field::tensor::kDoubleData, ints.begin(), ints.end()); });
  list(ElemType::kInt64, [&](pbf_writer& w) { w.add_packed_int64(field::tensor::kInt64Data, ints.begin(), ints.end()); });
  list(ElemType::kUint64, [&](pbf_writer& w) { w.add_packed_uint64(field::tensor::kUint64Data, ints.begin(), ints.end()); });
  list(ElemType::kUint32, [&](pbf_writer& w) { w.add_packed_uint64(field::tensor::kUint64Data, ints.begin(), ints.end()); });
  return m.bytes();
}

// Weights in another file, which bytes without a folder do not have.
std::string external() {
  TestModel m = one_node(13, "Add", {2}, {}, {"w"});
  std::string tensor, entry;
  pbf_writer w(tensor), e(entry);
  w.add_int64(field::tensor::kDims, 2);
  w.add_int32(field::tensor::kDataType, number(ElemType::kFloat));
  w.add_string(field::tensor::kName, "w");
  e.add_string(field::string_entry::kKey, "location");
  e.add_string(field::string_entry::kValue, "w.bin");
  w.add_message(field::tensor::kExternalData, entry);
  w.add_int32(field::tensor::kDataLocation, onnx::kLocationExternal);
  return m.weight(tensor).bytes();
}

}  // namespace

std::vector<std::string> seeds_onnx() {
  std::vector<std::string> out = {small_model().bytes(), transformer(), movement(), typed_lists(), external()};
  for (const bool taken : {false, true}) out.push_back(if_model(taken).bytes());
  out.push_back(loop_model(3, loop_body("go")).bytes());
  out.push_back(call_model({float_attr("slope", 0.5f)}).bytes());
  out.push_back(call_model({}, {float_attr("slope", 0.5f)}).bytes());
  for (const char* line : kLines) out.push_back(onnx_seed(line));
  return out;
}

}  // namespace lathe::fuzz
