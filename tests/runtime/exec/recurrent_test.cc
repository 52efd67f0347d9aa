// Lstm, Gru and Rnn against a reference in double that follows ONNX's equations, and MaskedSoftmax against one that first writes
// the whole mask down.
#include "tests/runtime/exec/op_run.h"

using namespace lathe;
using namespace lathe::test;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double cell_function(int32_t kind, double a, double b, double x) {
  switch (static_cast<CellFunction>(kind)) {
    case CellFunction::kSigmoid: return sigmoid(x);
    case CellFunction::kTanh: return std::tanh(x);
    case CellFunction::kRelu: return std::max(0.0, x);
    case CellFunction::kAffine: return a * x + b;
    case CellFunction::kLeakyRelu: return x < 0 ? a * x : x;
    case CellFunction::kThresholdedRelu: return x > a ? x : 0;
    case CellFunction::kScaledTanh: return a * std::tanh(b * x);
    case CellFunction::kHardSigmoid: return std::clamp(a * x + b, 0.0, 1.0);
    case CellFunction::kElu: return x < 0 ? a * (std::exp(x) - 1) : x;
    case CellFunction::kSoftsign: return x / (1 + std::abs(x));
  }
  return 0;
}

// A layer of G gates: operands in the order of graph/ops/recurrent.cc, empty if missing.
struct Layer {
  Op op;
  int gates, steps, batch, n;
  RecurrentAttrs a;
  std::vector<float> x, r, bias, h0, c0, peepholes;
  std::vector<int32_t> lengths;
};

std::vector<float> random(size_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<float> v(n);
  kernels::fill_floats(rng, v.data(), n, -1.5f, 1.5f);
  return v;
}

Layer random_layer(Op op, int gates, bool with_all, RecurrentAttrs a) {
  const int steps = 5, batch = 3, n = 7;
  Layer l{op, gates, steps, batch, n, a, {}, {}, {}, {}, {}, {}, {}};
  const auto size = [](int v) { return static_cast<size_t>(v); };
  l.x = random(size(steps * batch * gates * n), 1);
  l.r = random(size(n * gates * n), 2);
  if (!with_all) return l;
  l.bias = random(size(gates * n), 3);
  l.h0 = random(size(batch * n), 4);
  l.lengths = {2, 5, -1};
  if (op != Op::kLstm) return l;
  l.c0 = random(size(batch * n), 5);
  l.peepholes = random(size(3 * n), 6);
  return l;
}

// One sequence of the batch.
class Reference {
 public:
  Reference(const Layer& l, int b) : l_(l), b_(b), h(l.n), c(l.n) {
    for (int j = 0; j < l.n; ++j) {
      h[j] = l.h0.empty() ? 0 : l.h0[b * l.n + j];
      c[j] = l.c0.empty() ? 0 : l.c0[b * l.n + j];
    }
  }
  void step(int t) {
    if (l_.op == Op::kRnn) rnn(t);
    if (l_.op == Op::kGru) gru(t);
    if (l_.op == Op::kLstm) lstm(t);
  }

