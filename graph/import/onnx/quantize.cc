// QuantizeLinear, DequantizeLinear and the operators on plain integers.
#include "graph/import/onnx/quantize.h"

#include <cmath>

#include "lathe/arith.h"

namespace lathe::onnx {
namespace {

bool is_byte(DType t) { return t == DType::kS8 || t == DType::kU8; }

Quant full_range(DType steps) {
  Quant q{{}, {}, -1, -128, 127};
  if (steps == DType::kS16) q.qmin = -32768, q.qmax = 32767;
  if (steps == DType::kU16) q.qmin = 0, q.qmax = 65535;
  if (steps == DType::kS32) q.qmin = INT32_MIN, q.qmax = INT32_MAX;
  return q;
}

std::vector<int64_t> dims_of(NodeImport& n, ValueId v) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < n.rank(v); ++i) dims.push_back(n.dim(v, i).value_or(-1));
  return dims;
}

bool has_zero(const NodeImport& n, const GridInputs& grid) { return grid.zero != kNone && n.has_input(grid.zero); }

// Operands scale and zero point of QuantizeLinear and its kind, as values.
Result<std::vector<ValueId>> with_parameters(NodeImport& n, ValueId x, const GridInputs& grid) {
  LATHE_TRY(const ValueId scale, n.value(grid.scale));
  std::vector<ValueId> operands = {x, scale};
  if (has_zero(n, grid)) {
    LATHE_TRY(operands.emplace_back(), n.value(grid.zero));
  }
  return operands;
}

// The axis that parameters lie along; 0 where one element serves all.
Result<int32_t> parameter_axis(NodeImport& n, size_t scale, int64_t axis, int64_t block, size_t rank) {
  if (block < 0 || block > INT32_MAX) return fail(Code::kInvalidArgument, "block_size is " + std::to_string(block));
  LATHE_TRY(const ValueId s, n.value(scale));
  const bool single = block == 0 && (n.rank(s) == 0 || (n.rank(s) == 1 && n.dim(s, 0) == 1));
  return single ? Result<int32_t>(0) : n.normalized_axis(axis, rank);
}

// u8 constants become s8, 128 lower.
ConstTensor as_steps(const ConstTensor& t, Quant quant) {
  ConstTensor out{t.name, t.dtype, t.dims, t.bytes, std::move(quant)};
  if (t.dtype != DType::kU8) return out;
  out.dtype = DType::kS8;
  std::vector<uint8_t> bytes(t.bytes.as<uint8_t>().begin(), t.bytes.as<uint8_t>().end());
  for (uint8_t& b : bytes) b ^= 0x80;
  out.bytes = Constant::of(bytes);
  return out;
}

// Plain bytes as a value with parameters: what stood before a ToInteger, if they are its result on this grid.
Result<ValueId> as_quantized(NodeImport& n, const std::string& tag, ValueId integers, const Quant& quant) {
  const Graph& graph = n.builder().graph;
  if (const Node* above = graph.producer(integers); above != nullptr && above->op == Op::kToInteger) {
    if (graph.value(above->inputs[0]).quant == quant) return above->inputs[0];
  }
  return n.emit(tag, Op::kFromInteger, NoAttrs{}, {integers}, quant);
}

Result<ValueId> emit_real(NodeImport& n, const std::string& tag, Op op, Attrs attrs, std::vector<ValueId> inputs) {
  return tag.empty() ? n.emit_output(op, std::move(attrs), std::move(inputs), 0)
                     : n.emit(tag, op, std::move(attrs), std::move(inputs));
}

template <class T> Constant quantized_bytes(const ConstTensor& x, const Quant& q, int32_t shift) {
  size_t inner = 1;
  for (size_t i = static_cast<size_t>(q.axis + 1); q.axis >= 0 && i < x.dims.size(); ++i) inner *= static_cast<size_t>(x.dims[i]);
  const auto values = x.bytes.as<float>();
  std::vector<T> out(values.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t c = q.axis < 0 ? 0 : i / inner % q.scales.size();
    out[i] = static_cast<T>(quantize(values[i], q.scales[c], q.zero_points[c], q.qmin, q.qmax) + shift);
  }
  return Constant::of(out);
}

