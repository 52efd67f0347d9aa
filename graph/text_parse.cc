// Reading of the text form; graph/ir.h describes it, text_print.cc writes it.
#include <algorithm>
#include <cstring>
#include <limits>

#include "graph/attrs_text.h"
#include "graph/ir.h"
#include "graph/op_def.h"
#include "graph/text_cursor.h"

namespace lathe {
namespace {

// `splat` must not let a short text ask for any amount of memory.
constexpr int64_t kMaxSplatBytes = int64_t{64} << 20;

Result<DType> parse_dtype(TextCursor& in) {
  LATHE_TRY(const std::string word, in.word());
#define LATHE_DTYPE(name, number, bytes, text) \
  if (word == text) return DType::k##name;
#include "lathe/dtype.def"
#undef LATHE_DTYPE
  return in.error("unknown element type '" + word + "'");
}

// "[a, b]" with `one` for each element.
template <class Fn>
Result<void> parse_list(TextCursor& in, Fn&& one) {
  LATHE_CHECK_OK(in.expect("["));
  for (bool first = true; !in.take("]"); first = false) {
    if (!first) LATHE_CHECK_OK(in.expect(","));
    LATHE_CHECK_OK(one());
  }
  return {};
}

Result<TensorType> parse_type(DimTable& dims, TextCursor& in) {
  TensorType t;
  LATHE_TRY(t.dtype, parse_dtype(in));
  LATHE_CHECK_OK(parse_list(in, [&]() -> Result<void> {
    LATHE_TRY(const Dim d, parse_dim(dims, in));
    t.dims.push_back(d);
    return {};
  }));
  if (auto ok = check_type(dims, t); !ok) return in.error(ok.error().message);
  return t;
}

Result<int32_t> parse_int32(TextCursor& in) {
  LATHE_TRY(const int64_t v, in.integer());
  if (v < std::numeric_limits<int32_t>::min() || v > std::numeric_limits<int32_t>::max()) return in.error("integer is too large");
  return static_cast<int32_t>(v);
}

Result<void> parse_quant_member(TextCursor& in, const std::string& key, Quant& q) {
  const auto scale = [&]() -> Result<void> {
    LATHE_TRY(const float v, in.real<float>());
    q.scales.push_back(v);
    return {};
  };
  const auto zero_point = [&]() -> Result<void> {
    LATHE_TRY(const int32_t v, parse_int32(in));
    q.zero_points.push_back(v);
    return {};
  };
  const auto number = [&](int32_t& out) -> Result<void> {
    LATHE_TRY(out, parse_int32(in));
    return {};
  };
  if (key == "scale") return scale();
  if (key == "zero_point") return zero_point();
  if (key == "scales") return parse_list(in, scale);
  if (key == "zero_points") return parse_list(in, zero_point);
  if (key == "axis") return number(q.axis);
  if (key == "qmin") return number(q.qmin);
  if (key == "qmax") return number(q.qmax);
  return in.error("unknown quantization parameter '" + key + "'");
}

// Zero points that are not given are 0.
Result<std::optional<Quant>> parse_quant(TextCursor& in) {
  std::optional<Quant> none;
  if (!in.take("quant")) return none;
  LATHE_CHECK_OK(in.expect("("));
  Quant q;
  for (bool first = true; !in.take(")"); first = false) {
    if (!first) LATHE_CHECK_OK(in.expect(","));
    LATHE_TRY(const std::string key, in.word());
    LATHE_CHECK_OK(in.expect("="));
    LATHE_CHECK_OK(parse_quant_member(in, key, q));
  }
  if (q.zero_points.empty()) q.zero_points.resize(q.scales.size(), 0);
  return q;
}

template <class T>
void append(std::string& bytes, T v) { bytes.append(reinterpret_cast<const char*>(&v), sizeof(v)); }

template <class T>
Result<void> parse_integer_element(TextCursor& in, std::string& bytes) {
  LATHE_TRY(const int64_t v, in.integer());
  if (v < std::numeric_limits<T>::min() || v > static_cast<int64_t>(std::numeric_limits<T>::max()))
    return in.error("integer does not fit its type");
  append(bytes, static_cast<T>(v));
  return {};
}

template <class T>
Result<void> parse_real_element(TextCursor& in, std::string& bytes) {
  LATHE_TRY(const T v, in.real<T>());
  append(bytes, v);
  return {};
}

Result<void> parse_element(TextCursor& in, DType t, std::string& bytes) {
  switch (t) {
    case DType::kF32: return parse_real_element<float>(in, bytes);
    case DType::kF64: return parse_real_element<double>(in, bytes);
    case DType::kS8: return parse_integer_element<int8_t>(in, bytes);
    case DType::kU8:
    case DType::kBool: return parse_integer_element<uint8_t>(in, bytes);
    case DType::kS16: return parse_integer_element<int16_t>(in, bytes);
    case DType::kU16: return parse_integer_element<uint16_t>(in, bytes);
    case DType::kS32: return parse_integer_element<int32_t>(in, bytes);
    case DType::kU32: return parse_integer_element<uint32_t>(in, bytes);
    case DType::kS64: return parse_integer_element<int64_t>(in, bytes);
    default: return in.error(std::string("elements of type ") + dtype_name(t) + " are written as hex bytes");
  }
}

Result<std::string> parse_splat(DimTable& dims, TextCursor& in, const TensorType& type) {
  int64_t count = 1;
  for (const Dim d : type.dims) {
    const auto v = dims.value(d);
    if (!v) return in.error("constant has symbolic dimension " + dims.text(d));
    if (__builtin_mul_overflow(count, *v, &count) || count > kMaxSplatBytes / dtype_bytes(type.dtype))
      return in.error("splat is too large");
  }
  std::string one, all;
  LATHE_CHECK_OK(parse_element(in, type.dtype, one));
  all.reserve(one.size() * static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) all += one;
  return all;
}

Result<Constant> parse_constant(DimTable& dims, TextCursor& in, const TensorType& type) {
  LATHE_CHECK_OK(in.expect("="));
  std::string bytes;
  if (in.take("...")) return in.error("elements of this constant were elided: print the graph in full");
  if (in.take("splat")) {
    LATHE_TRY(bytes, parse_splat(dims, in, type));
  } else if (in.take("x\"")) {
    LATHE_TRY(bytes, in.hex());
    LATHE_CHECK_OK(in.expect("\""));
  } else {
    LATHE_CHECK_OK(parse_list(in, [&] { return parse_element(in, type.dtype, bytes); }));
  }
  return Constant::copy(std::as_bytes(std::span<const char>(bytes)));
}

class Parser {
 public:
  Parser(std::shared_ptr<DimTable> dims, TextCursor& in) : g_(std::move(dims)), in_(in) {}

