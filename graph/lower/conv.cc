// Conv2d, ConvTranspose2d and FullyConnected: packed weights; for s8 the folded biases and multipliers that ARITHMETIC.md
// defines.
//
// Exact sums: acc = sum (x - z)(w) + b = sum x w + (b - z sum w), so the kernel adds up raw operands and starts from the folded
// bias. With u8 storage memory holds x + 128 and the zero point is z + 128: both folded biases are stored, and a host takes the
// one of its storage. In a transposed convolution each phase adds up other taps, so each has its own folded bias.
#include <cmath>
#include <limits>

#include "graph/lower/lowering.h"
#include "graph/lower/weight_blocks.h"
#include "runtime/exec/conv_geometry.h"
#include "runtime/exec/conv_winograd.h"

namespace lathe {
namespace {

Result<ConvPacking> packing_of(const Graph& graph, const Node& node) {
  const Value& w = graph.value(node.inputs[1]);
  if (w.kind != ValueKind::kConstant && w.type.dtype != DType::kF32)
    return fail(Code::kUnsupported, "weight '" + w.name + "' is not constant");
  LATHE_TRY(const std::vector<int64_t> dims, static_dims(graph, node.inputs[1]));
  int64_t elems = 1;
  for (int64_t d : dims) {
    if (d <= 0 || __builtin_mul_overflow(elems, d, &elems) || elems > std::numeric_limits<int32_t>::max() / 64) {
      return fail(Code::kUnsupported, "weight '" + w.name + "' is empty or too large");
    }
  }
  const auto at = [&](size_t i) { return static_cast<uint32_t>(dims[i]); };
  if (const auto* a = std::get_if<ConvTranspose2dAttrs>(&node.attrs)) {
    if (int64_t{a->stride[0]} * a->stride[1] > kMaxPhases)
      return fail(Code::kUnsupported, "stride " + std::to_string(a->stride[0]) + " x " + std::to_string(a->stride[1]) +
                                          " makes more than " + std::to_string(kMaxPhases) + " phases");
    return conv_transpose_packing(*a, at(0), at(1), at(2), at(3));
  }
  if (node.op != Op::kConv2d) return fully_connected_packing(at(0), at(1));
  return conv_packing(std::get<Conv2dAttrs>(node.attrs), at(0), at(1), at(2), at(3));
}

ValueId optional_input(const Node& node, size_t i) { return i < node.inputs.size() ? node.inputs[i] : kNoId; }

template <class T>
Result<std::span<const T>> constant_of(const Graph& graph, ValueId v, DType dtype, size_t elems, const char* what) {
  const Value& value = graph.value(v);
  if (value.kind != ValueKind::kConstant)
    return fail(Code::kUnsupported, std::string(what) + " '" + value.name + "' is not constant");
  const std::span<const T> data = value.constant.as<T>();
  if (value.type.dtype != dtype || data.size() != elems) {
    return fail(Code::kInvalidArgument, std::string(what) + " '" + value.name + "' must have " + std::to_string(elems) +
                                            " elements of " + dtype_name(dtype) + ", has " + std::to_string(data.size()) +
                                            " of " + dtype_name(value.type.dtype));
  }
  return data;
}

// Packed weights, and a vector over output channels padded like them.
template <class T>
Result<uint32_t> weight_tensor(Lowering& state, const std::vector<T>& packed, DType dtype, Layout layout,
                               const ConvPacking& packing, ValueId w) {
  LATHE_TRY(const std::vector<int64_t> dims, static_dims(state.graph, w));
  return state.packed(packed, {.dtype = dtype, .kind = TensorKind::kConstant, .layout = layout, .value = w, .packing = packing},
                      dims);
}

template <class T>
Result<uint32_t> vector_tensor(Lowering& state, std::span<const T> v, DType dtype, const ConvPacking& packing,
                               ValueId value = kNoId) {
  std::vector<T> padded(packing.vector_elems());
  packing.pad_vector(v.data(), padded.data());
  const int64_t dims[] = {static_cast<int64_t>(v.size())};
  return state.packed(
      padded, {.dtype = dtype, .kind = TensorKind::kConstant, .layout = Layout::kPadded16, .value = value, .packing = packing},
      dims);
}

// How Pack's attribute names the tiles of a layer whose weights are no constants: 0 where it computes tap by tap.
int32_t winograd_form(const Graph& graph, const Node& node, const ConvPacking& packing) {
  if (packing.kh != 3 || packing.kw != 3 || packing.groups != 1 || packing.depthwise) return 0;
  const auto small = [](const int32_t (&pad)[4]) { return pad[0] <= 2 && pad[1] <= 2; };
  const auto plain = [](const auto& a) { return a.stride[0] == 1 && a.stride[1] == 1 && a.dilation[0] == 1 && a.dilation[1] == 1; };
  int32_t form = 0;
  if (const auto* a = std::get_if<Conv2dAttrs>(&node.attrs)) form = plain(*a) && small(a->pad) ? 1 : 0;
  if (const auto* a = std::get_if<ConvTranspose2dAttrs>(&node.attrs))
    form = plain(*a) && small(a->pad) && a->output_pad[0] == 0 && a->output_pad[1] == 0 ? 2 : 0;
  const std::vector<Dim>& y = graph.value(node.outputs[0]).type.dims;
  const auto extent = [&](size_t axis) { return graph.dims().value(y[axis]).value_or(0); };
  return form != 0 && winograd_pays(packing.segs * packing.seg_k / 9, packing.n, extent(1), extent(2)) ? form : 0;
}

// A Pack of weights, or (`vector`) of a vector over output channels, that are known only when the program runs.
Result<uint32_t> packed_when_run(Lowering& state, const Node& node, const ConvPacking& packing, ValueId v, bool vector) {
  const Value& value = state.graph.value(v);
  if (value.type.dtype != DType::kF32) return fail(Code::kUnsupported, "'" + value.name + "' is not constant");
  const auto number = [](uint32_t n) { return static_cast<int32_t>(n); };
  const int32_t winograd = vector ? 0 : winograd_form(state.graph, node, packing);
  const PackAttrs attrs{.vector = vector,
                        .winograd = winograd,
                        .depthwise = packing.depthwise,
                        .groups = number(packing.groups),
                        .n = number(packing.n),
                        .segs = number(packing.segs),
                        .seg_k = number(packing.seg_k),
                        .kernel = {number(packing.kh), number(packing.kw)}};
  ImageWriter::TensorSpec spec{.dtype = DType::kF32, .kind = TensorKind::kTemporary, .value = v};
  spec.layout = vector ? Layout::kPadded16 : packing.depthwise ? Layout::kDwConvF32 : Layout::kGemmF32;
  spec.packed_bytes = (vector ? packing.vector_elems() : packing.packed_f32_elems()) * 4;
  if (winograd != 0) {
    spec.layout = Layout::kWinogradF32;
    spec.packed_bytes = kernels::winograd_packed_elems(packing.n, packing.segs * packing.seg_k / 9) * 4;
  }
  LATHE_TRY(const uint32_t from, state.operand(v));
  LATHE_TRY(const uint32_t to, state.writer.tensor(spec, value.type.dims));
  LATHE_CHECK_OK(state.writer.step({Op::kPack, attrs, {from}, {to}, Dim{}, {node.name, op_name(Op::kPack), 0}}));
  return to;
}

bool is_constant(const Graph& graph, ValueId v) { return graph.value(v).kind == ValueKind::kConstant; }

// Float and half precision: T is float or uint16_t. Biases are float32.
template <class T>
Result<void> lower_real(Lowering& state, const Node& node, const ConvPacking& packing) {
  constexpr bool kHalf = sizeof(T) == 2;
  constexpr DType kDType = kHalf ? DType::kF16 : DType::kF32;
  const Graph& graph = state.graph;
  std::vector<uint32_t> in(4, kNoTensor);
  LATHE_TRY(in[0], state.operand(node.inputs[0]));
  if (is_constant(graph, node.inputs[1])) {
    LATHE_TRY(const auto w, constant_of<T>(graph, node.inputs[1], kDType, packing.weight_elems(), "weight"));
    std::vector<T> packed(packing.packed_f32_elems());
    if constexpr (kHalf) packing.pack_f16(w.data(), packed.data());
    else packing.pack_f32(w.data(), packed.data());
    const Layout layout = packing.depthwise ? (kHalf ? Layout::kDwConvF16 : Layout::kDwConvF32)
                                            : (kHalf ? Layout::kGemmF16 : Layout::kGemmF32);
    LATHE_TRY(in[1], weight_tensor(state, packed, kDType, layout, packing, node.inputs[1]));
  } else {
    LATHE_TRY(in[1], packed_when_run(state, node, packing, node.inputs[1], false));
  }
  if (const ValueId b = optional_input(node, 2); b != kNoId && !is_constant(graph, b)) {
    LATHE_TRY(in[2], packed_when_run(state, node, packing, b, true));
  } else if (b != kNoId) {
    LATHE_TRY(const auto bias, constant_of<float>(graph, b, DType::kF32, packing.groups * packing.n, "bias"));
    LATHE_TRY(in[2], vector_tensor(state, bias, DType::kF32, packing, b));
  }
  LATHE_TRY(in[3], state.operand(optional_input(node, 3)));
  return state.emit(node, node.op, node.attrs, std::move(in));
}

// Scales per output channel of weights that are symmetric, as pass split-weights leaves them.
Result<std::vector<float>> weight_scales(const Value& w, size_t channels) {
  if (!w.quant) return fail(Code::kInvalidArgument, "weight '" + w.name + "' has no quantization parameters");
  for (const int32_t z : w.quant->zero_points)
    if (z != 0)
      return fail(Code::kUnsupported, "weight '" + w.name + "' has zero point " + std::to_string(z) + ", must be symmetric");
  if (w.quant->scales.size() == 1) return std::vector<float>(channels, w.quant->scales[0]);
  if (w.quant->axis != 0 || w.quant->scales.size() != channels) {
    return fail(Code::kUnsupported, "weight '" + w.name + "' has " + std::to_string(w.quant->scales.size()) +
                                        " scales along axis " + std::to_string(w.quant->axis) + " for " +
                                        std::to_string(channels) + " output channels");
  }
  return w.quant->scales;
}

// Sums of one channel's weights: signed and of magnitudes.
struct WeightSums {
  int64_t sum = 0, magnitude = 0;
  void add(std::span<const int8_t> w) {
    for (int8_t v : w) {
      sum += v;
      magnitude += std::abs(int32_t{v});
    }
  }
};

// The kernel elements that one bias belongs to, of channels' weights [taps][depth]. Not phased: all, as one tap.
struct TapSet {
  std::vector<size_t> taps;
  size_t depth;
};

std::vector<TapSet> tap_sets(const Node& node, const ConvPacking& packing, size_t per_channel) {
  const auto* a = std::get_if<ConvTranspose2dAttrs>(&node.attrs);
  if (a == nullptr) return {{{0}, per_channel}};
  const auto taps = [&](int i, uint32_t kernel, uint32_t phase) {
    return phase_taps(kernel, static_cast<uint32_t>(a->stride[i]), static_cast<uint32_t>(a->dilation[i]), phase);
  };
  std::vector<TapSet> sets;
  for (uint32_t i = 0; i < static_cast<uint32_t>(a->stride[0]); ++i) {
    const PhaseTaps rows = taps(0, packing.kh, i);
    for (uint32_t j = 0; j < static_cast<uint32_t>(a->stride[1]); ++j) {
      const PhaseTaps cols = taps(1, packing.kw, j);
      TapSet set{{}, packing.seg_k};
      for (uint32_t r = 0; r < rows.count; ++r) {
        for (uint32_t c = 0; c < cols.count; ++c)
          set.taps.push_back(size_t{rows.first + r * rows.step} * packing.kw + cols.first + c * cols.step);
      }
      sets.push_back(std::move(set));
    }
  }
  return sets;
}

struct Folded {
  std::vector<int32_t> bias_s8, bias_u8;  // padded; one vector per tap set
};

// Folds the zero point into the bias and proves that no sum leaves int32: |bias| + sum of max|x - z| |w| < 2^31.
Result<void> fold_channel(const WeightSums& s, int64_t b, int32_t zero_point, size_t channel, int32_t* bias_s8,
                          int32_t* bias_u8) {
  constexpr int64_t kLimit = int64_t{1} << 31;
  const int64_t reach = std::max<int64_t>(int64_t{zero_point} + 128, int64_t{127} - zero_point);
  const int64_t s8 = b - zero_point * s.sum, u8 = s8 - 128 * s.sum;
  if (std::abs(b) + reach * s.magnitude >= kLimit || std::abs(s8) >= kLimit || std::abs(u8) >= kLimit) {
    return fail(Code::kInvalidArgument, "channel " + std::to_string(channel) + ": the sum can reach " +
                                            std::to_string(std::abs(b) + reach * s.magnitude) + ", which does not fit 32 bits");
  }
  *bias_s8 = static_cast<int32_t>(s8);
  *bias_u8 = static_cast<int32_t>(u8);
  return {};
}

Result<Folded> fold_bias(std::span<const int8_t> w, std::span<const int32_t> bias, const ConvPacking& packing,
                         const std::vector<TapSet>& sets, int32_t zero_point) {
  const size_t channels = size_t{packing.groups} * packing.n, per_channel = w.size() / channels, padded = packing.vector_elems();
  Folded out{std::vector<int32_t>(sets.size() * padded), std::vector<int32_t>(sets.size() * padded)};
  for (size_t i = 0; i < sets.size(); ++i) {
    for (uint32_t c = 0; c < channels; ++c) {
      WeightSums sums;
      for (const size_t tap : sets[i].taps) sums.add(w.subspan(c * per_channel + tap * sets[i].depth, sets[i].depth));
      const size_t at = i * padded + packing.vector_index(c);
      LATHE_CHECK_OK(fold_channel(sums, bias.empty() ? 0 : bias[c], zero_point, c, &out.bias_s8[at], &out.bias_u8[at]));
    }
  }
  return out;
}

// Folded biases as a tensor: of oc elements, times the number of sets.
Result<uint32_t> bias_tensor(Lowering& state, const std::vector<int32_t>& padded, size_t sets, const ConvPacking& packing) {
  const int64_t dims[] = {static_cast<int64_t>(sets * packing.groups * packing.n)};
  return state.packed(
      padded, {.dtype = DType::kS32, .kind = TensorKind::kConstant, .layout = Layout::kPadded16, .packing = packing}, dims);
}

// m[c] = s_x * s_w[c] / s_y in double, rounded once.
Result<std::vector<float>> multipliers(float s_x, const std::vector<float>& s_w, float s_y) {
  std::vector<float> m;
  for (float s : s_w) {
    m.push_back(static_cast<float>(static_cast<double>(s_x) * static_cast<double>(s) / static_cast<double>(s_y)));
    if (!(m.back() > 0) || !std::isfinite(m.back())) {
      return fail(Code::kInvalidArgument, "channel " + std::to_string(m.size() - 1) + ": scale " + std::to_string(s_x) + " * " +
                                              std::to_string(s) + " / " + std::to_string(s_y) +
                                              " is not finite and positive in float32");
    }
  }
  return m;
}

// Rows of a result, as far as they are known before the symbols are.
uint64_t least_pixels(const Graph& graph, ValueId v) {
  const std::vector<Dim>& dims = graph.value(v).type.dims;
  uint64_t pixels = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    const std::optional<int64_t> n = graph.dims().value(dims[i]);
    if (n && *n > 0) pixels *= static_cast<uint64_t>(*n);
  }
  return pixels;
}

// Weights of 8 bits, without their blocks of zeros where that was measured to be faster.
Result<uint32_t> s8_weights(Lowering& state, const Node& node, const ConvPacking& packing, std::span<const int8_t> weights) {
  const std::optional<WeightBlocks> blocks = weight_blocks(state.graph, node);
  if (state.sparse && blocks && blocks->pays(kernels::gemm_sparse_s8_blocks(weights.data(), blocks->shape))) {
    const kernels::SparseShape& shape = blocks->shape;
    std::vector<int8_t> packed(kernels::gemm_sparse_s8_packed_bytes(weights.data(), shape));
    kernels::gemm_sparse_s8_pack(weights.data(), shape, packed.data());
    return weight_tensor(state, packed, DType::kS8, Layout::kGemmSparseS8, packing, node.inputs[1]);
  }
  std::vector<int8_t> packed(packing.packed_s8_bytes());
  packing.pack_s8(weights.data(), packed.data());
  const Layout layout = packing.depthwise ? Layout::kDwConvS8 : Layout::kGemmS8;
  return weight_tensor(state, packed, DType::kS8, layout, packing, node.inputs[1]);
}

// x, weights, bias for s8, bias for u8, multipliers.
Result<std::vector<uint32_t>> s8_operands(Lowering& state, const Node& node, const ConvPacking& packing) {
  const Graph& graph = state.graph;
  const Value &x = graph.value(node.inputs[0]), &w = graph.value(node.inputs[1]), &y = graph.value(node.outputs[0]);
  const size_t channels = packing.groups * packing.n;
  LATHE_TRY(const auto weights, constant_of<int8_t>(graph, node.inputs[1], DType::kS8, packing.weight_elems(), "weight"));
  LATHE_TRY(const QuantParams x_quant, tensor_quant(x));
  LATHE_TRY(const QuantParams y_quant, tensor_quant(y));
  LATHE_TRY(const std::vector<float> s_w, weight_scales(w, channels));
  std::span<const int32_t> bias;
  if (const ValueId b = optional_input(node, 2); b != kNoId) {
    LATHE_TRY(bias, constant_of<int32_t>(graph, b, DType::kS32, channels, "bias"));
  }
  const std::vector<TapSet> sets = tap_sets(node, packing, weights.size() / channels);
  LATHE_TRY(const Folded folded, fold_bias(weights, bias, packing, sets, x_quant.zero_point));
  LATHE_TRY(const std::vector<float> m, multipliers(x_quant.scale, s_w, y_quant.scale));

  std::vector<uint32_t> in(5, kNoTensor);
  LATHE_TRY(in[0], state.operand(node.inputs[0]));
  LATHE_TRY(in[1], s8_weights(state, node, packing, weights));
  LATHE_TRY(in[2], bias_tensor(state, folded.bias_s8, sets.size(), packing));
  LATHE_TRY(in[3], bias_tensor(state, folded.bias_u8, sets.size(), packing));
  LATHE_TRY(in[4], vector_tensor<float>(state, m, DType::kF32, packing));
  return in;
}

// 16-bit activations: x, weights and bias as they are, multipliers.
Result<void> lower_wide(Lowering& state, const Node& node) {
  const Graph& graph = state.graph;
  const Value &w = graph.value(node.inputs[1]), &y = graph.value(node.outputs[0]);
  if (w.type.dtype != DType::kS8 || y.type.dtype != DType::kS16) return fail(Code::kUnsupported, "no kernel for s16 operands");
  LATHE_TRY(const std::vector<int64_t> dims, static_dims(graph, node.inputs[1]));
  if (w.kind != ValueKind::kConstant) return fail(Code::kUnsupported, "weight '" + w.name + "' is not constant");
  if (optional_input(node, 3) != kNoId) return fail(Code::kUnsupported, "a residual of 16 bits");
  const auto channels = static_cast<size_t>(dims[0]);
  std::vector<int64_t> bias(channels, 0);
  if (const ValueId b = optional_input(node, 2); b != kNoId) {
    LATHE_TRY(const auto elements, constant_of<int64_t>(graph, b, DType::kS64, channels, "bias"));
    std::copy(elements.begin(), elements.end(), bias.begin());
  }
  for (const int64_t b : bias)
    if (b <= -(int64_t{1} << 62) || b >= int64_t{1} << 62)
      return fail(Code::kInvalidArgument, "bias " + std::to_string(b) + " is too large");
  LATHE_TRY(const QuantParams x_quant, tensor_quant(graph.value(node.inputs[0])));
  LATHE_TRY(const QuantParams y_quant, tensor_quant(y));
  if (x_quant.zero_point != 0 || y_quant.zero_point != 0)
    return fail(Code::kUnsupported, "activations of 16 bits with a zero point");
  LATHE_TRY(const std::vector<float> s_w, weight_scales(w, channels));
  LATHE_TRY(const std::vector<float> m, multipliers(x_quant.scale, s_w, y_quant.scale));
  const int64_t vector_dims[] = {dims[0]};
  std::vector<uint32_t> in(5, kNoTensor);
  LATHE_TRY(in[0], state.operand(node.inputs[0]));
  const std::span<const int8_t> elements = w.constant.as<int8_t>();
  LATHE_TRY(in[1], state.derived(std::vector<int8_t>(elements.begin(), elements.end()), DType::kS8, dims));
  LATHE_TRY(in[2], state.derived(bias, DType::kS64, vector_dims));
  LATHE_TRY(in[4], state.derived(m, DType::kF32, vector_dims));
  return state.emit(node, node.op, node.attrs, std::move(in));
}

}  // namespace

