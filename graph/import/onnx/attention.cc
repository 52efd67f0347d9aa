// Attention, FlexAttention, LinearAttention and RotaryEmbedding, all but the third written with products, softmax and movement.
// Tensors of rank 3 hold the heads side by side in their last axis; inside they are [batch, heads, sequence, size].
#include <cmath>

#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

constexpr Ints kSwapMiddle{4, {0, 2, 1, 3}};
constexpr Ints kSwapLast{4, {0, 1, 3, 2}};

Result<ValueId> real_constant(NodeImport& n, const char* tag, float value) {
  return n.builder().constant(
      {n.builder().value_name(n.name() + ":" + tag), DType::kF32, {}, Constant::of(std::vector<float>{value})});
}

// [batch, sequence, heads * size] as [batch, sequence, heads, size].
Result<ValueId> split_heads(NodeImport& n, const std::string& tag, ValueId x, int64_t heads) {
  std::vector<Dim> dims = n.type(x).dims;
  const auto width = n.dim(x, 2);
  if (heads < 1 || heads > INT32_MAX || (width && *width % heads != 0))
    return fail(Code::kInvalidArgument,
                "the last axis of " + n.dims().text(dims[2]) + " does not hold " + std::to_string(heads) + " heads");
  dims.push_back(n.dims().floordiv(dims[2], n.dims().constant(heads)));
  dims[2] = n.dims().constant(heads);
  return reshaped(n, tag, x, dims);
}

Result<ValueId> slice_last(NodeImport& n, const std::string& tag, ValueId x, int32_t begin, int32_t end, int32_t step = 1) {
  const auto axis = static_cast<int32_t>(n.rank(x)) - 1;
  return n.emit(tag, Op::kSlice, SliceAttrs{Ints{1, {axis}}, Ints{1, {begin}}, Ints{1, {end}}, Ints{1, {step}}}, {x});
}

enum Operand : size_t { kQ, kK, kV, kMask, kPastKey, kPastValue, kLengths };
enum Output : size_t { kY, kPresentKey, kPresentValue, kScores };
// What output kScores holds.
enum ScoresMode : int64_t { kProduct, kCapped, kMasked, kProbabilities };

class AttentionImport {
 public:
  explicit AttentionImport(NodeImport& n) : n_(n) {}
  Result<void> run();
  Result<void> run_flex();

 private:
  Result<void> read_attributes();
  // Scaled scores [batch, heads, queries, keys], and probabilities times values.
  Result<ValueId> product();
  Result<ValueId> context(ValueId probabilities);
  Result<ValueId> modified(const char* attribute, ValueId v);
  Result<ValueId> heads(size_t i, int64_t count);
  // Keys or values behind those of the past.
  Result<ValueId> with_past(size_t i, size_t past, int64_t count, Output output);
  Result<void> group_queries();
  Result<ValueId> capped(ValueId scores);
  Result<void> read_mask(ValueId scores);
  Result<ValueId> softmax(ValueId scores, bool normalize);
  Result<ValueId> regrouped(const char* tag, ValueId v, bool grouped);
  Result<void> expose(ScoresMode mode, ValueId v);
  Result<void> finish(ValueId y);

  NodeImport& n_;
  bool flat_ = false, is_causal_ = false;
  int64_t q_heads_ = 0, kv_heads_ = 0, mode_ = 0, left_ = -1, right_ = -1;
  float scale_ = 0, softcap_ = 0;
  ValueId q_ = kNoId, k_ = kNoId, v_ = kNoId, mask_ = kNoId, lengths_ = kNoId;
  MaskedSoftmaxAttrs window_;
  // Several query heads share keys: their rows stand one after another as those of one head.
  int64_t group_ = 1;
  std::vector<Dim> q_dims_;
};

Result<void> AttentionImport::read_attributes() {
  LATHE_TRY(is_causal_, n_.flag("is_causal", false));
  LATHE_TRY(q_heads_, n_.integer("q_num_heads", 0));
  LATHE_TRY(kv_heads_, n_.integer("kv_num_heads", 0));
  LATHE_TRY(mode_, n_.integer("qk_matmul_output_mode", kProduct));
  LATHE_TRY(left_, n_.integer("left_window_size", -1));
  LATHE_TRY(right_, n_.integer("right_window_size", -1));
  LATHE_TRY(scale_, n_.real("scale", 0.0f));
  LATHE_TRY(softcap_, n_.real("softcap", 0.0f));
  n_.ignore("softmax_precision");
  if (mode_ < kProduct || mode_ > kProbabilities)
    return fail(Code::kInvalidArgument, "qk_matmul_output_mode is " + std::to_string(mode_) + ", not 0 to 3");
  for (int64_t side : {left_, right_})
    if (side < -1 || side > INT32_MAX) return fail(Code::kInvalidArgument, "a window size is " + std::to_string(side));
  if (is_causal_) right_ = right_ < 0 ? 0 : std::min<int64_t>(right_, 0);
  return {};
}

