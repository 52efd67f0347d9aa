#include "graph/dim.h"

#include <algorithm>
#include <numeric>

namespace lathe {
namespace {

// Rounds toward minus infinity. Requires: b > 0.
int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}
std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}

// Most operands of one min or max: each is compared with every other.
constexpr size_t kMaxOperands = 32;

bool is_leaf(DimOp op) { return op == DimOp::kConst || op == DimOp::kSymbol || op == DimOp::kValue; }

}  // namespace

Dim DimTable::intern(DimNode node) {
  const auto [it, inserted] = index_.try_emplace(node, static_cast<uint32_t>(nodes_.size()));
  if (!inserted) return {it->second};
  const uint32_t size = is_leaf(node.op) ? 1 : 1 + sizes_[static_cast<size_t>(node.a)] + sizes_[static_cast<size_t>(node.b)];
  if (size > kMaxDimSize) {
    index_.erase(it);
    return {};
  }
  nodes_.push_back(node);
  sizes_.push_back(size);
  return {it->second};
}

Dim DimTable::constant(int64_t value) { return intern({DimOp::kConst, value, 0}); }

Dim DimTable::symbol(std::string_view name) {
  size_t number = 0;
  while (number < symbols_.size() && symbols_[number] != name) ++number;
  if (number == symbols_.size()) symbols_.emplace_back(name);
  return intern({DimOp::kSymbol, static_cast<int64_t>(number), 0});
}

Dim DimTable::data_value(int64_t tensor, int64_t element) {
  if (tensor < 0 || tensor > kMaxSymbol || element < 0) return {};
  data_tensors_ = std::max(data_tensors_, tensor + 1);
  return intern({DimOp::kValue, tensor, element});
}

bool DimTable::depends_on_data(Dim d) const {
  if (!d.valid()) return false;
  const DimNode& n = node(d);
  if (is_leaf(n.op)) return n.op == DimOp::kValue;
  return depends_on_data(Dim{static_cast<uint32_t>(n.a)}) || depends_on_data(Dim{static_cast<uint32_t>(n.b)});
}

std::optional<int64_t> DimTable::value(Dim d) const {
  if (!d.valid() || node(d).op != DimOp::kConst) return std::nullopt;
  return node(d).a;
}

// By structure and symbol names, never by ids: so that text does not depend on the order of creation.
int DimTable::compare(Dim a, Dim b) const {
  if (a == b) return 0;
  const DimNode &x = node(a), &y = node(b);
  // Constants last, as in min(N,4).
  if (x.op != y.op) return y.op == DimOp::kConst || (x.op != DimOp::kConst && x.op < y.op) ? -1 : 1;
  if (x.op == DimOp::kSymbol) return symbols_[static_cast<size_t>(x.a)] < symbols_[static_cast<size_t>(y.a)] ? -1 : 1;
  if (is_leaf(x.op)) return std::pair(x.a, x.b) < std::pair(y.a, y.b) ? -1 : 1;
  const int left = compare(Dim{static_cast<uint32_t>(x.a)}, Dim{static_cast<uint32_t>(y.a)});
  return left != 0 ? left : compare(Dim{static_cast<uint32_t>(x.b)}, Dim{static_cast<uint32_t>(y.b)});
}

// Graded lexicographic, so that exact_quotient() is polynomial long division.
int DimTable::compare(const Monomial& a, const Monomial& b) const {
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    if (const int c = compare(a[i], b[i]); c != 0) return c;
  return 0;
}

bool DimTable::append(Poly& p, Dim d, int64_t factor) const {
  // A canonical sum leans left: its last term is the right operand.
  for (bool more = true; more;) {
    more = node(d).op == DimOp::kAdd;
    Dim term = more ? Dim{static_cast<uint32_t>(node(d).b)} : d;
    if (more) d = Dim{static_cast<uint32_t>(node(d).a)};
    Monomial m;
    std::optional<int64_t> c = factor;
    while (node(term).op == DimOp::kMul) {
      const Dim right{static_cast<uint32_t>(node(term).b)};
      if (const auto v = value(right)) c = checked_mul(*c, *v);
      else m.push_back(right);
      if (!c) return false;
      term = Dim{static_cast<uint32_t>(node(term).a)};
    }
    if (const auto v = value(term)) c = checked_mul(*c, *v);
    else m.push_back(term);
    if (!c) return false;
    std::reverse(m.begin(), m.end());
    p.emplace_back(std::move(m), *c);
  }
  return true;
}

std::optional<DimTable::Poly> DimTable::normalize(Poly terms) const {
  std::sort(terms.begin(), terms.end(), [this](const auto& x, const auto& y) { return compare(x.first, y.first) < 0; });
  Poly out;
  for (auto& [m, c] : terms) {
    if (!out.empty() && out.back().first == m) {
      const auto sum = checked_add(out.back().second, c);
      if (!sum) return std::nullopt;
      out.back().second = *sum;
    } else {
      out.emplace_back(std::move(m), c);
    }
  }
  std::erase_if(out, [](const auto& t) { return t.second == 0; });
  return out;
}