  Result<Graph> run() {
    if (!in_.enter()) return in_.error("regions are nested too deeply");
    LATHE_CHECK_OK(in_.expect("graph"));
    LATHE_CHECK_OK(in_.expect("{"));
    while (!in_.take("}")) LATHE_CHECK_OK(statement());
    in_.leave();
    return std::move(g_);
  }

 private:
  Result<void> statement() {
    if (in_.take("meta")) return meta();
    if (in_.take("input")) return source(ValueKind::kInput);
    if (in_.take("constant")) return source(ValueKind::kConstant);
    if (in_.take("variable")) return source(ValueKind::kVariable);
    if (in_.take("output")) {
      LATHE_TRY(const ValueId v, operand());
      g_.add_output(v);
      return {};
    }
    return node();
  }

  Result<void> meta() {
    LATHE_TRY(std::string key, in_.quoted());
    LATHE_CHECK_OK(in_.expect("="));
    LATHE_TRY(g_.metadata[key], in_.quoted());
    return {};
  }

  // A new value's name.
  Result<std::string> new_name() {
    LATHE_CHECK_OK(in_.expect("%"));
    LATHE_TRY(std::string name, in_.name());
    if (g_.find_value(name) != kNoId) return in_.error("value '" + name + "' is defined twice");
    return name;
  }

  Result<ValueId> operand() {
    if (in_.take("_")) return kNoId;
    LATHE_CHECK_OK(in_.expect("%"));
    LATHE_TRY(const std::string name, in_.name());
    const ValueId v = g_.find_value(name);
    if (v == kNoId) return in_.error("value '" + name + "' is not defined");
    return v;
  }

