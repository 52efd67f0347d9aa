#include "tests/fuzz/onnx_seed_text.h"

#include <map>
#include <sstream>

#include "lathe/float16.h"
#include "tests/fuzz/fuzz.h"
#include "tests/graph/import/onnx_writer.h"

namespace lathe::fuzz {
namespace {

using namespace lathe::test;

struct Type {
  ElemType type;
  size_t bytes;
  bool is_real;
};

Type type_of(const std::string& name) {
  static const std::map<std::string, Type> kTypes = {
      {"f32", {ElemType::kFloat, 4, true}},    {"f64", {ElemType::kDouble, 8, true}}, {"f16", {ElemType::kFloat16, 2, true}},
      {"bf16", {ElemType::kBfloat16, 2, true}}, {"s8", {ElemType::kInt8, 1, false}},   {"u8", {ElemType::kUint8, 1, false}},
      {"s16", {ElemType::kInt16, 2, false}},   {"u16", {ElemType::kUint16, 2, false}}, {"s32", {ElemType::kInt32, 4, false}},
      {"u32", {ElemType::kUint32, 4, false}},  {"s64", {ElemType::kInt64, 8, false}}, {"u64", {ElemType::kUint64, 8, false}},
      {"bool", {ElemType::kBool, 1, false}}};
  CHECKED(kTypes.contains(name));
  return kTypes.at(name);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) out.push_back(part);
  return out;
}

// The text between the first `open` and its `close`, which may be absent: then empty.
std::string between(const std::string& text, char open, char close) {
  const size_t from = text.find(open);
  if (from == std::string::npos) return "";
  const size_t to = text.find(close, from);
  CHECKED(to != std::string::npos);
  return text.substr(from + 1, to - from - 1);
}

bool is_number(const std::string& text) { return !text.empty() && text.find_first_not_of("-0123456789.e") == std::string::npos; }

void append(std::string& out, const Type& type, double v) {
  const auto put = [&](auto value) { out.append(reinterpret_cast<const char*>(&value), type.bytes); };
  if (!type.is_real) return put(static_cast<int64_t>(v));  // little-endian
  if (type.bytes == 8) return put(v);
  const auto f = static_cast<float>(v);
  if (type.bytes == 4) put(f);
  else put(type.type == ElemType::kFloat16 ? float_to_half(f) : float_to_bfloat(f));
}

// TensorProto of "f32[2]{1,2}".
std::string tensor(const std::string& name, const std::string& text) {
  const Type type = type_of(text.substr(0, text.find('[')));
  std::vector<int64_t> dims;
  size_t count = 1;
  for (const std::string& d : split(between(text, '[', ']'), ',')) {
    dims.push_back(std::stoll(d));
    count *= static_cast<size_t>(dims.back());
  }
  const std::vector<std::string> values = split(between(text, '{', '}'), ',');
  CHECKED(values.empty() || values.size() == count);
  std::string bytes;
  for (size_t i = 0; i < count; ++i)
    append(bytes, type,
           !values.empty() ? std::stod(values[i])
           : type.is_real  ? 0.25 * static_cast<double>(i % 7 + 1)
                           : static_cast<double>(i % 2));
  return raw_tensor(name, type.type, dims, std::vector<char>(bytes.begin(), bytes.end()));
}

TestDims dims_of(const std::string& text) {
  TestDims out;
  for (const std::string& d : split(between(text, '[', ']'), ','))
    if (is_number(d)) out.emplace_back(static_cast<int64_t>(std::stoll(d)));
    else out.emplace_back(d);
  return out;
}

std::string list_attr(const std::string& name, const std::string& list) {
  const std::vector<std::string> parts = split(list, ',');
  if (list.starts_with('\''))
    return attribute(name, AttributeType::kStrings, [&](pbf_writer& w) {
      for (const std::string& p : parts) w.add_string(field::attribute::kStrings, p.substr(1, p.size() - 2));
    });
  if (list.find('.') == std::string::npos) {
    std::vector<int64_t> values;
    for (const std::string& p : parts) values.push_back(std::stoll(p));
    return ints_attr(name, values);
  }
  std::vector<float> values;
  for (const std::string& p : parts) values.push_back(std::stof(p));
  return floats_attr(name, values);
}

std::string attribute_of(const std::string& word) {
  const size_t at = word.find('=');
  CHECKED(at != std::string::npos);
  const std::string name = word.substr(0, at), value = word.substr(at + 1);
  if (value.starts_with('[')) return list_attr(name, between(value, '[', ']'));
  if (value.starts_with('\'')) return string_attr(name, value.substr(1, value.size() - 2));
  if (!is_number(value)) return tensor_attr(name, tensor("", value));
  return value.find('.') == std::string::npos ? int_attr(name, std::stoll(value)) : float_attr(name, std::stof(value));
}

// The name of an operand; declares what the word declares.
std::string operand(const std::string& word, TestModel& m) {
  const size_t at = word.find_first_of(":=");
  if (word == "_") return "";
  if (at == std::string::npos) return word;
  const std::string name = word.substr(0, at), rest = word.substr(at + 1);
  if (word[at] == '=') m.weight(tensor(name, rest));
  else m.input(name, dims_of(rest), type_of(rest.substr(0, rest.find('['))).type);
  return name;
}

void add_node(std::istringstream& in, TestModel& m) {
  TestNode node;
  std::string word;
  CHECKED(in >> node.op);
  if (const size_t at = node.op.find(':'); at != std::string::npos) {
    const std::string domain = node.op.substr(0, at);
    node.domain = domain == "ms" ? "com.microsoft" : domain == "preview" ? "ai.onnx.preview" : domain;
    node.op.erase(0, at + 1);
  }
  enum { kOperands, kResults, kAttributes } part = kOperands;
  while (in >> word && word != ";") {
    if (word == "->") part = kResults;
    else if (word == "|") part = kAttributes;
    else if (part == kOperands) node.inputs.push_back(operand(word, m));
    else if (part == kResults) node.outputs.push_back(word == "_" ? "" : word);
    else node.attributes.push_back(attribute_of(word));
  }
  if (node.outputs.empty()) node.outputs = {"y"};
  m.node(std::move(node));
}

}  // namespace

std::string onnx_seed(std::string_view line) {
  std::istringstream in{std::string(line)};
  TestModel m;
  CHECKED(in >> m.opset);
  while (in >> std::ws && !in.eof()) add_node(in, m);
  for (const std::string& name : m.nodes.back().outputs)
    if (!name.empty()) m.output(name, ElemType::kUndefined);
  return m.bytes();
}

}  // namespace lathe::fuzz