// A constant that the model stores as floats and quantizes when it runs.
std::optional<Constant> quantized_constant(const ConstTensor& x, const Quant& q, DType steps) {
  switch (steps) {
    case DType::kS8: return quantized_bytes<int8_t>(x, q, 0);
    case DType::kU8: return quantized_bytes<uint8_t>(x, q, 128);
    case DType::kS16: return quantized_bytes<int16_t>(x, q, 0);
    case DType::kU16: return quantized_bytes<uint16_t>(x, q, 0);
    default: return std::nullopt;
  }
}

}  // namespace

Result<DType> step_type(NodeImport& n, size_t zero, DType absent) {
  if (zero == kNone || !n.has_input(zero)) return absent;
  if (const Binding b = n.binding(zero); b.tensor) return b.tensor->dtype;
  LATHE_TRY(const ValueId v, n.value(zero));
  return n.type(v).dtype;
}

Result<std::optional<Quant>> known_grid(NodeImport& n, GridInputs grid, DType steps, int64_t axis,
                                        const std::vector<int64_t>& dims) {
  LATHE_TRY(const auto scale, n.constant(grid.scale));
  std::shared_ptr<const ConstTensor> zero;
  if (has_zero(n, grid)) {
    LATHE_TRY(zero, n.constant(grid.zero));
    if (!zero) return std::nullopt;
  }
  if (!scale || scale->dtype != DType::kF32 || scale->dims.size() > 1) return std::nullopt;
  const size_t count = scale->elems();
  if (zero && (zero->dtype != steps || zero->elems() != count))
    return fail(Code::kInvalidArgument, "the zero point has " + std::to_string(zero->elems()) + " elements of " +
                                            dtype_name(zero->dtype) + ", must have " + std::to_string(count) + " of " +
                                            dtype_name(steps));
  Quant q = full_range(steps);
  if (count != 1) {
    LATHE_TRY(q.axis, n.normalized_axis(axis, dims.size()));
    const int64_t extent = dims[static_cast<size_t>(q.axis)];
    if (extent < 0) return std::nullopt;
    if (static_cast<size_t>(extent) != count)
      return fail(Code::kInvalidArgument, "the scale has " + std::to_string(count) + " elements, axis " + std::to_string(q.axis) +
                                              " has " + std::to_string(extent));
  }
  const auto scales = scale->bytes.as<float>();
  q.scales.assign(scales.begin(), scales.end());
  const std::vector<int64_t> zeros = zero ? zero->ints() : std::vector<int64_t>(count, 0);
  for (size_t i = 0; i < count; ++i) {
    if (!std::isnormal(q.scales[i]) || q.scales[i] < 0) return std::nullopt;
    q.zero_points.push_back(static_cast<int32_t>(zeros[i] - (steps == DType::kU8 ? 128 : 0)));
  }
  return q;
}

Result<Binding> dequantized_operand(NodeImport& n, const std::string& tag, size_t i, GridInputs grid, int64_t axis,
                                    int64_t block) {
  const Binding b = n.binding(i);
  if (b.tensor) {
    LATHE_TRY(const auto quant, block != 0 ? Result<std::optional<Quant>>(std::nullopt)
                                           : known_grid(n, grid, b.tensor->dtype, axis, b.tensor->dims));
    if (quant) {
      ConstTensor t = as_steps(*b.tensor, *quant);
      const bool wide = t.dtype == DType::kS16 || t.dtype == DType::kU16;
      return Binding{kNoId, std::make_shared<const ConstTensor>(wide ? dequantized(t) : std::move(t))};
    }
  }
  LATHE_TRY(const ValueId x, n.value(i));
  const DType steps = n.type(x).dtype;
  LATHE_TRY(const auto quant, block != 0 ? Result<std::optional<Quant>>(std::nullopt)
                                         : known_grid(n, grid, steps, axis, dims_of(n, x)));
  if (quant && quant->axis < 0 && is_byte(steps)) {
    LATHE_TRY(const ValueId q, as_quantized(n, tag.empty() ? "steps" : tag + ":steps", x, *quant));
    LATHE_TRY(const ValueId y, emit_real(n, tag, Op::kDequantize, NoAttrs{}, {q}));
    return Binding{y, nullptr};
  }
  LATHE_TRY(const int32_t along, parameter_axis(n, grid.scale, axis, block, n.rank(x)));
  LATHE_TRY(const auto operands, with_parameters(n, x, grid));
  LATHE_TRY(const ValueId y,
            emit_real(n, tag, Op::kDequantizeLinear, DequantizeLinearAttrs{along, static_cast<int32_t>(block)}, operands));
  return Binding{y, nullptr};
}

