// Einsum of one or two operands: axes that share a label go together.
#include <algorithm>

#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

constexpr int32_t kLabels = 16;

// Notes the extent of each label; 1 gives way to what another operand has.
Result<void> note_labels(const InferInput& in, const OperandView& v, const Ints& labels, const char* what, std::vector<Dim>& extents) {
  LATHE_CHECK_OK(want_real(v, what));
  if (static_cast<size_t>(labels.count) != v.type->dims.size())
    return fail(Code::kInvalidArgument, std::string(what) + " has " + std::to_string(labels.count) + " labels and rank " +
                                            std::to_string(v.type->dims.size()));
  for (int32_t i = 0; i < labels.count; ++i) {
    if (labels[i] < 0 || labels[i] >= kLabels) return fail(Code::kInvalidArgument, "label " + std::to_string(labels[i]));
    Dim &known = extents[static_cast<size_t>(labels[i])], d = v.type->dims[static_cast<size_t>(i)];
    if (!known.valid() || in.dims.is(known, 1)) {
      known = d;
    } else if (!in.dims.is(d, 1)) {
      LATHE_TRY(known, agree(in.dims, known, d, "dimension of label " + std::to_string(labels[i])));
    }
  }
  return {};
}

Types infer_einsum(const InferInput& in) {
  const auto& a = std::get<EinsumAttrs>(in.attrs);
  std::vector<Dim> extents(kLabels), out;
  LATHE_CHECK_OK(note_labels(in, in.in[0], a.a, "input 0", extents));
  if (in.in.size() > 1 && in.in[1]) {
    LATHE_CHECK_OK(want_same_kind(in.in[0], in.in[1], "input 1"));
    LATHE_CHECK_OK(note_labels(in, in.in[1], a.b, "input 1", extents));
  }
  for (int32_t i = 0; i < a.y.count; ++i) {
    const int32_t label = a.y[i];
    const bool repeated = std::find(a.y.values, a.y.values + i, label) != a.y.values + i;
    if (label < 0 || label >= kLabels || !extents[static_cast<size_t>(label)].valid() || repeated)
      return fail(Code::kInvalidArgument, "the result has label " + std::to_string(label) + ", which no operand has, or twice");
    out.push_back(extents[static_cast<size_t>(label)]);
  }
  return result({in.in[0].type->dtype, std::move(out)}, false);
}

// One axis per label; a label that the result lacks is summed over. A label twice in one operand takes a diagonal.
void link_einsum(Links& l) {
  const auto& a = std::get<EinsumAttrs>(l.attrs);
  const auto place = [](const Ints& labels, int32_t label) {
    return static_cast<size_t>(std::find(labels.values, labels.values + labels.count, label) - labels.values);
  };
  const auto count = [](const Ints& labels, int32_t label) {
    return std::count(labels.values, labels.values + labels.count, label);
  };
  for (int32_t label = 0; label < kLabels; ++label) {
    if (count(a.a, label) > 1 || count(a.b, label) > 1) continue;
    std::vector<AxisRef> at;
    for (size_t k = 0; k < l.in.size(); ++k) {
      const Ints& labels = k == 0 ? a.a : a.b;
      if (!l.has(k) || count(labels, label) == 0) continue;
      at.push_back(in_axis(k, place(labels, label)));
    }
    if (at.empty() || (at.size() == 2 && l.dim(at[0]) != l.dim(at[1]))) continue;
    if (at.size() == 2) l.same(at[0], at[1]);
    if (count(a.y, label) == 0) {
      for (const AxisRef x : at) l.reduced(x);
      continue;
    }
    const AxisRef y = out_axis(place(a.y, label));
    if (at.size() == 1) l.makes(at[0], y);
    else l.same(at[0], y), l.batched(y);
  }
}

Dim macs_einsum(const InferInput& in, std::span<const TensorType>) {
  std::vector<Dim> extents(kLabels);
  const auto& a = std::get<EinsumAttrs>(in.attrs);
  for (size_t k = 0; k < in.in.size(); ++k) {
    const Ints& labels = k == 0 ? a.a : a.b;
    for (int32_t i = 0; in.in[k] && i < labels.count; ++i)
      extents[static_cast<size_t>(labels[i])] = in.in[k].type->dims[static_cast<size_t>(i)];
  }
  std::erase_if(extents, [](Dim d) { return !d.valid(); });
  return product(in.dims, extents);
}

}  // namespace

constinit const OpDef kEinsum = {
    .op = Op::kEinsum,
    .min_inputs = 1,
    .max_inputs = 2,
    .outputs = 1,
    .infer = infer_einsum,
    .half = HalfForm::kWidened,
    .macs = macs_einsum,
    .links = link_einsum,
};

}  // namespace lathe::ops