Result<ValueId> AttentionImport::heads(size_t i, int64_t count) {
  static const char* const kTags[] = {"q", "k", "v"};
  LATHE_TRY(const ValueId x, n_.value(i));
  if (n_.rank(x) != (flat_ ? 3u : 4u))
    return fail(Code::kInvalidArgument,
                "input " + std::to_string(i) + " has rank " + std::to_string(n_.rank(x)) + ", not " + (flat_ ? "3" : "4"));
  if (!flat_) return x;
  if (count < 1) return fail(Code::kInvalidArgument, "q_num_heads or kv_num_heads is missing");
  LATHE_TRY(const ValueId split, split_heads(n_, kTags[i], x, count));
  return n_.emit(kTags[i], Op::kTranspose, PermAttrs{kSwapMiddle}, {split});
}

Result<ValueId> AttentionImport::with_past(size_t i, size_t past, int64_t count, Output output) {
  LATHE_TRY(ValueId x, heads(i, count));
  if (n_.has_input(past)) {
    LATHE_TRY(const ValueId before, n_.value(past));
    LATHE_TRY(x, n_.emit(output == kPresentKey ? "present_key" : "present_value", Op::kConcat, AxisAttrs{2}, {before, x}));
  }
  n_.bind({x, nullptr}, output);
  return x;
}

Result<void> AttentionImport::group_queries() {
  const auto q = n_.dim(q_, 1), kv = n_.dim(k_, 1);
  if (!q || !kv) return fail(Code::kUnsupported, "the number of heads is not known; --shape can fix it");
  if (*q == *kv) return {};
  if (*kv == 0 || *q % *kv != 0)
    return fail(Code::kInvalidArgument,
                std::to_string(*q) + " query heads are not a multiple of " + std::to_string(*kv) + " key heads");
  group_ = *q / *kv;
  q_dims_ = n_.type(q_).dims;
  LATHE_TRY(q_, regrouped("grouped_q", q_, true));
  return {};
}

// [b, heads, s, d] as [b, heads / group, group * s, d], and back.
Result<ValueId> AttentionImport::regrouped(const char* tag, ValueId v, bool grouped) {
  if (group_ == 1) return v;
  std::vector<Dim> dims = n_.type(v).dims;
  const Dim group = n_.dims().constant(group_);
  dims[1] = grouped ? n_.dims().floordiv(q_dims_[1], group) : q_dims_[1];
  dims[2] = grouped ? n_.dims().mul(q_dims_[2], group) : q_dims_[2];
  return reshaped(n_, tag, v, dims);
}

Result<ValueId> AttentionImport::capped(ValueId scores) {
  if (softcap_ == 0.0f) return scores;
  LATHE_TRY(const ValueId cap, real_constant(n_, "softcap", softcap_));
  LATHE_TRY(const ValueId part, n_.emit("softcap_part", Op::kDiv, BinaryAttrs{}, {scores, cap}));
  LATHE_TRY(const ValueId t, n_.emit("softcap_tanh", Op::kTanh, NoAttrs{}, {part}));
  return n_.emit("softcapped", Op::kMul, BinaryAttrs{}, {t, cap});
}