std::optional<DimTable::Poly> DimTable::poly(Dim d) const {
  Poly p;
  if (!append(p, d, 1)) return std::nullopt;
  return normalize(std::move(p));
}

std::optional<DimTable::Poly> DimTable::product(const Poly& a, const Poly& b) const {
  if (a.size() * b.size() > kMaxDimSize) return std::nullopt;
  const auto less = [this](Dim x, Dim y) { return compare(x, y) < 0; };
  Poly terms;
  for (const auto& [ma, ca] : a) {
    for (const auto& [mb, cb] : b) {
      const auto c = checked_mul(ca, cb);
      if (!c) return std::nullopt;
      Monomial m;
      std::merge(ma.begin(), ma.end(), mb.begin(), mb.end(), std::back_inserter(m), less);
      terms.emplace_back(std::move(m), *c);
    }
  }
  return normalize(std::move(terms));
}

// a / b if it leaves no remainder. Requires: b is not zero.
std::optional<DimTable::Poly> DimTable::exact_quotient(Poly a, const Poly& b) const {
  const auto less = [this](Dim x, Dim y) { return compare(x, y) < 0; };
  const auto& [mb, cb] = b.front();
  Poly quotient;
  while (!a.empty()) {
    const auto& [ma, ca] = a.front();
    if (!std::includes(ma.begin(), ma.end(), mb.begin(), mb.end(), less)) return std::nullopt;
    if ((cb == -1 && ca == INT64_MIN) || ca % cb != 0 || quotient.size() == kMaxDimSize) return std::nullopt;
    Monomial m;
    std::set_difference(ma.begin(), ma.end(), mb.begin(), mb.end(), std::back_inserter(m), less);
    quotient.emplace_back(std::move(m), ca / cb);
    auto rest = product({quotient.back()}, b);
    if (!rest) return std::nullopt;
    for (auto& t : *rest) {
      const auto negated = checked_mul(t.second, -1);
      if (!negated) return std::nullopt;
      a.emplace_back(std::move(t.first), *negated);
    }
    auto next = normalize(std::move(a));
    if (!next) return std::nullopt;
    a = std::move(*next);
  }
  return quotient;
}

Dim DimTable::build(const Poly& p) {
  if (p.empty()) return constant(0);
  Dim sum;
  for (const auto& [m, c] : p) {
    Dim term = m.empty() ? constant(c) : m.front();
    for (size_t i = 1; i < m.size() && term.valid(); ++i) term = intern({DimOp::kMul, term.id, m[i].id});
    if (!m.empty() && c != 1 && term.valid()) term = intern({DimOp::kMul, term.id, constant(c).id});
    if (!term.valid()) return {};
    sum = sum.valid() ? intern({DimOp::kAdd, sum.id, term.id}) : term;
    if (!sum.valid()) return {};
  }
  return sum;
}

Dim DimTable::add(Dim a, Dim b) {
  if (!a.valid() || !b.valid()) return {};
  Poly p;
  if (!append(p, a, 1) || !append(p, b, 1)) return {};
  return build(normalize(std::move(p)));
}

Dim DimTable::sub(Dim a, Dim b) { return add(a, mul(b, constant(-1))); }

Dim DimTable::mul(Dim a, Dim b) {
  if (!a.valid() || !b.valid()) return {};
  const auto pa = poly(a), pb = poly(b);
  if (!pa || !pb) return {};
  return build(product(*pa, *pb));
}

// floor((p + floor(x/c)) / d) = floor((c*p + x) / (c*d)) for c, d > 0, since p is an integer. Invalid if `a` has no such term or
// the product overflows.
Dim DimTable::merge_division(const Poly& a, int64_t d) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].second != 1 || a[i].first.size() != 1) continue;
    const DimNode inner = node(a[i].first[0]);
    const auto c = inner.op == DimOp::kFloorDiv ? value(Dim{static_cast<uint32_t>(inner.b)}) : std::nullopt;
    const auto divisor = c ? checked_mul(*c, d) : std::nullopt;
    if (!divisor) continue;
    Poly p = a;
    p.erase(p.begin() + static_cast<std::ptrdiff_t>(i));
    return floordiv(add(mul(build(p), constant(*c)), Dim{static_cast<uint32_t>(inner.a)}), constant(*divisor));
  }
  return {};
}

