// What every op's inference has in common: arity, attributes, operands that can be relied on, parameters of quantized results.
#include <cmath>
#include <limits>

#include "graph/op_def.h"
#include "graph/ops/typing.h"

namespace lathe {
namespace {

// A dim is 32 bit in programs (lathe/shape.h).
constexpr int64_t kMaxDim = std::numeric_limits<int32_t>::max();

}  // namespace

Result<void> check_type(const DimTable& dims, const TensorType& type) {
  if (dtype_bytes(type.dtype) == 0)
    return fail(Code::kInvalidArgument, "element type " + std::to_string(static_cast<int>(type.dtype)) + " is unknown");
  if (type.dims.size() > kMaxRank)
    return fail(Code::kUnsupported,
                "rank is " + std::to_string(type.dims.size()) + ", at most " + std::to_string(kMaxRank) + " are supported");
  for (const Dim d : type.dims) {
    if (!d.valid()) return fail(Code::kInvalidArgument, "dimension overflows or is too large an expression");
    if (const auto v = dims.value(d); v && (*v < 0 || *v > kMaxDim))
      return fail(Code::kInvalidArgument, "dimension " + std::to_string(*v) + " is out of range");
  }
  return {};
}

namespace {

// Lists within their capacity; floats that are numbers.
Result<void> check_attrs(Op op, const Attrs& attrs) {
  if (attrs.index() != default_attrs(op).index()) return fail(Code::kInvalidArgument, "attributes are those of another op");
  Result<void> status;
  const auto check = [&]<class T>(const char* name, const T& member) {
    if constexpr (std::is_same_v<T, Ints>) {
      if (member.count < 0 || member.count > static_cast<int32_t>(kMaxRank))
        status = fail(Code::kInvalidArgument, std::string(name) + " has " + std::to_string(member.count) + " entries, at most " +
                                                  std::to_string(kMaxRank) + " fit");
    } else if constexpr (std::is_same_v<T, float>) {
      if (std::isnan(member)) status = fail(Code::kInvalidArgument, std::string(name) + " is not a number");
    }
  };
  std::visit([&](const auto& a) { a.visit(a, check); }, attrs);
  return status;
}

Result<std::vector<OperandView>> view_operands(const Graph& graph, const Node& node, const OpDef& def) {
  const size_t n = node.inputs.size();
  if (n < def.min_inputs || (def.max_inputs != kAnyInputs && n > def.max_inputs))
    return fail(Code::kInvalidArgument, std::to_string(n) + " operands, must be " + std::to_string(def.min_inputs) + " to " +
                                            std::to_string(def.max_inputs));
  std::vector<OperandView> views(n);
  for (size_t i = 0; i < n; ++i) {
    const ValueId id = node.inputs[i];
    if (id == kNoId) {
      if (i < def.min_inputs || def.max_inputs == kAnyInputs)
        return fail(Code::kInvalidArgument, "operand " + std::to_string(i) + " is missing");
      continue;
    }
    if (id >= graph.value_count() || graph.value(id).dead)
      return fail(Code::kInvalidArgument, "operand " + std::to_string(i) + " does not exist");
    const Value& v = graph.value(id);
    if (auto ok = check_type(graph.dims(), v.type); !ok)
      return tl::unexpected(with_context(ok.error(), "operand '" + v.name + "'"));
    if (v.quant && quant_rule(def, i).role == QuantRole::kFloatOnly)
      return fail(Code::kInvalidArgument, "operand '" + v.name + "' is quantized, the op takes float only");
    views[i] = {.type = &v.type,
                .quant = &v.quant,
                .contents = v.contents ? &*v.contents : nullptr,
                .constant = v.constant.valid() ? &v.constant : nullptr};
  }
  return views;
}

// The parameters of a result: those asked for, or what the op's rule gives.
Result<std::optional<Quant>> result_quant(const DimTable& dims, const OpDef& def, std::span<const OperandView> in,
                                          const Inferred& out, const std::optional<Quant>& asked) {
  std::optional<Quant> quant;
  if (!out.quantized) {
    if (asked)
      return fail(Code::kInvalidArgument,
                  std::string("result is ") + dtype_name(out.type.dtype) + ", it takes no quantization parameters");
    return quant;
  }
  if (def.quant_out.role == QuantRole::kSameAs) {
    quant = *in[static_cast<size_t>(def.quant_out.index)].quant;
  } else if (def.quant_out.role == QuantRole::kFixed) {
    const QuantParams& f = def.quant_out.fixed;
    quant = Quant{.scales = {f.scale}, .zero_points = {f.zero_point}, .axis = -1, .qmin = f.qmin, .qmax = f.qmax};
    if (def.as_table && asked) quant = asked;  // a table can give any grid; the fixed one is the best
  }
  if (quant && asked && *asked != *quant)
    return fail(Code::kInvalidArgument, "quantization parameters of the result are fixed by the op and differ from those given");
  if (!quant) quant = asked;
  if (!quant) return fail(Code::kInvalidArgument, "quantized result has no quantization parameters");
  if (quant->axis != -1) return fail(Code::kInvalidArgument, "quantization parameters of a result must be per tensor");
  LATHE_CHECK_OK(check_quant(dims, out.type, *quant));
  return quant;
}

struct IntRange {
  int64_t low, high;
};
std::optional<IntRange> int_range(DType t) {
  switch (t) {
    case DType::kS8: return IntRange{-128, 127};
    case DType::kU8: return IntRange{0, 255};
    case DType::kS16: return IntRange{-32768, 32767};
    case DType::kU16: return IntRange{0, 65535};
    case DType::kS32: return IntRange{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    default: return std::nullopt;
  }
}

// The signed type of 8, 16 or 32 bits that a Quantize to these parameters makes.
DType narrowest_holding(const Quant& q) {
  for (const DType t : {DType::kS8, DType::kS16})
    if (const auto range = int_range(t); q.qmin >= range->low && q.qmax <= range->high) return t;
  return DType::kS32;
}

}  // namespace

Result<void> check_quant(const DimTable& dims, const TensorType& type, const Quant& quant) {
  const auto range = int_range(type.dtype);
  if (!range)
    return fail(Code::kInvalidArgument, std::string("quantization parameters on a value of type ") + dtype_name(type.dtype));
  size_t count = 1;
  if (quant.axis != -1) {
    if (quant.axis < 0 || static_cast<size_t>(quant.axis) >= type.dims.size())
      return fail(Code::kInvalidArgument,
                  "quantization axis is " + std::to_string(quant.axis) + ", rank is " + std::to_string(type.dims.size()));
    const auto extent = dims.value(type.dims[static_cast<size_t>(quant.axis)]);
    if (!extent) return fail(Code::kInvalidArgument, "quantization axis has no constant extent");
    count = static_cast<size_t>(*extent);
  }
  if (quant.scales.size() != count || quant.zero_points.size() != count)
    return fail(Code::kInvalidArgument, std::to_string(quant.scales.size()) + " scales and " +
                                            std::to_string(quant.zero_points.size()) + " zero points, must be " +
                                            std::to_string(count));
  if (quant.qmin >= quant.qmax || quant.qmin < range->low || quant.qmax > range->high)
    return fail(Code::kInvalidArgument, "quantized range [" + std::to_string(quant.qmin) + ", " + std::to_string(quant.qmax) +
                                            "] does not fit " + dtype_name(type.dtype));
  for (size_t i = 0; i < count; ++i) {
    if (!std::isnormal(quant.scales[i]) || quant.scales[i] < 0)
      return fail(Code::kInvalidArgument,
                  "scale " + std::to_string(i) + " is " + std::to_string(quant.scales[i]) + ", must be normal and above 0");
    if (quant.zero_points[i] < quant.qmin || quant.zero_points[i] > quant.qmax)
      return fail(Code::kInvalidArgument, "zero point " + std::to_string(quant.zero_points[i]) + " is outside [" +
                                              std::to_string(quant.qmin) + ", " + std::to_string(quant.qmax) + "]");
  }
  return {};
}

Result<std::vector<Inferred>> infer_node(const Graph& graph, const Node& node, std::span<const std::optional<Quant>> quants) {
  if (op_name(node.op) == nullptr)
    return fail(Code::kUnsupported, "op number " + std::to_string(static_cast<int>(node.op)) + " is unknown");
  const OpDef& def = op_def(node.op);
  LATHE_CHECK_OK(check_attrs(node.op, node.attrs));
  LATHE_TRY(const std::vector<OperandView> views, view_operands(graph, node, def));
  LATHE_TRY(std::vector<Inferred> out, def.infer({graph.dims(), views, node.attrs}));
  if (node.op == Op::kQuantize && !quants.empty() && quants[0]) out[0].type.dtype = narrowest_holding(*quants[0]);
  for (size_t i = 0; i < out.size(); ++i) {
    if (auto ok = check_type(graph.dims(), out[i].type); !ok) return tl::unexpected(with_context(ok.error(), "result"));
    // Contents stand for exactly the elements that the type has (a vector reshaped to a symbolic length loses them).
    if (out[i].contents && ops::small_count(graph.dims(), out[i].type.dims) != out[i].contents->size()) out[i].contents.reset();
    LATHE_TRY(out[i].quant, result_quant(graph.dims(), def, views, out[i], i < quants.size() ? quants[i] : std::nullopt));
  }
  return out;
}

Result<std::vector<Inferred>> infer_node(const Graph& graph, const Node& node) {
  // Parameters that a rule gives follow the operands; only chosen ones are kept.
  std::vector<std::optional<Quant>> quants;
  const bool chosen = op_name(node.op) != nullptr &&
                      (op_def(node.op).quant_out.role == QuantRole::kActivation || op_def(node.op).as_table);
  for (const ValueId v : node.outputs) quants.push_back(chosen && v < graph.value_count() ? graph.value(v).quant : std::nullopt);
  return infer_node(graph, node, quants);
}

Result<Dim> node_macs(const Graph& graph, const Node& node) {
  const OpDef& def = op_def(node.op);
  if (def.macs == nullptr) return Dim{};
  LATHE_TRY(const std::vector<OperandView> views, view_operands(graph, node, def));
  std::vector<TensorType> results;
  for (const ValueId v : node.outputs) results.push_back(graph.value(v).type);
  return def.macs(InferInput{graph.dims(), views, node.attrs}, results);
}

}  // namespace lathe
