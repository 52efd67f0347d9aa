// Elision: concatenations and slices whose parts lie in the whole give the same bytes as plans in which every tensor is on its
// own.
#include <map>

#include "runtime/exec/conv_geometry.h"
#include "tests/runtime/exec/op_run.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const QuantParams kGrid{0.05f, -5};
const QuantParams kOtherGrid{0.04f, 3};

// A program over NHWC tensors of one type that grows step by step.
class Growing {
 public:
  Growing(std::mt19937& rng, bool quantized) : rng_(rng), q8_(quantized) {}

  struct Tensor {
    std::vector<int> dims;
    uint32_t id;
    bool other_grid = false;
  };

  size_t pick(size_t n) { return rng_() % n; }
  int between(int lo, int hi) { return lo + static_cast<int>(pick(static_cast<size_t>(hi - lo + 1))); }

  void input(const std::vector<int>& dims) {
    inputs_.push_back(q8_ ? random_q8(dims, rng_(), kGrid) : random_f32(dims, rng_()));
    made_.push_back({dims, b_.input(type(), to_dims(dims), grid(false))});
  }
  void grow() {
    static constexpr void (Growing::*kSteps[])() = {&Growing::concat,  &Growing::concat, &Growing::concat, &Growing::slice,
                                                    &Growing::slice,   &Growing::add,    &Growing::conv,   &Growing::conv,
                                                    &Growing::clamp,   &Growing::move,   &Growing::pool};
    (this->*kSteps[pick(std::size(kSteps))])();
  }
  // Every tensor that nobody reads, and some others, become outputs by a last step of their own or as they are.
  void finish() {
    for (size_t i = 0, n = made_.size(); i < n; ++i)
      if (!read_[made_[i].id] || pick(6) == 0) clamp_to_output(made_[i]);
  }
  BuiltProgram build() const { return b_.build(); }
  const std::vector<TestTensor>& inputs() const { return inputs_; }
  const std::vector<std::vector<int>>& outputs() const { return outputs_; }
  DType type() const { return q8_ ? DType::kS8 : DType::kF32; }

 private:
  static std::vector<TestDim> to_dims(const std::vector<int>& d) { return {d.begin(), d.end()}; }
  std::optional<QuantParams> grid(bool other) const { return q8_ ? std::optional(other ? kOtherGrid : kGrid) : std::nullopt; }
  // Recent tensors more often, so that chains and nests arise.
  const Tensor& any() {
    const size_t n = made_.size();
    return pick(3) == 0 ? made_[pick(n)] : made_[n - 1 - pick(std::min<size_t>(n, 4))];
  }

  template <class A>
  void emit(Op op, const A& attrs, const std::vector<uint32_t>& in, const std::vector<int>& dims, bool other = false) {
    // Results of Concat also go to the caller directly, now and then.
    const bool output = op == Op::kConcat && pick(8) == 0;
    const uint32_t y = output ? b_.output(type(), to_dims(dims), grid(other)) : b_.temp(type(), to_dims(dims), grid(other));
    b_.step(op, attrs, in, {y});
    for (const uint32_t t : in) read_[t] = true;
    if (output) {
      outputs_.push_back(dims);
      read_[y] = true;
    }
    made_.push_back({dims, y, other});
  }