// The mask operand, as long as the keys; where the window lies.
Result<void> AttentionImport::read_mask(ValueId scores) {
  window_.left = static_cast<int32_t>(left_);
  window_.right = static_cast<int32_t>(right_);
  if (n_.has_input(kLengths)) {
    LATHE_TRY(lengths_, n_.value(kLengths));
  } else if (n_.has_input(kPastKey) && (left_ >= 0 || right_ >= 0)) {
    LATHE_TRY(const ValueId past, n_.value(kPastKey));
    const auto offset = n_.dim(past, 2);
    if (!offset)
      return fail(Code::kUnsupported, "a causal mask behind a past of unknown length is not supported; --shape can fix it");
    window_.offset = static_cast<int32_t>(*offset);
  }
  if (!n_.has_input(kMask)) return {};
  LATHE_TRY(mask_, n_.value(kMask));
  const size_t rank = n_.rank(mask_);
  if (rank == 0) return fail(Code::kInvalidArgument, "the mask has rank 0");
  const auto have = n_.dim(mask_, rank - 1), need = n_.dim(scores, 3);
  if (!have || !need || *have >= *need) return {};
  PadAttrs pad;
  pad.before.count = pad.after.count = static_cast<int32_t>(rank);
  pad.after.values[rank - 1] = static_cast<int32_t>(*need - *have);
  pad.value = n_.type(mask_).dtype == DType::kBool ? 0.0f : -kInfinity;
  LATHE_TRY(mask_, n_.emit("padded_mask", Op::kPad, pad, {mask_}));
  return {};
}

Result<ValueId> AttentionImport::softmax(ValueId scores, bool normalize) {
  const bool masked = mask_ != kNoId || lengths_ != kNoId || window_.left >= 0 || window_.right >= 0;
  if (!masked) return normalize ? n_.emit("probabilities", Op::kSoftmax, AxisAttrs{3}, {scores}) : scores;
  MaskedSoftmaxAttrs attrs = window_;
  attrs.normalize = normalize ? 1 : 0;
  return n_.emit(normalize ? "probabilities" : "masked", Op::kMaskedSoftmax, attrs, {scores, mask_, lengths_});
}

Result<void> AttentionImport::expose(ScoresMode mode, ValueId v) {
  if (mode == mode_) n_.bind({v, nullptr}, kScores);
  return {};
}

Result<void> AttentionImport::finish(ValueId y) {
  if (!flat_) {
    n_.bind({y, nullptr}, kY);
    return {};
  }
  LATHE_TRY(const ValueId rows, n_.emit("y_rows", Op::kTranspose, PermAttrs{kSwapMiddle}, {y}));
  std::vector<Dim> dims = n_.type(rows).dims;
  dims[2] = n_.dims().mul(dims[2], dims[3]);
  dims.pop_back();
  return finish_reshaped(n_, rows, dims, "y");
}

Result<ValueId> AttentionImport::product() {
  const auto size = n_.dim(q_, 3);
  if (scale_ == 0.0f) {
    if (!size || *size < 1) return fail(Code::kUnsupported, "the head size is not known; --shape can fix it");
    scale_ = static_cast<float>(1.0 / std::sqrt(static_cast<double>(*size)));
  }
  LATHE_CHECK_OK(group_queries());
  MatMulAttrs attrs;
  attrs.b_perm = kSwapLast;
  attrs.scale = scale_;
  LATHE_TRY(const ValueId scores, n_.emit("scores", Op::kMatMul, attrs, {q_, k_}));
  return regrouped("head_scores", scores, false);
}

Result<ValueId> AttentionImport::context(ValueId probabilities) {
  LATHE_TRY(const ValueId p, regrouped("grouped_p", probabilities, true));
  LATHE_TRY(const ValueId y, n_.emit("context", Op::kMatMul, MatMulAttrs{}, {p, v_}));
  return regrouped("head_context", y, false);
}

Result<void> AttentionImport::run() {
  LATHE_CHECK_OK(read_attributes());
  LATHE_TRY(const ValueId q, n_.value(kQ));
  flat_ = n_.rank(q) == 3;
  LATHE_TRY(q_, heads(kQ, q_heads_));
  LATHE_TRY(k_, with_past(kK, kPastKey, kv_heads_, kPresentKey));
  LATHE_TRY(v_, with_past(kV, kPastValue, kv_heads_, kPresentValue));
  LATHE_TRY(ValueId scores, product());
  LATHE_CHECK_OK(expose(kProduct, scores));
  LATHE_TRY(scores, capped(scores));
  LATHE_CHECK_OK(expose(kCapped, scores));
  LATHE_CHECK_OK(read_mask(scores));
  if (mode_ == kMasked && n_.has_output(kScores)) {
    LATHE_TRY(const ValueId masked, softmax(scores, false));
    LATHE_CHECK_OK(expose(kMasked, masked));
  }
  LATHE_TRY(const ValueId p, softmax(scores, true));
  LATHE_CHECK_OK(expose(kProbabilities, p));
  LATHE_TRY(const ValueId y, context(p));
  return finish(y);
}