  Result<void> source(ValueKind kind) {
    LATHE_TRY(std::string name, new_name());
    LATHE_CHECK_OK(in_.expect(":"));
    LATHE_TRY(TensorType type, parse_type(g_.dims(), in_));
    LATHE_TRY(std::optional<Quant> quant, parse_quant(in_));
    if (kind == ValueKind::kConstant) {
      LATHE_TRY(Constant bytes, parse_constant(g_.dims(), in_, type));
      g_.add_constant(std::move(name), std::move(type), std::move(bytes), std::move(quant));
      return {};
    }
    if (kind == ValueKind::kInput) {
      g_.add_input(std::move(name), std::move(type), std::move(quant));
      return {};
    }
    if (quant) return in_.error("variables take no quantization parameters");
    LATHE_TRY(Constant bytes, parse_constant(g_.dims(), in_, type));
    g_.add_variable(std::move(name), std::move(type), std::move(bytes));
    return {};
  }

  struct Results {
    std::vector<std::string> names;
    std::vector<std::optional<TensorType>> types;
    std::vector<std::optional<Quant>> quants;
  };

  Result<Results> results() {
    Results r;
    while (in_.peek() == '%') {
      LATHE_TRY(std::string name, new_name());
      if (std::find(r.names.begin(), r.names.end(), name) != r.names.end())
        return in_.error("value '" + name + "' is defined twice");
      r.names.push_back(std::move(name));
      r.types.emplace_back();
      if (in_.take(":")) {
        LATHE_TRY(r.types.back(), parse_type(g_.dims(), in_));
      }
      LATHE_TRY(std::optional<Quant> quant, parse_quant(in_));
      r.quants.push_back(std::move(quant));
      if (!in_.take(",")) break;
    }
    if (!r.names.empty()) LATHE_CHECK_OK(in_.expect("="));
    return r;
  }

  Result<void> node() {
    LATHE_TRY(const Results r, results());
    LATHE_TRY(const std::string op, in_.word());
    const OpDef* def = find_op(op);
    if (def == nullptr) return in_.error("unknown op '" + op + "'");
    std::string name = r.names.empty() ? "" : r.names[0];
    if (in_.peek() == '"') {
      LATHE_TRY(name, in_.quoted());
    }
    LATHE_CHECK_OK(in_.expect("("));
    std::vector<ValueId> inputs;
    while (!in_.take(")")) {
      if (!inputs.empty()) LATHE_CHECK_OK(in_.expect(","));
      LATHE_TRY(const ValueId v, operand());
      inputs.push_back(v);
    }
    LATHE_TRY(Attrs attrs, parse_attrs(def->op, in_));
    std::vector<std::shared_ptr<const Graph>> regions;
    while (in_.take("region")) {
      LATHE_TRY(Graph region, Parser(g_.dim_table(), in_).run());
      regions.push_back(std::make_shared<const Graph>(std::move(region)));
    }
    const auto id =
        g_.add_node(def->op, std::move(attrs), std::move(inputs), std::move(name), r.names, r.quants, std::move(regions));
    if (!id) return in_.error(id.error().message);
    return compare(g_.node(*id), r);
  }

  // What the text says of the results against what inference found.
  Result<void> compare(const Node& n, const Results& r) {
    if (n.outputs.size() != r.names.size())
      return in_.error("node '" + n.name + "' has " + std::to_string(n.outputs.size()) + " results, the text names " +
                       std::to_string(r.names.size()));
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      const TensorType& inferred = g_.value(n.outputs[i]).type;
      if (r.types[i] && *r.types[i] != inferred)
        return in_.error("result '" + r.names[i] + "' is " + print_type(g_.dims(), *r.types[i]) + ", inferred " +
                         print_type(g_.dims(), inferred));
    }
    return {};
  }

  Graph g_;
  TextCursor& in_;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text) {
  TextCursor in(text);
  LATHE_TRY(Graph g, Parser(std::make_shared<DimTable>(), in).run());
  if (!in.at_end()) return in.error("text follows the graph");
  LATHE_CHECK_OK(verify(g));
  return g;
}

}  // namespace lathe