  void concat() {
    const Tensor first = any();
    const int axis = pick(2) == 0 ? 3 : between(0, 3);
    std::vector<uint32_t> parts{first.id};
    std::vector<int> dims = first.dims;
    for (int tries = 0; tries < 12 && parts.size() < 4; ++tries) {
      const Tensor& t = any();
      std::vector<int> same = t.dims;
      same[static_cast<size_t>(axis)] = first.dims[static_cast<size_t>(axis)];
      if (same != first.dims || dims[static_cast<size_t>(axis)] + t.dims[static_cast<size_t>(axis)] > 250) continue;
      parts.push_back(t.id);
      dims[static_cast<size_t>(axis)] += t.dims[static_cast<size_t>(axis)];
    }
    AxisAttrs a;
    a.axis = axis;
    emit(Op::kConcat, a, parts, dims);
  }
  void slice() {
    const Tensor t = any();
    const int axis = pick(2) == 0 ? 3 : between(0, 3), d = t.dims[static_cast<size_t>(axis)];
    const int begin = between(0, d - 1), end = between(begin + 1, d), step = pick(8) == 0 ? 2 : 1;
    SliceAttrs a;
    a.axes = {1, {axis}}, a.begins = {1, {begin}}, a.ends = {1, {end}}, a.steps = {1, {step}};
    std::vector<int> dims = t.dims;
    dims[static_cast<size_t>(axis)] = (end - begin + step - 1) / step;
    emit(Op::kSlice, a, {t.id}, dims, t.other_grid);
  }
  void add() {
    const Tensor t = any();
    for (int tries = 0; tries < 10; ++tries) {
      const Tensor& u = any();
      if (u.dims == t.dims) return emit(Op::kAdd, BinaryAttrs{}, {t.id, u.id}, t.dims);
    }
    emit(Op::kAdd, BinaryAttrs{}, {t.id, t.id}, t.dims);
  }
  void clamp() {
    const Tensor t = any();
    ClampAttrs a;
    a.lo = -1.5f, a.hi = 1.5f;
    emit(Op::kClamp, a, {t.id}, t.dims, q8_ && pick(4) == 0);
  }
  void clamp_to_output(const Tensor& t) {
    const uint32_t y = b_.output(type(), to_dims(t.dims), grid(false));
    b_.step(Op::kClamp, ClampAttrs{}, {t.id}, {y});
    outputs_.push_back(t.dims);
  }
  void move() {
    const Tensor t = any();
    if (pick(2) == 0) return emit(Op::kReshape, NoAttrs{}, {t.id}, {t.dims[0], t.dims[2], t.dims[1], t.dims[3]}, t.other_grid);
    PermAttrs a;
    a.perm = {4, {0, 2, 1, 3}};
    emit(Op::kTranspose, a, {t.id}, {t.dims[0], t.dims[2], t.dims[1], t.dims[3]}, t.other_grid);
  }
  void pool() {
    const Tensor t = any();
    Pool2dAttrs a;
    a.kernel[0] = a.kernel[1] = 3, a.stride[0] = a.stride[1] = 1, a.dilation[0] = a.dilation[1] = 1;
    a.pad[0] = a.pad[1] = a.pad[2] = a.pad[3] = 1;
    emit(Op::kMaxPool2d, a, {t.id}, t.dims, t.other_grid);
  }