 private:
  double f(double x) const { return cell_function(l_.a.functions[0], l_.a.f_a, l_.a.f_b, clipped(x)); }
  double g(double x) const { return cell_function(l_.a.functions[1], l_.a.g_a, l_.a.g_b, clipped(x)); }
  double clipped(double x) const { return l_.a.clip > 0 ? std::clamp<double>(x, -l_.a.clip, l_.a.clip) : x; }
  double in(int t, int gate, int j) const {
    return l_.x[static_cast<size_t>((t * l_.batch + b_) * l_.gates * l_.n + gate * l_.n + j)];
  }
  double bias(int gate, int j) const { return l_.bias.empty() ? 0 : l_.bias[static_cast<size_t>(gate * l_.n + j)]; }
  double product(const std::vector<double>& v, int gate, int j) const {
    double sum = 0;
    for (int k = 0; k < l_.n; ++k) sum += v[k] * l_.r[static_cast<size_t>(k * l_.gates * l_.n + gate * l_.n + j)];
    return sum;
  }
  double peephole(int which, int j, double c) const {
    return l_.peepholes.empty() ? 0 : l_.peepholes[static_cast<size_t>(which * l_.n + j)] * c;
  }
  void rnn(int t) {
    const auto before = h;
    for (int j = 0; j < l_.n; ++j) h[j] = f(in(t, 0, j) + bias(0, j) + product(before, 0, j));
  }
  void gru(int t) {
    const auto before = h;
    std::vector<double> z(l_.n), r(l_.n), reset(l_.n);
    for (int j = 0; j < l_.n; ++j) {
      z[j] = f(in(t, 0, j) + bias(0, j) + product(before, 0, j));
      r[j] = f(in(t, 1, j) + bias(1, j) + product(before, 1, j));
      reset[j] = r[j] * before[j];
    }
    for (int j = 0; j < l_.n; ++j) {
      const double inner =
          l_.a.reset_after != 0 ? r[j] * (product(before, 2, j) + bias(2, j)) : product(reset, 2, j) + bias(2, j);
      h[j] = (1 - z[j]) * g(in(t, 2, j) + inner) + z[j] * before[j];
    }
  }
  void lstm(int t) {
    const auto before = h;
    for (int j = 0; j < l_.n; ++j) {
      const double i = f(in(t, 0, j) + bias(0, j) + product(before, 0, j) + peephole(0, j, c[j]));
      const double free = f(in(t, 2, j) + bias(2, j) + product(before, 2, j) + peephole(2, j, c[j]));
      const double forget = l_.a.coupled_gates != 0 ? 1 - i : free;
      c[j] = forget * c[j] + i * g(in(t, 3, j) + bias(3, j) + product(before, 3, j));
      const double o = f(in(t, 1, j) + bias(1, j) + product(before, 1, j) + peephole(1, j, c[j]));
      h[j] = o * cell_function(l_.a.functions[2], l_.a.h_a, l_.a.h_b, c[j]);
    }
  }
  const Layer& l_;
  int b_;

 public:
  std::vector<double> h, c;
};

// y, the last state and the last cell state, one behind the other.
std::vector<double> reference(const Layer& l) {
  const size_t n = static_cast<size_t>(l.n), batch = static_cast<size_t>(l.batch),
               y_size = static_cast<size_t>(l.steps) * batch * n;
  std::vector<double> out(y_size + (l.op == Op::kLstm ? 2 : 1) * batch * n, 0.0);
  for (int b = 0; b < l.batch; ++b) {
    Reference r(l, b);
    const int length = l.lengths.empty() ? l.steps : std::clamp<int>(l.lengths[static_cast<size_t>(b)], 0, l.steps);
    for (int i = 0; i < length; ++i) {
      const int t = l.a.reverse != 0 ? length - 1 - i : i;
      r.step(t);
      std::copy(r.h.begin(), r.h.end(), out.begin() + (t * l.batch + b) * l.n);
    }
    std::copy(r.h.begin(), r.h.end(), out.begin() + static_cast<std::ptrdiff_t>(y_size) + b * l.n);
    if (l.op == Op::kLstm)
      std::copy(r.c.begin(), r.c.end(), out.begin() + static_cast<std::ptrdiff_t>(y_size + batch * n) + b * l.n);
  }
  return out;
}

// Operands that are missing are left out at the end; in between they take the neutral values that stand for the same.
OpCase case_of(const Layer& l) {
  const int w = l.gates * l.n;
  OpCase c{l.op,
           {f32({l.steps, l.batch, w}, l.x), f32({l.n, w}, l.r)},
           like(DType::kF32, {l.steps, l.batch, l.n}),
           {like(DType::kF32, {l.batch, l.n})}};
  if (l.op == Op::kLstm) c.more_outputs.push_back(like(DType::kF32, {l.batch, l.n}));
  if (l.bias.empty()) return c;
  c.inputs.push_back(f32({w}, l.bias));
  c.inputs.push_back(f32({l.batch, l.n}, l.h0));
  c.inputs.push_back(s32({l.batch}, l.lengths));
  if (l.op != Op::kLstm) return c;
  c.inputs.push_back(f32({l.batch, l.n}, l.c0));
  c.inputs.push_back(f32({3 * l.n}, l.peepholes));
  return c;
}

