#include "runtime/plan/views.h"

namespace lathe {
namespace {

// Where a part begins in its whole, and how its pixels lie there.
struct Spot {
  uint32_t offset, stride;
};

class Finder {
 public:
  Finder(const Program& p, const Shape* shapes, const StepTraits* traits, const ForeignMemory& foreign, const Views& v)
      : p_(p), shapes_(shapes), traits_(traits), foreign_(foreign), v_(v) {}

  // A whole that is itself a part gets its place before its own parts do: concatenations from the last one to the first, then
  // slices from the first one to the last.
  void run() {
    for (uint32_t i = p_.step_count(); i-- > 0;)
      if (traits_[i].pieces.kind == Piecing::kJoin) join(i);
    for (uint32_t i = 0; i < p_.step_count(); ++i)
      if (traits_[i].pieces.kind == Piecing::kCut) cut(i);
  }

 private:
  uint32_t last_dim(uint32_t t) const {
    const Shape& s = shapes_[t];
    return s.rank == 0 ? 1 : static_cast<uint32_t>(s.dims[s.rank - 1]);
  }
  uint32_t pixels(uint32_t t) const { return last_dim(t) == 0 ? 0 : shapes_[t].elems() / last_dim(t); }

  // Part `t` begins `first` elements into each of `rows` rows of `whole`. False if its pixels would not be evenly spread.
  bool spot(uint32_t t, uint32_t whole, uint32_t rows, uint32_t first, Spot* out) const {
    const uint32_t n = last_dim(whole), stride = v_.strides[whole] != 0 ? v_.strides[whole] : n;
    if (n == 0 || shapes_[t].elems() == 0) return false;
    out->offset = first / n * stride + first % n;
    // One part of every pixel, or whole pixels one after another, or a part of the only pixel.
    if (rows == pixels(whole) && rows == pixels(t)) out->stride = rows == 1 || stride == last_dim(t) ? 0 : stride;
    else if (rows == 1 && last_dim(t) == n) out->stride = stride == n ? 0 : stride;
    else return false;
    return true;
  }

  void join(uint32_t index) {
    const ProgramStep& s = p_.step(index);
    const uint32_t whole = p_.output(s, 0), rows = traits_[index].pieces.rows;
    if (rows == 0) return;
    // A result that the caller gets is written where he wants it, but may not be read past its end there.
    const bool foreign = p_.tensor(whole).kind == TensorKind::kOutput && foreign_.direct;
    uint32_t first = 0;
    for (uint32_t i = 0; i < s.n_in; ++i) {
      const uint32_t t = p_.input(s, i);
      Spot at{};
      const bool as_is = i < 32 && (traits_[index].pieces.mask >> i & 1) != 0;
      if (as_is && spot(t, whole, rows, first, &at) && can_lie(t, s, 1, at.stride, foreign)) place(t, whole, at);
      first += shapes_[t].elems() / rows;
    }
  }

  void cut(uint32_t index) {
    const ProgramStep& s = p_.step(index);
    const uint32_t t = p_.output(s, 0), whole = p_.input(s, 0);
    const TensorKind kind = p_.tensor(whole).kind, memory = p_.tensor(root(whole)).kind;
    if (kind != TensorKind::kTemporary && kind != TensorKind::kInput) return;
    Spot at{};
    if (!is_free(t) || !spot(t, whole, traits_[index].pieces.rows, traits_[index].pieces.first, &at)) return;
    if (at.stride != 0 && !readers_take_strides(t)) return;
    const bool foreign = memory == TensorKind::kOutput || (memory == TensorKind::kInput && !foreign_.padded_inputs);
    if (!foreign || !foreign_.direct || reads_exactly(p_, traits_, v_, t)) put(t, whole, at);
  }

  // What a tensor lies in, in the end.
  uint32_t root(uint32_t t) const {
    while (v_.wholes[t] != kNoTensor) t = v_.wholes[t];
    return t;
  }