  // 1x1, 3x3 or depthwise, with a residual now and then.
  void conv() {
    const Tensor t = any();
    const int ic = t.dims[3], k = pick(2) == 0 ? 1 : 3;
    const bool depthwise = pick(4) == 0;
    Conv2dAttrs a;
    a.stride[0] = a.stride[1] = a.dilation[0] = a.dilation[1] = 1;
    a.pad[0] = a.pad[1] = a.pad[2] = a.pad[3] = k / 2;
    a.groups = depthwise ? ic : 1;
    const std::vector<int> dims = {t.dims[0], t.dims[1], t.dims[2], depthwise ? ic : between(1, 100)};
    uint32_t residual = kNoTensor;
    for (int tries = 0; tries < 4 && residual == kNoTensor; ++tries)
      if (const Tensor& r = any(); r.dims == dims) residual = r.id;
    std::vector<uint32_t> operands = {t.id};
    if (q8_) add_weights_q8(a, dims[3], k, depthwise ? 1 : ic, &operands, t.other_grid);
    else add_weights_f32(a, dims[3], k, depthwise ? 1 : ic, &operands);
    if (residual != kNoTensor) operands.push_back(residual);
    emit_conv(a, operands, dims);
  }
  void emit_conv(const Conv2dAttrs& a, const std::vector<uint32_t>& operands, const std::vector<int>& dims) {
    emit(Op::kConv2d, a, operands, dims);
  }
  ConvPacking packing(const Conv2dAttrs& a, int oc, int k, int ic) const {
    const auto u = [](int v) { return static_cast<uint32_t>(v); };
    return conv_packing(a, u(oc), u(k), u(k), u(ic));
  }
  void add_weights_q8(const Conv2dAttrs& a, int oc, int k, int ic, std::vector<uint32_t>* operands, bool other) {
    const ConvPacking p = packing(a, oc, k, ic);
    const int per = k * k * ic, zero = other ? kOtherGrid.zero_point : kGrid.zero_point;
    std::vector<int8_t> w(static_cast<size_t>(oc * per)), packed(p.packed_s8_bytes());
    kernels::fill_ints(rng_, w.data(), w.size(), -127, 127);
    p.pack_s8(w.data(), packed.data());
    std::vector<int32_t> bias[2] = {std::vector<int32_t>(p.vector_elems()), std::vector<int32_t>(p.vector_elems())};
    std::vector<float> m(p.vector_elems());
    std::vector<int32_t> plain[2];
    for (auto& v : plain) v.resize(static_cast<size_t>(oc));
    for (size_t o = 0; o < plain[0].size(); ++o)
      for (int i = 0; i < per; ++i) {
        plain[0][o] -= zero * w[o * static_cast<size_t>(per) + static_cast<size_t>(i)];
        plain[1][o] -= (zero + 128) * w[o * static_cast<size_t>(per) + static_cast<size_t>(i)];
      }
    const std::vector<float> scales(static_cast<size_t>(oc), 0.01f / std::sqrt(static_cast<float>(per)));
    for (int s = 0; s < 2; ++s) p.pad_vector(plain[s].data(), bias[s].data());
    p.pad_vector(scales.data(), m.data());
    const Layout layout = p.depthwise ? Layout::kDwConvS8 : Layout::kGemmS8;
    operands->push_back(b_.constant(DType::kS8, {oc, k, k, ic}, packed, layout));
    for (int s = 0; s < 2; ++s) operands->push_back(b_.constant(DType::kS32, {oc}, bias[s], Layout::kPadded16));
    operands->push_back(b_.constant(DType::kF32, {oc}, m, Layout::kPadded16));
  }
  void add_weights_f32(const Conv2dAttrs& a, int oc, int k, int ic, std::vector<uint32_t>* operands) {
    const ConvPacking p = packing(a, oc, k, ic);
    std::vector<float> w(static_cast<size_t>(oc * k * k * ic)), packed(p.packed_f32_elems()), bias(p.vector_elems());
    kernels::fill_floats(rng_, w.data(), w.size(), -0.3f, 0.3f);
    p.pack_f32(w.data(), packed.data());
    operands->push_back(b_.constant(DType::kF32, {oc, k, k, ic}, packed, p.depthwise ? Layout::kDwConvF32 : Layout::kGemmF32));
    operands->push_back(b_.constant(DType::kF32, {oc}, bias, Layout::kPadded16));
  }

  std::mt19937& rng_;
  bool q8_;
  ProgramBuilder b_;
  std::vector<Tensor> made_;
  std::map<uint32_t, bool> read_;
  std::vector<TestTensor> inputs_;
  std::vector<std::vector<int>> outputs_;
};

struct Outcome {
  std::vector<std::vector<uint8_t>> outputs;
  uint32_t elided = 0;
};

Outcome run(const Growing& g, const Program& program, const BindOptions& o) {
  std::vector<Shape> shapes;
  std::vector<GuardedBytes> memory;
  std::vector<const void*> in;
  for (const TestTensor& t : g.inputs()) {
    shapes.push_back(t.shape());
    memory.emplace_back(t.bytes.data(), t.bytes.size());
    in.push_back(memory.back().data());
  }
  CoreRun run;
  const Status s = run.bind(program, shapes, o);
  REQUIRE_MESSAGE(s.ok(), describe(o) << ": code " << static_cast<int>(s.code) << " step " << s.where);
  Outcome out;
  std::vector<void*> pointers;
  for (const auto& dims : g.outputs()) out.outputs.emplace_back(product(dims) * dtype_bytes(g.type()), 0x5a);
  for (auto& bytes : out.outputs) pointers.push_back(bytes.data());
  for (int again = 0; again < 2; ++again) run.run(in, pointers, nullptr, {run_backwards, nullptr, o.threads});
  for (uint32_t i = 0; i < program.step_count(); ++i)
    if (static_cast<Op>(program.step(i).op) != Op::kReshape) out.elided += run.binding.elided[i];
  const BoundPlan& plan = run.binding.plan;
  CHECK((plan.arena_bytes == 0 || plan.arena_bytes >= plan.arena_lower_bound + o.tail));
  return out;
}

}  // namespace