RecurrentAttrs attrs_with(std::array<CellFunction, 3> functions, float a = 0, float b = 0) {
  RecurrentAttrs r;
  for (size_t i = 0; i < 3; ++i) r.functions[i] = static_cast<int32_t>(functions[i]);
  r.f_a = r.g_a = r.h_a = a;
  r.f_b = r.g_b = r.h_b = b;
  return r;
}

constexpr CellFunction kS = CellFunction::kSigmoid, kT = CellFunction::kTanh;

void check_layer(Op op, int gates, bool with_all, const RecurrentAttrs& a) {
  const Layer l = random_layer(op, gates, with_all, a);
  check_close(case_of(l), a, reference(l), 1e-5);
}

}  // namespace

TEST_CASE("recurrent layers follow their equations in both directions, with and without optional operands") {
  const std::pair<Op, int> layers[] = {{Op::kRnn, 1}, {Op::kGru, 3}, {Op::kLstm, 4}};
  for (const auto& [op, gates] : layers)
    for (const bool with_all : {false, true})
      for (const int32_t reverse : {0, 1}) {
        CAPTURE(gates);
        RecurrentAttrs a = attrs_with({op == Op::kRnn ? kT : kS, kT, kT});
        a.reverse = reverse;
        check_layer(op, gates, with_all, a);
      }
}

TEST_CASE("variants of recurrent cells: clip, coupled gates, a reset gate behind the product") {
  RecurrentAttrs a = attrs_with({kS, kT, kT});
  a.reset_after = 1;
  check_layer(Op::kGru, 3, true, a);
  a = attrs_with({kS, kT, kT});
  a.coupled_gates = 1;
  check_layer(Op::kLstm, 4, true, a);
  a.clip = 0.4f;
  check_layer(Op::kLstm, 4, true, a);
  check_layer(Op::kGru, 3, true, a);
}

TEST_CASE("every cell function") {
  for (int32_t f = 0; f < kCellFunctions; ++f) {
    CAPTURE(f);
    check_layer(Op::kRnn, 1, true, attrs_with({static_cast<CellFunction>(f), kT, kT}, 0.3f, 0.2f));
  }
}

TEST_CASE("recurrent layers whose operands do not fit are refused") {
  const RecurrentAttrs a = attrs_with({kS, kT, kT});
  const Layer l = random_layer(Op::kLstm, 4, true, a);
  for (size_t i = 0; i < 7; ++i) {
    OpCase c = case_of(l);
    c.inputs[i].dims.back() += 1;
    c.inputs[i].bytes.resize(c.inputs[i].elems() * 4);
    CAPTURE(i);
    check_refused(c, a, Code::kInvalidArgument);
  }
  RecurrentAttrs unknown = a;
  unknown.functions[1] = kCellFunctions;
  check_refused(case_of(l), unknown, Code::kInvalidArgument);
}