// floor(a / b), b > 1. With a = b*q + r, 0 <= r's coefficients < b, q comes out; with g the gcd of b and the coefficients of r's
// terms (not of its constant), floor((g*p + c) / (g*b')) = floor((p + floor(c/g)) / b') because p is an integer.
Dim DimTable::floordiv_constant(const Poly& a, int64_t b) {
  Poly quotient, rest;
  int64_t g = b, constant_rest = 0;
  for (const auto& [m, c] : a) {
    const int64_t q = floor_quotient(c, b), r = c - q * b;
    if (q != 0) quotient.emplace_back(m, q);
    if (m.empty()) constant_rest = r;
    if (m.empty() || r == 0) continue;
    rest.emplace_back(m, r);
    g = std::gcd(g, r);
  }
  const Dim whole = build(quotient);
  if (rest.empty()) return whole;
  for (auto& t : rest) t.second /= g;
  const int64_t divisor = b / g, offset = constant_rest / g;
  if (offset != 0) rest.emplace_back(Monomial{}, offset);
  if (const Dim merged = merge_division(rest, divisor); merged.valid()) return add(whole, merged);
  const Dim numerator = build(rest);
  if (!numerator.valid()) return {};
  const auto low = bound(numerator, true), high = bound(numerator, false);
  if (low && high && floor_quotient(*low, divisor) == floor_quotient(*high, divisor))
    return add(whole, constant(floor_quotient(*low, divisor)));
  return add(whole, intern({DimOp::kFloorDiv, numerator.id, constant(divisor).id}));
}

Dim DimTable::floordiv(Dim a, Dim b) {
  if (!a.valid() || !b.valid() || is(b, 0)) return {};
  const auto divisor = value(b);
  if (divisor && *divisor < 0) return *divisor == INT64_MIN ? Dim{} : floordiv(mul(a, constant(-1)), constant(-*divisor));
  if (is(b, 1) || is(a, 0)) return a;
  const auto pa = poly(a), pb = poly(b);
  if (!pa || !pb) return {};
  if (divisor) return floordiv_constant(*pa, *divisor);
  if (const auto q = exact_quotient(*pa, *pb)) return build(*q);
  return intern({DimOp::kFloorDiv, a.id, b.id});
}

// ceil(a / b) = -floor(-a / b) = floor((a + b - 1) / b) for b > 0.
Dim DimTable::ceildiv(Dim a, Dim b) {
  const auto divisor = value(b);
  if (divisor && *divisor > 0) return floordiv(add(a, constant(*divisor - 1)), b);
  return mul(floordiv(mul(a, constant(-1)), b), constant(-1));
}

bool DimTable::collect(DimOp op, Dim d, std::vector<Dim>& out) const {
  for (; node(d).op == op; d = Dim{static_cast<uint32_t>(node(d).a)}) out.push_back(Dim{static_cast<uint32_t>(node(d).b)});
  out.push_back(d);
  return out.size() <= kMaxOperands;
}

// min or max: nested ones flattened, operands in order, those dropped that another one always beats.
Dim DimTable::extremum(DimOp op, Dim a, Dim b) {
  if (!a.valid() || !b.valid()) return {};
  std::vector<Dim> all, kept;
  if (!collect(op, a, all) || !collect(op, b, all)) return {};
  std::sort(all.begin(), all.end(), [this](Dim x, Dim y) { return compare(x, y) < 0; });
  all.erase(std::unique(all.begin(), all.end()), all.end());
  const auto beats = [&](Dim x, Dim y) {
    const auto low = op == DimOp::kMin ? lower_bound(sub(y, x)) : lower_bound(sub(x, y));
    return low && *low >= 0;
  };
  for (const Dim d : all) {
    if (std::any_of(kept.begin(), kept.end(), [&](Dim k) { return beats(k, d); })) continue;
    std::erase_if(kept, [&](Dim k) { return beats(d, k); });
    kept.push_back(d);
  }
  Dim result = kept.front();
  for (size_t i = 1; i < kept.size() && result.valid(); ++i) result = intern({op, result.id, kept[i].id});
  return result;
}

Dim DimTable::min(Dim a, Dim b) { return extremum(DimOp::kMin, a, b); }
Dim DimTable::max(Dim a, Dim b) { return extremum(DimOp::kMax, a, b); }

std::optional<int64_t> DimTable::lower_bound(Dim d) { return d.valid() ? bound(d, true) : std::nullopt; }
std::optional<int64_t> DimTable::upper_bound(Dim d) { return d.valid() ? bound(d, false) : std::nullopt; }

bool DimTable::never_equal(Dim a, Dim b) {
  const Dim difference = sub(a, b);
  const auto low = lower_bound(difference), high = upper_bound(difference);
  return (low && *low > 0) || (high && *high < 0);
}