Result<void> finish_quantized(NodeImport& n, ValueId x, GridInputs grid, DType steps, int64_t axis, int64_t block,
                              size_t output) {
  const std::optional<Quant> none;
  LATHE_TRY(const auto quant, block != 0 ? none : known_grid(n, grid, steps, axis, dims_of(n, x)));
  if (quant && quant->axis < 0 && is_byte(steps)) {
    LATHE_TRY(const ValueId q, n.emit("quantize", Op::kQuantize, NoAttrs{}, {x}, *quant));
    return n.finish(Op::kToInteger, CastAttrs{static_cast<int32_t>(steps)}, {q}, output, "integers");
  }
  if (!is_byte(steps) && steps != DType::kS16 && steps != DType::kU16)
    return fail(Code::kUnsupported, std::string("quantizing to ") + dtype_name(steps) + " is not supported");
  LATHE_TRY(const int32_t along, parameter_axis(n, grid.scale, axis, block, n.rank(x)));
  LATHE_TRY(const auto operands, with_parameters(n, x, grid));
  const QuantizeLinearAttrs attrs{along, static_cast<int32_t>(block), static_cast<int32_t>(steps)};
  return n.finish(Op::kQuantizeLinear, attrs, operands, output, "quantize");
}

Result<void> import_quantize_linear(NodeImport& n) {
  n.ignore("saturate");  // for 8-bit floats only, which are refused
  LATHE_TRY(const int64_t axis, n.integer("axis", 1));
  LATHE_TRY(const int64_t block, n.integer("block_size", 0));
  LATHE_TRY(const int64_t given, n.integer("output_dtype", 0));
  LATHE_TRY(const int64_t precision, n.integer("precision", 0));
  if (precision != 0 && precision != 1)
    return fail(Code::kUnsupported, "attribute 'precision' " + std::to_string(precision) + " is not supported, only float");
  DType absent = DType::kU8;
  if (given != 0) {
    LATHE_TRY(absent, dtype_of(given < 0 || given > INT32_MAX ? -1 : static_cast<int32_t>(given)));
  }
  LATHE_TRY(const DType steps, step_type(n, 2, absent));
  LATHE_TRY(const auto stored, n.constant(0));
  if (stored && stored->dtype == DType::kF32 && block == 0) {
    LATHE_TRY(const auto quant, known_grid(n, {1, 2}, steps, axis, stored->dims));
    const auto bytes = quant ? quantized_constant(*stored, *quant, steps) : std::nullopt;
    if (bytes) return n.bind_constant({std::string(n.proto().outputs[0]), steps, stored->dims, *bytes});
  }
  LATHE_TRY(ValueId x, n.value(0));
  if (n.type(x).dtype == DType::kS32) {
    LATHE_TRY(x, n.emit("real", Op::kCast, CastAttrs{static_cast<int32_t>(DType::kF32)}, {x}));
  }
  return finish_quantized(n, x, {1, 2}, steps, axis, block);
}

Result<void> import_dequantize_linear(NodeImport& n) {
  LATHE_TRY(const int64_t axis, n.integer("axis", 1));
  LATHE_TRY(const int64_t block, n.integer("block_size", 0));
  LATHE_TRY(const int64_t to, n.integer("output_dtype", 0));
  if (to != 0) {
    LATHE_TRY(const DType dtype, dtype_of(to < 0 || to > INT32_MAX ? -1 : static_cast<int32_t>(to)));
    if (dtype != DType::kF32)
      return fail(Code::kInvalidArgument, std::string("attribute 'output_dtype' is ") + dtype_name(dtype) + ", not a float");
  }
  LATHE_TRY(Binding real, dequantized_operand(n, "", 0, {1, 2}, axis, block));
  n.bind(std::move(real));
  return {};
}

Result<void> import_dynamic_quantize_linear(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish_all(Op::kDynamicQuantizeLinear, NoAttrs{}, {x});
}

Result<void> import_matmul_integer(NodeImport& n) {
  std::vector<ValueId> operands;
  for (size_t i = 0; i < n.input_count(); ++i) {
    LATHE_TRY(operands.emplace_back(), n.has_input(i) ? n.value(i) : Result<ValueId>(kNoId));
  }
  return n.finish(Op::kMatMulInteger, NoAttrs{}, operands);
}

}  // namespace lathe::onnx