namespace {

// Scores [2, 2, 3, 5] of random values.
struct MaskCase {
  MaskedSoftmaxAttrs attrs;
  std::vector<int> mask_dims;    // empty: none
  std::vector<float> mask;       // 0 and -infinity among them
  std::vector<int64_t> lengths;  // empty: none
};

constexpr int kBatch = 2, kHeads = 2, kQueries = 3, kKeys = 5;

double added(const MaskCase& c, int b, int h, int i, int j) {
  if (c.mask.empty()) return 0;
  const int at[4] = {b, h, i, j};
  size_t index = 0;
  for (size_t k = 0; k < c.mask_dims.size(); ++k) {
    const int d = c.mask_dims[k], v = at[4 - c.mask_dims.size() + k];
    index = index * static_cast<size_t>(d) + static_cast<size_t>(d == 1 ? 0 : v);
  }
  return c.mask[index];
}

std::vector<double> masked_softmax(const MaskCase& c, const std::vector<float>& x) {
  const double hidden = -std::numeric_limits<double>::infinity();
  std::vector<double> out;
  for (int row = 0; row < kBatch * kHeads * kQueries; ++row) {
    const int b = row / (kHeads * kQueries), h = row / kQueries % kHeads, i = row % kQueries;
    const int length =
        c.lengths.empty() ? kKeys : static_cast<int>(std::clamp<int64_t>(c.lengths[static_cast<size_t>(b)], 0, kKeys));
    const int position = c.lengths.empty() ? c.attrs.offset + i : length - kQueries + i;
    std::vector<double> s;
    double sum = 0;
    for (int j = 0; j < kKeys; ++j) {
      const bool seen = j < length && (c.attrs.left < 0 || j >= position - c.attrs.left) &&
                        (c.attrs.right < 0 || j <= position + c.attrs.right) && added(c, b, h, i, j) != hidden;
      s.push_back(seen ? x[static_cast<size_t>(row * kKeys + j)] + added(c, b, h, i, j) : hidden);
      sum += std::exp(s.back());
    }
    for (double v : s) out.push_back(c.attrs.normalize == 0 ? (v == hidden ? -1e30 : v) : sum == 0 ? 0 : std::exp(v) / sum);
  }
  return out;
}

OpCase op_case(const MaskCase& c, const std::vector<float>& x, bool as_bool) {
  OpCase op{
      Op::kMaskedSoftmax, {f32({kBatch, kHeads, kQueries, kKeys}, x)}, like(DType::kF32, {kBatch, kHeads, kQueries, kKeys})};
  if (!c.mask.empty() && as_bool) {
    std::vector<uint8_t> seen;
    for (float v : c.mask) seen.push_back(v == 0 ? 1 : 0);
    op.inputs.push_back(tensor_of(DType::kBool, c.mask_dims, seen));
  } else if (!c.mask.empty() || !c.lengths.empty()) {
    op.inputs.push_back(f32(c.mask.empty() ? std::vector<int>{1} : c.mask_dims, c.mask.empty() ? std::vector<float>{0} : c.mask));
  }
  if (!c.lengths.empty()) op.inputs.push_back(s64({kBatch}, c.lengths));
  return op;
}

}  // namespace

TEST_CASE("masked softmax sees what window, lengths and mask leave, and a row that sees nothing gives zeros") {
  const float no = -std::numeric_limits<float>::infinity();
  const MaskCase cases[] = {
      {{0, -1, 0, 1}, {}, {}, {}},
      {{2, -1, 0, 1}, {}, {}, {}},
      {{1, 1, 0, 1}, {}, {}, {}},
      {{0, 0, 1, 1}, {3, 5}, {0, no, 0, no, 0, no, no, no, no, no, 0, 0, no, 0, 0}, {}},
      {{0, -1, -1, 1}, {2, 1, 1, 5}, {0, no, no, 0, 0, no, no, no, no, no}, {}},
      {{0, -1, -1, 1}, {5}, {0, 0, no, no, 0}, {3, 0}},
      {{0, -1, 0, 1}, {}, {}, {5, 2}},
      {{0, -1, 0, 1}, {}, {}, {9, -4}},
  };
  const std::vector<float> x = random(kBatch * kHeads * kQueries * kKeys, 7);
  for (const MaskCase& c : cases)
    for (const bool as_bool : {false, true}) check_close(op_case(c, x, as_bool), c.attrs, masked_softmax(c, x), 1e-6);
}

