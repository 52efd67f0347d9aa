// Links: which positions along axes of an op's operands and results carry the same channels. The op table has one function per op
// (graph/ops/, OpDef::links) that says so to a Links; pruning (prune/groups.h) reads what was said.
//
// A position is an index along an axis. "The same channel" means: whoever removes one position removes the other. An axis of
// which an op says nothing is frozen: none of its positions can be removed, the reason being the op. So an op without a function
// freezes all it touches, which is right for all ops if not the best.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/op_def.h"

namespace lathe {

// What a constant operand's axis is to the channels along it.
enum class LinkRole : uint8_t {
  kVector,  // one of the numbers that follow the channel: bias, norm parameters, slopes, added or multiplied constants
  kGamma,   // a batch normalization's scale
  kInput,   // a weight's axis over which it reads the channel
  kOutput,  // a weight's axis over which it makes the channel; an embedding's columns
};

// An axis of an operand or of a result.
struct AxisRef {
  bool result = false;
  uint32_t index = 0;
  uint32_t axis = 0;
  bool operator==(const AxisRef&) const = default;
};
inline AxisRef in_axis(size_t operand, size_t axis) {
  return {false, static_cast<uint32_t>(operand), static_cast<uint32_t>(axis)};
}
inline AxisRef out_axis(size_t axis, size_t result = 0) {
  return {true, static_cast<uint32_t>(result), static_cast<uint32_t>(axis)};
}

// Positions a_begin + i * a_step + [0, a_block) of a are, for each i in [0, count), the channels b_begin + i * b_step + [0,
// b_block) of b.
struct SameLink {
  AxisRef a, b;
  int64_t count = 0;
  int64_t a_begin = 0, b_begin = 0;
  int64_t a_step = 1, b_step = 1;
  int64_t a_block = 1, b_block = 1;
};

// The axes of a, outermost first, run through the same elements as those of b: a reshape. At most one axis on each side can keep
// its positions apart; the reader chooses.
struct MergeLink {
  std::vector<AxisRef> a, b;
};

struct RoleLink {
  AxisRef at;
  LinkRole role;
};
struct FreezeLink {
  AxisRef at;
  std::string why;
};
// Equal counts must go from each of `segments` equal parts of the axis.
struct SegmentLink {
  AxisRef at;
  int64_t segments;
};
// The weight's input axis has its own indices in each of `parts` groups: it has parts * extent positions.
struct PartsLink {
  AxisRef at;
  int64_t parts;
};
// A layer that can take a constant in one of its inputs' channels into its bias: weights (operand, out_axis, in_axis) and the
// operand of the bias, which may be missing. exact: every result sees the whole window. kNoBias: the layer has no such operand; a
// constant that is added to its result serves.
inline constexpr uint32_t kNoBias = 0xffffffffu;
struct AbsorbLink {
  uint32_t data = 0, weight = 1, bias = 2;
  uint32_t out_axis = 0, in_axis = 0;
  bool exact = true;
};

// How many positions an axis has: its extent if that is constant; c for an extent of c times symbols, position i being every
// index that is i modulo c (heads within a batch); 0 for others.
int64_t axis_positions(const DimTable& dims, Dim extent);

class Links {
 public:
  Links(DimTable& dims_of, std::span<const OperandView> operands, std::span<const TensorType> results, const Attrs& attributes)
      : dims(dims_of), in(operands), out(results), attrs(attributes) {}

  // What the op's function reads.
  DimTable& dims;
  std::span<const OperandView> in;
  std::span<const TensorType> out;
  const Attrs& attrs;

  Dim dim(AxisRef at) const;
  size_t rank(size_t operand) const { return in[operand].type->dims.size(); }
  std::optional<int64_t> extent(AxisRef at) const;  // if it is constant
  int64_t positions(AxisRef at) const;              // axis_positions() of its dim
  bool has(size_t operand) const { return operand < in.size() && in[operand]; }