  uint32_t uses(const ProgramStep& s, uint32_t t) const {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s.n_in; ++i) n += p_.input(s, i) == t ? 1 : 0;
    return n;
  }

  bool is_free(uint32_t t) const {
    if (foreign_.carried != nullptr && foreign_.carried[t] != kNoTensor) return false;
    return p_.tensor(t).kind == TensorKind::kTemporary && v_.wholes[t] == kNoTensor;
  }

  uint32_t producer(uint32_t t) const {
    for (uint32_t i = 0; i < p_.step_count(); ++i)
      for (uint32_t k = 0; k < p_.step(i).n_out; ++k)
        if (p_.output(p_.step(i), k) == t) return i;
    return kNoTensor;
  }

  bool readers_take_strides(uint32_t t) const {
    for (uint32_t i = 0; i < p_.step_count(); ++i) {
      const ProgramStep& s = p_.step(i);
      for (uint32_t k = 0; k < s.n_in; ++k)
        if (p_.input(s, k) == t && (k >= 32 || (traits_[i].strided_input_mask >> k & 1) == 0)) return false;
    }
    return true;
  }

  // Whether result `t` of a step, and what it is an alias of, can be written and read at such a place. `join` takes it `times`
  // times: once as this part, and in the shape of its alias not at all.
  bool can_lie(uint32_t t, const ProgramStep& join, uint32_t times, uint32_t stride, bool foreign) const {
    if (!is_free(t) || uses(join, t) != times || (foreign && !reads_exactly(p_, traits_, v_, t))) return false;
    const uint32_t from = producer(t);
    if (from == kNoTensor) return false;
    const StepTraits& traits = traits_[from];
    if (stride != 0) return traits.strided_output && p_.output(p_.step(from), 0) == t && readers_take_strides(t);
    if (!traits.alias_input0) return true;
    // An alias of something that lies elsewhere would stay a copy of it: it moves along or the part stays out.
    return can_lie(p_.input(p_.step(from), 0), join, 0, 0, foreign);
  }

  void place(uint32_t t, uint32_t whole, const Spot& at) {
    put(t, whole, at);
    const uint32_t from = producer(t);
    if (at.stride == 0 && traits_[from].alias_input0) place(p_.input(p_.step(from), 0), whole, at);
  }

  void put(uint32_t t, uint32_t whole, const Spot& at) {
    v_.wholes[t] = whole;
    v_.offsets[t] = at.offset;
    v_.strides[t] = at.stride;
  }

  const Program& p_;
  const Shape* shapes_;
  const StepTraits* traits_;
  const ForeignMemory& foreign_;
  const Views& v_;
};

}  // namespace

bool reads_exactly(const Program& p, const StepTraits* traits, const Views& views, uint32_t tensor) {
  for (uint32_t i = 0; i < p.step_count(); ++i) {
    const ProgramStep& s = p.step(i);
    for (uint32_t k = 0; k < s.n_in; ++k) {
      if (p.input(s, k) != tensor) continue;
      if (k >= 32 || (traits[i].exact_input_mask >> k & 1) == 0) return false;
      const bool slice = traits[i].pieces.kind == Piecing::kCut && views.wholes[p.output(s, 0)] == tensor;
      if (slice && !reads_exactly(p, traits, views, p.output(s, 0))) return false;
    }
  }
  return true;
}

bool find_views(const Program& program, const Shape* shapes, const StepTraits* traits, const ForeignMemory& foreign, bool elide,
                const PlanMemory& memory, Views* out) {
  const uint32_t n = program.tensor_count();
  *out = {memory.array<uint32_t>(n), memory.array<uint32_t>(n), memory.array<uint32_t>(n)};
  if (out->wholes == nullptr || out->offsets == nullptr || out->strides == nullptr) return false;
  for (uint32_t t = 0; t < n; ++t) out->wholes[t] = kNoTensor;
  if (elide) Finder(program, shapes, traits, foreign, *out).run();
  return true;
}

}  // namespace lathe