TEST_CASE("masked scores alone are minus infinity where nothing is seen") {
  const MaskCase c{{0, -1, 0, 0}, {}, {}, {}};
  const std::vector<float> x = random(kBatch * kHeads * kQueries * kKeys, 8);
  for (const OpResult& r : run_everywhere(op_case(c, x, false), c.attrs)) {
    const auto got = r.as<float>();
    for (size_t i = 0; i < got.size(); ++i) {
      const bool seen = i % kKeys <= i / kKeys % kQueries;
      CHECK(got[i] == (seen ? x[i] : -std::numeric_limits<float>::infinity()));
    }
  }
}

TEST_CASE("masked softmax refuses masks and lengths that do not fit") {
  const std::vector<float> x = random(kBatch * kHeads * kQueries * kKeys, 9);
  const MaskCase wrong_mask{{}, {2, 5}, std::vector<float>(10, 0.0f), {}};
  check_refused(op_case(wrong_mask, x, false), wrong_mask.attrs, Code::kInvalidArgument);
  OpCase lengths = op_case({{}, {}, {}, {1, 2}}, x, false);
  lengths.inputs[2] = s64({3}, {1, 2, 3});
  check_refused(lengths, MaskedSoftmaxAttrs{}, Code::kInvalidArgument);
}

TEST_CASE("linear attention carries its state, and box selection refuses operands that do not fit") {
  // One head of size 1: y_t = q_t s_t with s_t = exp(g_t) s + k_t beta_t (v_t - exp(g_t) s k_t).
  const std::vector<float> q{1, -2}, k{0.5f, 2}, v{3, 1}, g{-0.5f, 0.25f}, beta{0.5f, 1};
  double s = 2;
  std::vector<double> expected;
  for (size_t t = 0; t < 2; ++t) {
    const auto at = [&](const std::vector<float>& x) { return static_cast<double>(x[t]); };
    s *= std::exp(at(g));
    s += at(k) * at(beta) * (at(v) - s * at(k));
    expected.push_back(at(q) * s * 3);
  }
  expected.push_back(s);
  const std::vector<int> row{1, 2, 1};
  const OpCase c{Op::kLinearAttention,
                 {f32(row, q), f32(row, k), f32(row, v), f32({1, 1, 1, 1}, {2}), f32(row, g), f32(row, beta)},
                 like(DType::kF32, row),
                 {like(DType::kF32, {1, 1, 1, 1})}};
  check_close(c, LinearAttentionAttrs{1, 1, 3.0f}, expected, 1e-5);
  OpCase wrong = c;
  wrong.inputs[5] = f32({1, 2, 2}, {1, 1, 1, 1});
  check_refused(wrong, LinearAttentionAttrs{1, 1, 3.0f}, Code::kInvalidArgument);

  OpCase nms{Op::kNonMaxSuppression,
             {random_f32({1, 4, 4}, 1), random_f32({1, 2, 3}, 2)},
             like(DType::kS64, {8, 3}),
             {like(DType::kS64, {1})}};
  check_refused(nms, NmsAttrs{}, Code::kInvalidArgument);
}

TEST_CASE("box selection takes the best box of each class and drops what overlaps it too much") {
  // Boxes 0 and 1 overlap by 9 / 11; 2 stands apart. Of equal scores the first is taken.
  const std::vector<float> boxes{0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 5, 5, 4, 4};
  const std::vector<float> scores{0.5f, 0.9f, 0.4f, 0.7f, 0.7f, 0.05f};
  const OpCase c{Op::kNonMaxSuppression,
                 {f32({1, 3, 4}, boxes), f32({1, 2, 3}, scores), s64({1}, {2}), f32({1}, {0.5f}), f32({1}, {0.1f})},
                 like(DType::kS64, {4, 3}),
                 {like(DType::kS64, {1})}};
  check_equal<int64_t>(c, NmsAttrs{}, {0, 0, 1, 0, 0, 2, 0, 1, 0, 0, 0, 0, 3});
  OpCase loose = c;
  loose.inputs[3] = f32({1}, {0.9f});
  check_equal<int64_t>(loose, NmsAttrs{}, {0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 4});
}