  // What it says. Axes of unknown extent have no positions; where one side of a link has and the other has not, the positions
  // freeze.
  void same(AxisRef a, AxisRef b);  // all positions, one by one
  void same(const SameLink& link);
  void merge(std::vector<AxisRef> a, std::vector<AxisRef> b);
  void makes(AxisRef weight, AxisRef result);  // same(), and the weight makes the channels
  void role(AxisRef at, LinkRole role);
  // A sum runs over the axis: a position that is 0 changes nothing. For constants: role kInput.
  void reduced(AxisRef at);
  // A mean, or a normalization, runs over the axis.
  void averaged(AxisRef at);
  void frozen(AxisRef at, std::string why);
  void segments(AxisRef at, int64_t count);
  void parts(AxisRef weight, int64_t count);
  // A batch axis of a product of two operands that both have it: heads.
  void batched(AxisRef at);
  void untouched(AxisRef at);  // positions may go: the op does not look at them (Shape)
  void shape_operand(size_t operand) { shape_operand_ = static_cast<int>(operand); }  // its elements are the dims of result 0
  void absorbs(const AbsorbLink& link) { absorb_ = link; }

  // What was said.
  const std::vector<SameLink>& same_links() const { return same_; }
  const std::vector<MergeLink>& merge_links() const { return merged_; }
  const std::vector<RoleLink>& roles() const { return roles_; }
  const std::vector<FreezeLink>& freezes() const { return frozen_; }
  const std::vector<AxisRef>& reduced_axes() const { return reduced_; }
  const std::vector<AxisRef>& averaged_axes() const { return averaged_; }
  const std::vector<AxisRef>& batch_axes() const { return batched_; }
  const std::vector<SegmentLink>& segment_links() const { return segments_; }
  const std::vector<PartsLink>& parts_links() const { return parts_; }
  int shape_operand() const { return shape_operand_; }  // -1: none
  const std::optional<AbsorbLink>& absorb() const { return absorb_; }
  bool mentions(AxisRef at) const;

 private:
  std::vector<SameLink> same_;
  std::vector<MergeLink> merged_;
  std::vector<RoleLink> roles_;
  std::vector<FreezeLink> frozen_;
  std::vector<AxisRef> reduced_, averaged_, batched_, mentioned_;
  std::vector<SegmentLink> segments_;
  std::vector<PartsLink> parts_;
  int shape_operand_ = -1;
  std::optional<AbsorbLink> absorb_;
};

// What a Links refers to; lives as long as it is used.
struct LinkSource {
  std::vector<OperandView> operands;
  std::vector<TensorType> results;
};
// The links of `node`, with every axis that its op says nothing of frozen. Requires: a verified graph.
Links node_links(const Graph& graph, const Node& node, LinkSource& source);

// What goes from an op's operands and results, for OpDef::narrow.
class Narrowed {
 public:
  // Requires: gone is ascending and within [0, extent); once per axis.
  void remove(AxisRef at, int64_t extent, std::vector<int64_t> gone) { axes_.push_back({at, extent, std::move(gone)}); }
  bool touched(AxisRef at) const { return find(at) != nullptr; }
  // Requires of both: touched. The extent before; how many of the positions [begin, end) stay.
  int64_t extent(AxisRef at) const { return find(at)->extent; }
  int64_t kept(AxisRef at, int64_t begin, int64_t end) const;
  int64_t kept(AxisRef at) const { return kept(at, 0, extent(at)); }

 private:
  struct Axis {
    AxisRef at;
    int64_t extent;
    std::vector<int64_t> gone;
  };
  const Axis* find(AxisRef at) const;
  std::vector<Axis> axes_;
};

namespace ops {
// Elementwise with broadcasting: axes align from the last; an axis of extent 1, or a missing one, couples nothing.
void link_elementwise(Links& links);
}  // namespace ops

}  // namespace lathe
