// Pad before a Conv2d (zeros), an AvgPool2d (zeros that it counts) or a MaxPool2d (minus infinity) becomes the op's own padding,
// if it pads rows and columns only and takes nothing away. The Pad itself goes when nothing else reads it.
#include <limits>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

// Rows and columns of an NHWC tensor only, none negative.
bool pads_image(const PadAttrs& p) {
  if (p.before.count != 4 || p.after.count != 4) return false;
  if (p.before[0] != 0 || p.after[0] != 0 || p.before[3] != 0 || p.after[3] != 0) return false;
  return p.before[1] >= 0 && p.before[2] >= 0 && p.after[1] >= 0 && p.after[2] >= 0;
}

bool add_pads(int32_t (&pad)[4], const PadAttrs& p) {
  const int32_t extra[4] = {p.before[1], p.before[2], p.after[1], p.after[2]};
  for (int i = 0; i < 4; ++i) {
    if (__builtin_add_overflow(pad[i], extra[i], &pad[i])) return false;
  }
  return true;
}

// Every window must keep a real pixel.
bool smaller_than_window(const Pool2dAttrs& a) {
  for (int i = 0; i < 4; ++i) {
    if (a.pad[i] >= a.kernel[i % 2]) return false;
  }
  return true;
}

std::optional<Attrs> with_pads(const Node& node, const PadAttrs& pad) {
  if (node.op == Op::kConv2d) {
    Conv2dAttrs a = std::get<Conv2dAttrs>(node.attrs);
    if (pad.value != 0.0f || !add_pads(a.pad, pad)) return std::nullopt;
    return a;
  }
  if (node.op != Op::kMaxPool2d && node.op != Op::kAvgPool2d) return std::nullopt;
  Pool2dAttrs a = std::get<Pool2dAttrs>(node.attrs);
  const bool own_pads = a.pad[0] != 0 || a.pad[1] != 0 || a.pad[2] != 0 || a.pad[3] != 0;
  if (a.ceil_mode != 0 || !add_pads(a.pad, pad) || !smaller_than_window(a)) return std::nullopt;
  if (node.op == Op::kMaxPool2d) return pad.value == -kInfinity ? std::optional<Attrs>(a) : std::nullopt;
  if (pad.value != 0.0f || (own_pads && a.count_pad == 0)) return std::nullopt;
  a.count_pad = 1;
  return a;
}

}  // namespace

Result<void> fuse_pad(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    const Node* above = node.dead || node.inputs.empty() ? nullptr : graph.producer(node.inputs[0]);
    if (above == nullptr || above->op != Op::kPad || !pads_image(std::get<PadAttrs>(above->attrs))) continue;
    const ValueId from = above->inputs[0];
    if (!(graph.value(from).quant == graph.value(node.inputs[0]).quant)) continue;
    const std::optional<Attrs> attrs = with_pads(node, std::get<PadAttrs>(above->attrs));
    if (!attrs) continue;
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = from;
    rewriter.set_node(n, *attrs, std::move(inputs));
  }
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