// Attention whose scores and probabilities the model changes by graphs of its own.
Result<void> AttentionImport::run_flex() {
  LATHE_TRY(scale_, n_.real("scale", 0.0f));
  n_.ignore("softmax_precision");
  LATHE_TRY(q_, heads(kQ, 0));
  LATHE_TRY(k_, heads(kK, 0));
  LATHE_TRY(v_, heads(kV, 0));
  LATHE_TRY(ValueId scores, product());
  LATHE_TRY(scores, modified("score_mod", scores));
  LATHE_TRY(const ValueId p, n_.emit("probabilities", Op::kSoftmax, AxisAttrs{3}, {scores}));
  LATHE_TRY(const ValueId changed, modified("prob_mod", p));
  LATHE_TRY(const ValueId y, context(changed));
  return finish(y);
}

// What the graph in this attribute, if there is one, makes of v.
Result<ValueId> AttentionImport::modified(const char* attribute, ValueId v) {
  if (!n_.has(attribute)) return v;
  LATHE_TRY(const auto results, n_.import_body(attribute, {Binding{v, nullptr}}));
  if (results.size() != 1)
    return fail(Code::kInvalidArgument, std::string(attribute) + " has " + std::to_string(results.size()) + " outputs, not 1");
  Binding b = results[0];
  return n_.builder().materialize(b);
}

// cos or sin for every position, with an axis for the heads.
Result<ValueId> rotary_table(NodeImport& n, size_t i, size_t heads_axis, const char* tag) {
  LATHE_TRY(ValueId t, n.value(i));
  if (n.has_input(3)) {
    LATHE_TRY(const ValueId positions, n.value(3));
    LATHE_TRY(t, n.emit(tag, Op::kGather, AxisAttrs{0}, {t, positions}));
  }
  std::vector<Dim> dims = n.type(t).dims;
  if (dims.size() != 3)
    return fail(Code::kInvalidArgument,
                std::string(tag) + " for each position has rank " + std::to_string(dims.size()) + ", not 3");
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(heads_axis), n.dims().constant(1));
  return reshaped(n, tag, t, dims);
}

struct Complex {
  ValueId real, imag;
};

// (real + i imag)(cos + i sin).
Result<Complex> rotate(NodeImport& n, const Complex& x, const Complex& by) {
  LATHE_TRY(const ValueId a, n.emit("rr", Op::kMul, BinaryAttrs{}, {x.real, by.real}));
  LATHE_TRY(const ValueId b, n.emit("ii", Op::kMul, BinaryAttrs{}, {x.imag, by.imag}));
  LATHE_TRY(const ValueId c, n.emit("ri", Op::kMul, BinaryAttrs{}, {x.real, by.imag}));
  LATHE_TRY(const ValueId d, n.emit("ir", Op::kMul, BinaryAttrs{}, {x.imag, by.real}));
  LATHE_TRY(const ValueId real, n.emit("real", Op::kSub, BinaryAttrs{}, {a, b}));
  LATHE_TRY(const ValueId imag, n.emit("imag", Op::kAdd, BinaryAttrs{}, {c, d}));
  return Complex{real, imag};
}

// Real and imaginary parts back in one axis: side by side, or alternating.
Result<ValueId> join_parts(NodeImport& n, const Complex& y, bool interleaved) {
  const auto last = static_cast<int32_t>(n.rank(y.real)) - 1;
  if (!interleaved) return n.emit("rotated", Op::kConcat, AxisAttrs{last}, {y.real, y.imag});
  std::vector<Dim> dims = n.type(y.real).dims, pairs = dims;
  pairs.push_back(n.dims().constant(1));
  dims.back() = n.dims().mul(dims.back(), n.dims().constant(2));
  LATHE_TRY(const ValueId real, reshaped(n, "real", y.real, pairs));
  LATHE_TRY(const ValueId imag, reshaped(n, "imag", y.imag, pairs));
  LATHE_TRY(const ValueId both, n.emit("pairs", Op::kConcat, AxisAttrs{last + 1}, {real, imag}));
  return reshaped(n, "rotated", both, dims);
}

}  // namespace

Result<void> import_attention(NodeImport& n) { return AttentionImport(n).run(); }
Result<void> import_flex_attention(NodeImport& n) { return AttentionImport(n).run_flex(); }

