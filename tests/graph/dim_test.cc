#include <doctest/doctest.h>

#include <memory>
#include <random>

#include "graph/dim.h"

namespace lathe {
namespace {

TEST_CASE("dimension text is canonical and parses back") {
  DimTable t;
  const auto text = [&](const char* s) {
    const auto d = t.parse(s);
    return d ? t.text(*d) : "error: " + d.error().message;
  };
  CHECK(text("N*4+1") == "N*4+1");
  CHECK(text("floordiv(N*1024+5, 1024)") == "N");
  CHECK(text("floordiv(floordiv(H-1,2)+1-1, 2) + 1") == "floordiv(H+3,4)");
  CHECK(text("ceildiv(N, 4)") == "floordiv(N+3,4)");
  CHECK(text("floordiv((N+1)*784, N+1)") == "784");
  CHECK(text("max(0, min(N, N+3))") == "N");
  CHECK(text("N - M*3") == "-M*3+N");
  CHECK(text("-9223372036854775808") == "-9223372036854775808");
  CHECK(text("N*-9223372036854775808 - 4") == "N*-9223372036854775808-4");
  CHECK(text("\"batch size\" + 0") == "\"batch size\"");
  CHECK(text("floordiv(N, 0)") == "error: line 1: dimension overflows or is too large an expression");
  CHECK(text("9223372036854775807 + 1") == "error: line 1: dimension overflows or is too large an expression");
}

// A random expression as a tree of its own, evaluated with plain integers: the independent reference of DimTable.
struct Expression {
  enum Kind { kConst, kSymbol, kAdd, kSub, kMul, kFloorDiv, kCeilDiv, kMin, kMax } kind;
  int64_t value = 0;
  std::unique_ptr<Expression> a, b;
};
constexpr int kSymbols = 3;
const char* const kSymbolNames[kSymbols] = {"N", "H", "batch size"};

std::unique_ptr<Expression> random_expression(std::mt19937& rng, int depth) {
  auto e = std::make_unique<Expression>();
  const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  if (depth == 0 || pick(5) == 0) {
    e->kind = pick(2) ? Expression::kConst : Expression::kSymbol;
    e->value = e->kind == Expression::kConst ? pick(13) - 4 : pick(kSymbols);
    return e;
  }
  e->kind = static_cast<Expression::Kind>(2 + pick(7));
  e->a = random_expression(rng, depth - 1);
  e->b = random_expression(rng, depth - 1);
  return e;
}

Dim build(DimTable& t, const Expression& e) {
  if (e.kind == Expression::kConst) return t.constant(e.value);
  if (e.kind == Expression::kSymbol) return t.symbol(kSymbolNames[e.value]);
  const Dim a = build(t, *e.a), b = build(t, *e.b);
  switch (e.kind) {
    case Expression::kAdd: return t.add(a, b);
    case Expression::kSub: return t.sub(a, b);
    case Expression::kMul: return t.mul(a, b);
    case Expression::kFloorDiv: return t.floordiv(a, b);
    case Expression::kCeilDiv: return t.ceildiv(a, b);
    case Expression::kMin: return t.min(a, b);
    default: return t.max(a, b);
  }
}

int64_t floor_quotient(int64_t a, int64_t b) {
  int64_t q = a / b;
  while (q * b > a && b > 0) --q;
  while (q * b < a && b < 0) --q;
  return q;
}

// Nothing where it divides by zero.
std::optional<int64_t> reference(const Expression& e, const std::vector<std::optional<int64_t>>& symbols) {
  if (e.kind == Expression::kConst) return e.value;
  if (e.kind == Expression::kSymbol) return symbols[static_cast<size_t>(e.value)];
  const auto a = reference(*e.a, symbols), b = reference(*e.b, symbols);
  if (!a || !b) return std::nullopt;
  switch (e.kind) {
    case Expression::kAdd: return *a + *b;
    case Expression::kSub: return *a - *b;
    case Expression::kMul: return *a * *b;
    case Expression::kFloorDiv: return *b == 0 ? std::nullopt : std::optional(floor_quotient(*a, *b));
    case Expression::kCeilDiv: return *b == 0 ? std::nullopt : std::optional(-floor_quotient(-*a, *b));
    case Expression::kMin: return std::min(*a, *b);
    default: return std::max(*a, *b);
  }
}

TEST_CASE("the canonical form of random expressions has their value, bounds and text") {
  const unsigned seed = 1;
  MESSAGE("seed ", seed);
  std::mt19937 rng(seed);
  int compared = 0;
  for (int i = 0; i < 3000; ++i) {
    DimTable t;
    for (const char* name : kSymbolNames) t.symbol(name);
    const auto e = random_expression(rng, 4);
    const Dim d = build(t, *e);
    if (!d.valid()) continue;
    CAPTURE(t.text(d));
    const auto again = t.parse(t.text(d));
    REQUIRE_MESSAGE(again, again.error().message);
    CHECK(*again == d);
    for (int k = 0; k < 6; ++k) {
      std::vector<std::optional<int64_t>> symbols;
      for (int s = 0; s < kSymbols; ++s) symbols.push_back(1 + static_cast<int64_t>(rng() % 9));
      const auto expected = reference(*e, symbols);
      if (!expected) continue;
      const auto got = t.evaluate(d, symbols);
      REQUIRE_MESSAGE(got, got.error().message);
      REQUIRE(*got == *expected);
      CHECK(t.lower_bound(d).value_or(*got) <= *got);
      CHECK(t.upper_bound(d).value_or(*got) >= *got);
      CHECK(t.is(t.substitute(d, symbols), *expected));
      const auto partly = t.substitute(d, {symbols[0], std::nullopt});
      if (partly.valid()) CHECK(t.evaluate(partly, symbols).value() == *got);
      ++compared;
    }
  }
  CHECK(compared > 5000);
}

TEST_CASE("equal expressions have equal handles") {
  const unsigned seed = 2;
  MESSAGE("seed ", seed);
  std::mt19937 rng(seed);
  for (int i = 0; i < 300; ++i) {
    DimTable t;
    const Dim a = build(t, *random_expression(rng, 2)), b = build(t, *random_expression(rng, 2)),
              c = build(t, *random_expression(rng, 2));
    if (!a.valid() || !b.valid() || !c.valid()) continue;
    CAPTURE(t.text(a));
    CAPTURE(t.text(b));
    const Dim k = t.constant(2 + static_cast<int64_t>(rng() % 5)), m = t.constant(2 + static_cast<int64_t>(rng() % 5));
    CHECK(t.add(a, b) == t.add(b, a));
    CHECK(t.mul(a, b) == t.mul(b, a));
    CHECK(t.add(t.add(a, b), c) == t.add(a, t.add(b, c)));
    CHECK(t.mul(t.add(a, b), c) == t.add(t.mul(a, c), t.mul(b, c)));
    CHECK(t.is(t.sub(a, a), 0));
    CHECK(t.min(a, b) == t.min(b, a));
    CHECK(t.max(a, t.max(b, c)) == t.max(t.max(a, b), c));
    CHECK(t.floordiv(t.mul(a, k), k) == a);
    CHECK(t.floordiv(t.add(t.mul(a, k), b), k) == t.add(a, t.floordiv(b, k)));
    if (t.text(a).find("floordiv") == std::string::npos) CHECK(t.floordiv(t.floordiv(a, k), m) == t.floordiv(a, t.mul(k, m)));
    CHECK(t.ceildiv(a, k) == t.floordiv(t.add(a, t.sub(k, t.constant(1))), k));
    if (!t.is(b, 0)) CHECK(t.floordiv(t.mul(a, b), b) == a);
  }
}

TEST_CASE("dimensions that overflow or grow without bound are invalid, and so is all that is made from them") {
  DimTable t;
  const Dim n = t.symbol("N"), big = t.constant(INT64_MAX);
  CHECK(!t.add(big, t.constant(1)).valid());
  CHECK(!t.mul(t.mul(n, big), t.constant(2)).valid());
  CHECK(!t.sub(t.constant(INT64_MIN), t.constant(1)).valid());
  CHECK(!t.floordiv(t.constant(INT64_MIN), t.constant(-1)).valid());
  CHECK(!t.floordiv(n, t.constant(0)).valid());
  const Dim invalid;
  for (const Dim d : {t.add(n, invalid), t.sub(invalid, n), t.mul(n, invalid), t.floordiv(n, invalid), t.ceildiv(invalid, n),
                      t.min(n, invalid), t.max(invalid, n)})
    CHECK(!d.valid());
  Dim d = n;
  for (int i = 0; i < 100 && d.valid(); ++i) d = t.add(t.mul(d, d), t.floordiv(d, t.constant(7)));
  CHECK(!d.valid());
  Dim widest = n;
  for (int i = 0; i < 100; ++i) widest = t.max(widest, t.symbol("S" + std::to_string(i)));
  CHECK(!widest.valid());
  CHECK(t.text(d) == "?");
  CHECK(!t.evaluate(d, {}));
}

TEST_CASE("evaluation names what is missing or wrong") {
  DimTable t;
  const auto message = [&](const char* text, std::vector<std::optional<int64_t>> values) {
    const auto d = t.parse(text);
    REQUIRE_MESSAGE(d, d.error().message);
    const auto v = t.evaluate(*d, values);
    return v ? std::to_string(*v) : v.error().message;
  };
  CHECK(message("N*4+1", {3}) == "13");
  CHECK(message("N*4+1", {}) == "dimension 'N' has no value");
  CHECK(message("N*4+1", {0}) == "dimension 'N' is 0, must be 1 to 2147483647");
  CHECK(message("N*4+1", {int64_t{1} << 31}) == "dimension 'N' is 2147483648, must be 1 to 2147483647");
  CHECK(message("floordiv(7, M-1)", {1, 1}) == "dimension 'floordiv(7,M-1)' divides by zero");
  CHECK(message("N*N*N", {2147483647}) == "dimension 'N*N*N' overflows");
}

TEST_CASE("dimension text that is not an expression is an error") {
  DimTable t;
  for (const char* text : {"", "N+", "(N", "N)", "N M", "min(N)", "min(N,2", "sqrt(N,2)", "\"N", "\"\\q\"", "1.5",
                           "99999999999999999999", "*N", "N**2"}) {
    CAPTURE(text);
    CHECK(!t.parse(text));
  }
  const std::string deep = std::string(100000, '(') + "N";
  CHECK(!t.parse(deep));
}

}  // namespace
}  // namespace lathe