std::optional<WeightBlocks> weight_blocks(const Graph& graph, const Node& node) {
  if (node.op != Op::kConv2d && node.op != Op::kFullyConnected) return std::nullopt;
  const Value& w = graph.value(node.inputs[1]);
  if (w.kind != ValueKind::kConstant || (w.type.dtype != DType::kF32 && w.type.dtype != DType::kS8)) return std::nullopt;
  const Result<ConvPacking> packing = packing_of(graph, node);
  if (!packing || packing->depthwise || packing->groups != 1) return std::nullopt;
  return WeightBlocks{node.inputs[1], packing->sparse_shape(), least_pixels(graph, node.outputs[0])};
}

Result<void> lower_conv(Lowering& state, const Node& node) {
  const Graph& graph = state.graph;
  if (const Value& x = graph.value(node.inputs[0]); x.type.dtype == DType::kS16 && x.quant) return lower_wide(state, node);
  LATHE_TRY(const ConvPacking packing, packing_of(graph, node));
  const DType dtype = graph.value(node.inputs[0]).type.dtype;
  if (dtype == DType::kF32) return lower_real<float>(state, node, packing);
  if (dtype == DType::kF16) return lower_real<uint16_t>(state, node, packing);
  if (!is_s8(graph, node.inputs[0]) || !is_s8(graph, node.outputs[0])) {
    return fail(Code::kUnsupported,
                std::string("no kernel for ") + dtype_name(graph.value(node.inputs[0]).type.dtype) + " operands");
  }
  LATHE_TRY(std::vector<uint32_t> in, s8_operands(state, node, packing));
  in.push_back(kNoTensor);
  LATHE_TRY(in[5], state.operand(optional_input(node, 3)));
  return state.emit(node, node.op, node.attrs, std::move(in));
}

