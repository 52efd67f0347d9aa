// Printing of the text form; graph/ir.h describes it, text_parse.cc reads it.
#include <cmath>
#include <cstring>

#include "graph/attrs_text.h"
#include "graph/ir.h"
#include "graph/text_cursor.h"

namespace lathe {
namespace {

constexpr size_t kListLimit = 16;

template <class T, class Fn>
std::string print_list(const std::vector<T>& values, bool full, Fn&& one) {
  if (!full && values.size() > kListLimit) return "[... " + std::to_string(values.size()) + "]";
  std::string s = "[";
  for (size_t i = 0; i < values.size(); ++i) s += (i ? ", " : "") + one(values[i]);
  return s + "]";
}

std::string print_quant(const Quant& q, bool full) {
  std::string s = " quant(";
  const auto integer = [](int32_t z) { return std::to_string(z); };
  if (q.axis != -1) s += "axis=" + std::to_string(q.axis) + ", ";
  if (q.scales.size() == 1 && q.zero_points.size() == 1) {
    s += "scale=" + print_float(q.scales[0]) + ", zero_point=" + integer(q.zero_points[0]);
  } else {
    s += "scales=" + print_list(q.scales, full, [](float v) { return print_float(v); }) +
         ", zero_points=" + print_list(q.zero_points, full, integer);
  }
  const Quant standard;
  if (q.qmin != standard.qmin) s += ", qmin=" + std::to_string(q.qmin);
  if (q.qmax != standard.qmax) s += ", qmax=" + std::to_string(q.qmax);
  return s + ")";
}

template <class T>
T load(std::span<const std::byte> bytes, size_t i) {
  T v;
  std::memcpy(&v, bytes.data() + i * sizeof(T), sizeof(T));
  return v;
}

// An element that reads back to the same bytes; empty where text cannot say it: NaNs (they have a payload), 16-bit floats.
std::string print_element(DType t, std::span<const std::byte> bytes, size_t i) {
  switch (t) {
    case DType::kF32: return std::isnan(load<float>(bytes, i)) ? "" : print_float(load<float>(bytes, i));
    case DType::kF64: return std::isnan(load<double>(bytes, i)) ? "" : print_float(load<double>(bytes, i));
    case DType::kS8: return std::to_string(load<int8_t>(bytes, i));
    case DType::kU8:
    case DType::kBool: return std::to_string(load<uint8_t>(bytes, i));
    case DType::kS16: return std::to_string(load<int16_t>(bytes, i));
    case DType::kU16: return std::to_string(load<uint16_t>(bytes, i));
    case DType::kS32: return std::to_string(load<int32_t>(bytes, i));
    case DType::kU32: return std::to_string(load<uint32_t>(bytes, i));
    case DType::kS64: return std::to_string(load<int64_t>(bytes, i));
    default: return "";
  }
}

std::string print_hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string s = "x\"";
  s.reserve(bytes.size() * 2 + 3);
  for (const std::byte b : bytes) {
    s += kDigits[std::to_integer<unsigned>(b) >> 4];
    s += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return s + '"';
}

bool all_equal(std::span<const std::byte> bytes, size_t size) {
  return bytes.size() >= 2 * size && std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0;
}

std::string print_constant(DType t, std::span<const std::byte> bytes, bool full) {
  const size_t size = dtype_bytes(t);
  if (size == 0 || bytes.size() % size != 0) return print_hex(bytes);
  const size_t count = bytes.size() / size;
  if (count > kListLimit && all_equal(bytes, size)) {
    if (const std::string v = print_element(t, bytes, 0); !v.empty()) return "splat " + v;
  }
  if (count > kListLimit) return full ? print_hex(bytes) : "...";
  std::string s = "[";
  for (size_t i = 0; i < count; ++i) {
    const std::string v = print_element(t, bytes, i);
    if (v.empty()) return print_hex(bytes);
    s += (i ? ", " : "") + v;
  }
  return s + "]";
}

// Prints broken graphs too (ids out of range as ?): that is when one looks.
class Printer {
 public:
  Printer(const Graph& g, bool full, std::string indent) : g_(g), full_(full), indent_(std::move(indent)) {}

  std::string run() {
    out_ = "graph {\n";
    for (const auto& [key, value] : g_.metadata) line("meta " + quote(key) + " = " + quote(value));
    for (const ValueId v : g_.inputs()) line("input " + typed(v));
    for (ValueId v = 0; v < g_.value_count(); ++v) {
      const Value& value = g_.value(v);
      if (value.dead || (value.kind != ValueKind::kConstant && value.kind != ValueKind::kVariable)) continue;
      line((value.kind == ValueKind::kConstant ? "constant " : "variable ") + typed(v) + " = " +
           print_constant(value.type.dtype, value.constant.bytes, full_));
    }
    for (const NodeId n : g_.order()) line(n < g_.node_count() ? node(g_.node(n)) : "?");
    for (const ValueId v : g_.outputs()) line("output " + name(v));
    return out_ + indent_ + "}";
  }

 private:
  void line(const std::string& text) { out_ += indent_ + "  " + text + "\n"; }
  std::string name(ValueId v) const {
    if (v == kNoId) return "_";
    return "%" + (v < g_.value_count() ? print_name(g_.value(v).name) : "?");
  }
  std::string typed(ValueId v) const {
    if (v >= g_.value_count()) return name(v);
    const Value& value = g_.value(v);
    return name(v) + " : " + print_type(g_.dims(), value.type) + (value.quant ? print_quant(*value.quant, full_) : "");
  }
  std::string node(const Node& n) const {
    std::string s;
    for (size_t i = 0; i < n.outputs.size(); ++i) s += (i ? ", " : "") + typed(n.outputs[i]);
    if (!n.outputs.empty()) s += " = ";
    s += op_name(n.op) ? op_name(n.op) : "?";
    if (n.outputs.empty() || n.outputs[0] >= g_.value_count() || n.name != g_.value(n.outputs[0]).name) s += " " + quote(n.name);
    s += " (";
    for (size_t i = 0; i < n.inputs.size(); ++i) s += (i ? ", " : "") + name(n.inputs[i]);
    s += ")";
    if (const std::string attrs = print_attrs(n.attrs); !attrs.empty()) s += " " + attrs;
    for (const auto& region : n.regions) s += " region " + (region ? Printer(*region, full_, indent_ + "  ").run() : "?");
    return s + contents(n);
  }
  // What shape inference knows of an integer result, as a comment.
  std::string contents(const Node& n) const {
    if (n.outputs.size() != 1 || n.outputs[0] >= g_.value_count() || !g_.value(n.outputs[0]).contents) return "";
    return "  // " + print_list(*g_.value(n.outputs[0]).contents, full_, [this](Dim d) { return g_.dims().text(d); });
  }

  const Graph& g_;
  bool full_;
  std::string indent_;
  std::string out_;
};

}  // namespace

std::string print_type(const DimTable& dims, const TensorType& type) {
  const char* name = dtype_name(type.dtype);
  std::string s = name ? name : "?";
  s += '[';
  for (size_t i = 0; i < type.dims.size(); ++i) s += (i ? "," : "") + dims.text(type.dims[i]);
  return s + ']';
}

std::string print(const Graph& graph, bool full) { return Printer(graph, full, "").run() + "\n"; }

}  // namespace lathe
