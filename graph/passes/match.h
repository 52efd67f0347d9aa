// Questions that passes ask about a graph, and the constants they make. Nothing here edits existing nodes.
#pragma once
#include <optional>
#include <vector>

#include "graph/rewriter.h"

namespace lathe::passes {

// Values of a float constant without quantization parameters, or nothing.
std::optional<std::vector<float>> f32_constant(const Graph& graph, ValueId v);
// A real f32 value (not a quantized one).
bool is_float(const Graph& graph, ValueId v);
// Whether exactly one operand of one node reads v, and v is not an output of the graph: its producer may change what v is.
bool read_once(const Graph& graph, ValueId v);
// Dims as numbers, or nothing if one is symbolic.
std::optional<std::vector<int64_t>> known_dims(const Graph& graph, ValueId v);
// Position of every node in order(), by node id.
std::vector<uint32_t> positions(const Graph& graph);
// Number of the channels that the weights of a convolution, plain or transposed, or of a FullyConnected give, or 0 if that is symbolic.
int64_t out_channels(const Graph& graph, const Node& node);
// Conv2d, ConvTranspose2d or FullyConnected whose epilogue is still free: float, no residual, no clamp.
bool open_epilogue(const Graph& graph, const Node& node);

// The clamp that `attrs` ends in (convolutions, FullyConnected, binary ops, Clamp); null if it has none.
struct ClampBounds {
  float lo = -kInfinity;
  float hi = kInfinity;
};
std::optional<ClampBounds> clamp_of(const Attrs& attrs);
void set_clamp(Attrs& attrs, ClampBounds bounds);
// clamp(clamp(v, first), second) as one clamp.
ClampBounds clamp_after(ClampBounds first, ClampBounds second);

// A constant's value per index of the last axis of an n-channel result: a scalar repeats; [n] and [1, .., 1, n] give their
// elements; anything else is no per-channel constant.
std::optional<std::vector<float>> per_channel_constant(const Graph& graph, ValueId v, int64_t n);

// New constants. `stem` becomes a fresh name.
ValueId new_f32_constant(Rewriter& rewriter, const std::string& stem, const std::vector<int64_t>& dims,
                         const std::vector<float>& values);
ValueId new_s64_constant(Rewriter& rewriter, const std::string& stem, const std::vector<int64_t>& values);

}  // namespace lathe::passes