// x, weights, start of the sums for s8 and for u8 (only the shift by 128: activations have zero point 0), s_w, bias, residual.
Result<void> lower_dynamic(Lowering& state, const Node& node) {
  const Graph& graph = state.graph;
  LATHE_TRY(const ConvPacking packing, packing_of(graph, node));
  LATHE_TRY(const auto weights, constant_of<int8_t>(graph, node.inputs[1], DType::kS8, packing.weight_elems(), "weight"));
  LATHE_TRY(const std::vector<float> s_w, weight_scales(graph.value(node.inputs[1]), packing.n));
  LATHE_TRY(const Folded start, fold_bias(weights, {}, packing, tap_sets(node, packing, weights.size() / packing.n), 0));
  std::vector<int8_t> packed(packing.packed_s8_bytes());
  packing.pack_s8(weights.data(), packed.data());
  std::vector<uint32_t> in(7, kNoTensor);
  LATHE_TRY(in[0], state.operand(node.inputs[0]));
  LATHE_TRY(in[1], weight_tensor(state, packed, DType::kS8, Layout::kGemmS8, packing, node.inputs[1]));
  LATHE_TRY(in[2], bias_tensor(state, start.bias_s8, 1, packing));
  LATHE_TRY(in[3], bias_tensor(state, start.bias_u8, 1, packing));
  LATHE_TRY(in[4], vector_tensor<float>(state, s_w, DType::kF32, packing));
  if (const ValueId b = optional_input(node, 2); b != kNoId) {
    LATHE_TRY(const auto bias, constant_of<float>(graph, b, DType::kF32, packing.n, "bias"));
    LATHE_TRY(in[5], vector_tensor(state, bias, DType::kF32, packing, b));
  }
  LATHE_TRY(in[6], state.operand(optional_input(node, 3)));
  return state.emit(node, node.op, node.attrs, std::move(in));
}

}  // namespace lathe