std::optional<int64_t> DimTable::bound(Dim d, bool lower) const {
  const DimNode& n = node(d);
  const Dim a{static_cast<uint32_t>(n.a)}, b{static_cast<uint32_t>(n.b)};
  switch (n.op) {
    case DimOp::kConst: return n.a;
    case DimOp::kSymbol: return lower ? kMinSymbol : kMaxSymbol;
    case DimOp::kValue: return lower ? 0 : kMaxSymbol;
    case DimOp::kFloorDiv: {
      const auto divisor = value(b);
      const auto x = bound(a, lower);
      if (divisor) return x ? std::optional(floor_quotient(*x, *divisor)) : std::nullopt;
      const auto low = bound(a, true), low_b = bound(b, true);
      if (!low || *low < 0 || !low_b || *low_b < 1) return std::nullopt;
      return lower ? std::optional<int64_t>(0) : x;
    }
    case DimOp::kMin:
    case DimOp::kMax: {
      const auto x = bound(a, lower), y = bound(b, lower);
      if (x && y) return n.op == DimOp::kMin ? std::min(*x, *y) : std::max(*x, *y);
      // One side alone bounds a minimum from above and a maximum from below.
      if ((n.op == DimOp::kMin) == lower) return std::nullopt;
      return x ? x : y;
    }
    case DimOp::kAdd:
    case DimOp::kMul: break;
    default: return std::nullopt;
  }
  const auto p = poly(d);
  std::optional<int64_t> sum = p ? std::optional<int64_t>(0) : std::nullopt;
  for (size_t i = 0; sum && i < p->size(); ++i) {
    const auto term = term_bound((*p)[i].first, (*p)[i].second, lower);
    sum = term ? checked_add(*sum, *term) : std::nullopt;
  }
  return sum;
}

// Bound of factor * (product of m's atoms); products are bounded where all their atoms are non-negative.
std::optional<int64_t> DimTable::term_bound(const Monomial& m, int64_t factor, bool lower) const {
  const bool want_lower = (factor > 0) == lower;
  std::optional<int64_t> product = factor;
  for (const Dim atom : m) {
    const auto x = bound(atom, want_lower);
    if (!x || !product) return std::nullopt;
    if (m.size() > 1 && bound(atom, true).value_or(-1) < 0) return std::nullopt;
    product = checked_mul(*product, *x);
  }
  return product;
}

Dim DimTable::substitute(Dim d, const std::vector<std::optional<int64_t>>& values) {
  if (!d.valid()) return d;
  const DimNode n = node(d);
  if (n.op == DimOp::kSymbol) {
    const auto number = static_cast<size_t>(n.a);
    return number < values.size() && values[number] ? constant(*values[number]) : d;
  }
  if (is_leaf(n.op)) return d;
  const Dim a = substitute(Dim{static_cast<uint32_t>(n.a)}, values), b = substitute(Dim{static_cast<uint32_t>(n.b)}, values);
  switch (n.op) {
    case DimOp::kAdd: return add(a, b);
    case DimOp::kMul: return mul(a, b);
    case DimOp::kFloorDiv: return floordiv(a, b);
    case DimOp::kMin: return min(a, b);
    default: return max(a, b);
  }
}

Result<int64_t> DimTable::evaluate(Dim d, const std::vector<std::optional<int64_t>>& values) const {
  if (!d.valid()) return fail(Code::kInvalidArgument, "dimension overflows or is too large an expression");
  const DimNode& n = node(d);
  if (n.op == DimOp::kConst) return n.a;
  if (n.op == DimOp::kSymbol) {
    const auto number = static_cast<size_t>(n.a);
    if (number >= values.size() || !values[number])
      return fail(Code::kInvalidArgument, "dimension '" + symbols_[number] + "' has no value");
    if (*values[number] < kMinSymbol || *values[number] > kMaxSymbol)
      return fail(Code::kInvalidArgument, "dimension '" + symbols_[number] + "' is " + std::to_string(*values[number]) +
                                              ", must be " + std::to_string(kMinSymbol) + " to " + std::to_string(kMaxSymbol));
    return *values[number];
  }
  if (n.op == DimOp::kValue) return fail(Code::kUnsupported, "dimension depends on the contents of a tensor");
  LATHE_TRY(const int64_t a, evaluate(Dim{static_cast<uint32_t>(n.a)}, values));
  LATHE_TRY(const int64_t b, evaluate(Dim{static_cast<uint32_t>(n.b)}, values));
  std::optional<int64_t> r;
  if (n.op == DimOp::kAdd) r = checked_add(a, b);
  if (n.op == DimOp::kMul) r = checked_mul(a, b);
  if (n.op == DimOp::kMin) r = std::min(a, b);
  if (n.op == DimOp::kMax) r = std::max(a, b);
  if (n.op == DimOp::kFloorDiv) {
    if (b == 0) return fail(Code::kInvalidArgument, "dimension '" + text(d) + "' divides by zero");
    if (a != INT64_MIN || b != -1) r = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  }
  if (!r) return fail(Code::kInvalidArgument, "dimension '" + text(d) + "' overflows");
  return *r;
}

}  // namespace lathe
