// Weights with a zero point become symmetric ones, so that they run on the kernels that all others do.
//
// sum (x - z)(w - z_w) needs weights w - z_w of nine bits. Where they all fit eight, they are the new weights. Else each is
// written as a sum of two or three 8-bit numbers, and the layer reads its input as often:
//
//   w - z_w = w1 + w2   =>   sum (x - z)(w - z_w) = sum (x - z) w1 + sum (x - z) w2
//
// a layer on Concat(x, x) with the weights side by side: along the input channels, or for grouped convolutions (depthwise ones)
// along the kernel's columns, with every pixel there twice and a stride twice as long. Sums are exact and the same as before.
#include <algorithm>
#include <cstdlib>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

struct Split {
  int64_t copies = 1;
  bool columns = false;       // side by side along the columns, else along the input channels
  std::vector<int64_t> dims;  // of the weight as it is
};

bool has_zero_point(const Value& w) {
  return w.kind == ValueKind::kConstant && w.type.dtype == DType::kS8 && w.quant &&
         std::any_of(w.quant->zero_points.begin(), w.quant->zero_points.end(), [](int32_t z) { return z != 0; });
}

int32_t groups_of(const Attrs& attrs) {
  if (const auto* a = std::get_if<Conv2dAttrs>(&attrs)) return a->groups;
  if (const auto* a = std::get_if<ConvTranspose2dAttrs>(&attrs)) return a->groups;
  return 1;
}

// The weights less their zero points, along axis 0 if there are several.
std::vector<int32_t> differences(const Value& w, size_t channels) {
  const std::span<const int8_t> data = w.constant.as<int8_t>();
  const std::vector<int32_t>& z = w.quant->zero_points;
  const size_t per_channel = data.size() / channels;
  std::vector<int32_t> out(data.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = data[i] - z[z.size() == 1 ? 0 : i / per_channel];
  return out;
}

// Whether the layer can read its input several times: columns of a dilated kernel would not lie side by side, and the new
// image's dims are numbers but for the first.
bool fits(const Graph& graph, const Node& node, const Split& s) {
  if (!s.columns) return true;
  const auto* a = std::get_if<Conv2dAttrs>(&node.attrs);
  constexpr int32_t kMost = 1 << 20;
  const std::vector<Dim>& x = graph.value(node.inputs[0]).type.dims;
  return a != nullptr && (a->dilation[1] == 1 || s.dims[2] == 1) && a->stride[1] < kMost && a->pad[1] < kMost &&
         a->pad[3] < kMost && std::all_of(x.begin() + 1, x.end(), [&](Dim d) { return graph.dims().value(d).has_value(); });
}

// The weights as [rows, copies, inner], copies side by side: what is left after the largest 8-bit part of each goes to the
// next.
std::vector<int8_t> side_by_side(const std::vector<int32_t>& w, size_t inner, size_t copies) {
  std::vector<int8_t> out(w.size() * copies);
  for (size_t i = 0; i < w.size(); ++i) {
    int32_t rest = w[i];
    for (size_t c = 0; c < copies; ++c) {
      const int32_t part = std::clamp(rest, -127, 127);
      out[(i / inner * copies + c) * inner + i % inner] = static_cast<int8_t>(part);
      rest -= part;
    }
  }
  return out;
}

// x with its channels, or every pixel, `copies` times.
ValueId repeated(Rewriter& rewriter, NodeId n, const Split& s) {
  Graph& graph = rewriter.graph();
  const ValueId x = graph.node(n).inputs[0];
  const TensorType type = graph.value(x).type;
  const std::string name = graph.node(n).name + ".repeated";
  const AxisAttrs last{static_cast<int32_t>(type.dims.size()) - 1};
  const std::vector<ValueId> parts(static_cast<size_t>(s.copies), x);
  const ValueId joined = rewriter.insert(n, Op::kConcat, last, parts, graph.fresh_name(name), graph.value(x).quant);
  if (!s.columns || !rewriter.ok()) return joined;
  std::vector<int64_t> target;
  for (const Dim d : type.dims) target.push_back(graph.dims().value(d).value_or(-1));
  target[2] *= s.copies;
  const ValueId shape = new_s64_constant(rewriter, name + ".shape", target);
  return rewriter.insert(n, Op::kReshape, NoAttrs{}, {joined, shape}, graph.fresh_name(name + ".pixels"));
}

void split(Rewriter& rewriter, NodeId n, const Split& s, const std::vector<int32_t>& weights) {
  Graph& graph = rewriter.graph();
  std::vector<ValueId> inputs = graph.node(n).inputs;
  const Value w = graph.value(inputs[1]);
  Attrs attrs = graph.node(n).attrs;
  std::vector<int64_t> dims = s.dims;
  size_t inner = static_cast<size_t>(dims.back());
  if (s.copies > 1) {
    dims[s.columns ? 2 : dims.size() - 1] *= s.copies;
    inputs[0] = repeated(rewriter, n, s);
    if (s.columns) {
      auto& a = std::get<Conv2dAttrs>(attrs);
      const auto times = static_cast<int32_t>(s.copies);
      a.stride[1] *= times;
      a.pad[1] *= times;
      a.pad[3] *= times;
      a.dilation[1] = 1;
    }
  }
  TensorType type{DType::kS8, {}};
  for (const int64_t d : dims) type.dims.push_back(graph.dims().constant(d));
  Quant quant = *w.quant;
  std::fill(quant.zero_points.begin(), quant.zero_points.end(), 0);
  quant.qmin = -128;
  quant.qmax = 127;
  const std::vector<int8_t> bytes = side_by_side(weights, inner, static_cast<size_t>(s.copies));
  inputs[1] =
      rewriter.constant(graph.fresh_name(w.name + ".symmetric"), std::move(type), Constant::of(bytes), std::move(quant));
  rewriter.set_node(n, attrs, std::move(inputs));
}

}  // namespace

Result<void> split_weights(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    const bool layer = node.op == Op::kConv2d || node.op == Op::kConvTranspose2d || node.op == Op::kFullyConnected;
    if (node.dead || !layer || !has_zero_point(graph.value(node.inputs[1]))) continue;
    const auto dims = known_dims(graph, node.inputs[1]);
    const auto channels = out_channels(graph, node);
    if (!dims || channels < 1 || graph.value(node.inputs[1]).constant.bytes.empty()) continue;
    const std::vector<int32_t> weights = differences(graph.value(node.inputs[1]), static_cast<size_t>(channels));
    int32_t largest = 1;
    for (const int32_t v : weights) largest = std::max(largest, std::abs(v));
    const Split s{.copies = (largest + 126) / 127, .columns = groups_of(node.attrs) > 1 && largest > 127, .dims = *dims};
    if (fits(graph, node, s)) split(rewriter, n, s, weights);
  }
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