Result<void> import_rotary_embedding(NodeImport& n) {
  LATHE_TRY(const bool interleaved, n.flag("interleaved", false));
  LATHE_TRY(const int64_t heads, n.integer("num_heads", 0));
  LATHE_TRY(int64_t rotated, n.integer("rotary_embedding_dim", 0));
  LATHE_TRY(ValueId x, n.value(0));
  const std::vector<Dim> dims = n.type(x).dims;
  const bool flat = dims.size() == 3;
  if (dims.size() != 3 && dims.size() != 4)
    return fail(Code::kInvalidArgument, "the input has rank " + std::to_string(dims.size()) + ", not 3 or 4");
  if (flat) {
    LATHE_TRY(x, split_heads(n, "heads", x, heads));
  }
  const auto size = n.dim(x, 3);
  if (!size) return fail(Code::kUnsupported, "the head size is not known; --shape can fix it");
  if (rotated == 0) rotated = *size;
  if (rotated < 2 || rotated % 2 != 0 || rotated > *size)
    return fail(Code::kInvalidArgument,
                "rotary_embedding_dim is " + std::to_string(rotated) + ", the head size " + std::to_string(*size));
  const auto end = static_cast<int32_t>(rotated), half = end / 2;
  LATHE_TRY(const ValueId cos, rotary_table(n, 1, flat ? 2 : 1, "cos"));
  LATHE_TRY(const ValueId sin, rotary_table(n, 2, flat ? 2 : 1, "sin"));
  Complex parts{};
  LATHE_TRY(parts.real, slice_last(n, "x_real", x, 0, interleaved ? end : half, interleaved ? 2 : 1));
  LATHE_TRY(parts.imag, slice_last(n, "x_imag", x, interleaved ? 1 : half, end, interleaved ? 2 : 1));
  LATHE_TRY(const Complex turned, rotate(n, parts, {cos, sin}));
  LATHE_TRY(ValueId y, join_parts(n, turned, interleaved));
  if (rotated < *size) {
    LATHE_TRY(const ValueId rest, slice_last(n, "x_rest", x, end, static_cast<int32_t>(*size)));
    LATHE_TRY(y, n.emit("y", Op::kConcat, AxisAttrs{3}, {y, rest}));
  }
  if (flat) return finish_reshaped(n, y, dims, "flat");
  n.bind({y, nullptr});
  return {};
}

// The update rule only says which of decay and beta there are.
Result<void> import_linear_attention(NodeImport& n) {
  LATHE_TRY(const std::string_view rule, n.text("update_rule", "gated_delta"));
  LATHE_TRY(const int64_t q_heads, n.integer("q_num_heads", 0));
  LATHE_TRY(const int64_t kv_heads, n.integer("kv_num_heads", 0));
  LinearAttentionAttrs attrs;
  LATHE_TRY(attrs.scale, n.real("scale", 0.0f));
  n.ignore("chunk_size");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") return fail(Code::kInvalidArgument, "update_rule is '" + std::string(rule) + "'");
  if (n.has_input(4) != gated || n.has_input(5) != delta)
    return fail(Code::kInvalidArgument,
                "update_rule '" + std::string(rule) + "' does not go with the decay and beta that are given");
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 6; ++i) {
    operands.push_back(kNoId);
    if (!n.has_input(i)) continue;
    LATHE_TRY(operands.back(), n.value(i));
  }
  const auto width = n.rank(operands[0]) == 3 ? n.dim(operands[0], 2) : std::nullopt;
  if (!width) return fail(Code::kUnsupported, "the size of the query is not known; --shape can fix it");
  if (q_heads < 1 || q_heads > *width || kv_heads < 1 || kv_heads > INT32_MAX)
    return fail(Code::kInvalidArgument,
                std::to_string(q_heads) + " and " + std::to_string(kv_heads) + " heads in a query of " + std::to_string(*width));
  attrs.q_heads = static_cast<int32_t>(q_heads);
  attrs.kv_heads = static_cast<int32_t>(kv_heads);
  if (attrs.scale == 0.0f) attrs.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(*width / q_heads)));
  LATHE_TRY(const auto results, n.emit_all("", Op::kLinearAttention, attrs, operands));
  for (size_t i = 0; i < results.size(); ++i) n.bind({results[i], nullptr}, i);
  return {};
}

}  // namespace lathe::onnx