TEST_CASE("random programs of concatenations and slices give the same bytes with and without elision") {
  const uint32_t seed = 20261130;
  INFO("seed " << seed);
  std::mt19937 rng(seed);
  uint32_t elided = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    Growing g(rng, round % 2 == 0);
    const std::vector<int> dims = {g.between(1, 2), g.between(1, 5), g.between(1, 5), g.between(1, 100)};
    for (int i = g.between(1, 2); i > 0; --i) g.input(dims);
    for (int i = g.between(2, 14); i > 0; --i) g.grow();
    g.finish();
    const BuiltProgram built = g.build();
    Program program;
    REQUIRE(built.open(&program).ok());
    const std::vector<BindOptions> all = all_options();
    BindOptions o = all[static_cast<size_t>(round) % all.size()];
    o.external_ports = round % 5 != 0;
    BindOptions apart = o;
    apart.elide = false;
    const Outcome with = run(g, program, o), without = run(g, program, apart);
    CHECK(without.elided == 0);
    elided += with.elided;
    for (size_t i = 0; i < with.outputs.size(); ++i) {
      CAPTURE(i);
      CHECK_MESSAGE(with.outputs[i] == without.outputs[i], describe(o));
    }
  }
  CHECK(elided > 120);
}

namespace {

// Two clamped inputs side by side along `axis`, of which the first is also read by a step of its own.
struct TwoParts {
  uint32_t first, second, whole;
  uint32_t elided, first_stride;
};

TwoParts bind_two_parts(int axis, Op reader, std::optional<QuantParams> second_grid = {}) {
  ProgramBuilder b;
  const std::optional<QuantParams> grid = second_grid ? std::optional(kGrid) : std::nullopt;
  const DType type = grid ? DType::kS8 : DType::kF32;
  const std::vector<TestDim> dims = {1, 4, 4, 64};
  std::vector<TestDim> joined = dims;
  joined[static_cast<size_t>(axis)] = 2 * joined[static_cast<size_t>(axis)].value;
  const uint32_t x = b.input(type, dims, grid);
  TwoParts t{b.temp(type, dims, grid), b.temp(type, dims, second_grid), b.temp(type, joined, grid), 0, 0};
  b.step(Op::kClamp, ClampAttrs{}, {x}, {t.first});
  b.step(Op::kClamp, ClampAttrs{}, {x}, {t.second});
  AxisAttrs a;
  a.axis = axis;
  b.step(Op::kConcat, a, {t.first, t.second}, {t.whole});
  const uint32_t y = b.output(type, joined, grid), z = b.output(type, dims, grid);
  b.step(Op::kClamp, ClampAttrs{}, {t.whole}, {y});
  if (reader == Op::kMaxPool2d) b.step(reader, Pool2dAttrs{}, {t.first}, {z});
  else b.step(reader, ClampAttrs{}, {t.first}, {z});
  const BuiltProgram built = b.build();
  Program program;
  REQUIRE(built.open(&program).ok());
  CoreRun run;
  REQUIRE(run.bind(program, {Shape{{1, 4, 4, 64}, 4}}, all_options().back()).ok());
  t.elided = run.binding.elided[2];
  t.first_stride = run.binding.strides[t.first];
  const BoundTensor* at = run.binding.plan.tensors;
  if (t.elided != 0) CHECK(at[t.second].offset - at[t.first].offset == dtype_bytes(type) * (axis == 3 ? 64 : 4 * 4 * 64));
  return t;
}

}  // namespace

TEST_CASE("parts are written into the whole, as channels of its pixels or as pixels one after another") {
  const TwoParts channels = bind_two_parts(3, Op::kClamp), rows = bind_two_parts(1, Op::kMaxPool2d);
  CHECK(channels.elided == 1);
  CHECK(channels.first_stride == 128);
  CHECK(rows.elided == 1);
  CHECK(rows.first_stride == 0);
}

TEST_CASE("a part that somebody needs dense, and one on another grid, are copied") {
  const TwoParts pooled = bind_two_parts(3, Op::kMaxPool2d);
  CHECK(pooled.elided == 0);
  CHECK(pooled.first_stride == 0);
  CHECK(bind_two_parts(3, Op::kClamp, kGrid).elided == 1);
  CHECK(bind_two_parts(3, Op::kClamp, kOtherGrid).elided == 0);
  CHECK(bind_two_parts(2, Op::kClamp).elided == 0);
}
